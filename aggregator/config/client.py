"""Blocks of options (`client:`, `schemas_client:`, `storage:`, `catalog:`): what may be set, and why the rest may not.

Invariant: librdkafka's and the registry's by allow-list; secret properties are references, and what decides how safe a
connection is stands in the file; a connection that is open has a reason beside it.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from aggregator.config.librdkafka import ADDRESSES, ALLOWED, REFUSED
from aggregator.config.secrets import SecretRef, secret_ref
from aggregator.config.transport import INSECURE, PROTOCOLS, Opening, reason_refusal, unreasoned

SECRET_PROPERTIES = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "basic.auth.user.info",
    }
)
# What a registry's client takes; how often it asks and how long it waits is the hub's own matter.
REGISTRY_PROPERTIES = (
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
# Names that librdkafka, Spark or a storage driver may give to a secret tomorrow; an address, a client id and the path
# of a key file are none.
_SECRET_WORDS = re.compile(
    r"passw|passphrase|secret|credential(?!s\.client\.id)|user\.info|jaas|private\.?key(?!\.file)"
    r"|access[._-]?key(?![._-]?id)|api[._-]?key"
    r"|token(?!\.endpoint)",
    re.IGNORECASE,
)
# What stores call their keys, beside the words above.
_STORAGE_SECRETS = re.compile(
    r"account.?key|sas.?key|connection.?string|service.?account.?key|application.?credentials.?json|master.?key"
    r"|customer.?key|([._-]|^)sas$|session.?kwargs",
    re.IGNORECASE,
)
# delta-rs would write a version over another writer's: two hubs could both commit (protocol, rule G).
_UNSAFE_STORAGE = {
    "allow_unsafe_rename": None,
    "aws_s3_allow_unsafe_rename": None,
    "conditional_put": "disabled",
    "aws_conditional_put": "disabled",
}
# Whoever may set a variable or write a secret's file may not open a connection.
_DECIDES = re.compile(r"security\.protocol|sasl\.(mechanism|kerberos)|enable\.ssl|ssl\.endpoint|.*\.url|check\.crcs")
_IN_A_COMMAND = ("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9@/._][A-Za-z0-9@/._-]*")
# pyiceberg imports what these name; delta-rs takes any certificate by the other.
_LOADS_CODE = re.compile(r"(^|[.-])impl$", re.IGNORECASE)
_ANY_CERTIFICATE = "allow_invalid_certificates"
_IN_CLEAR = "is a secret: write a reference, `env:NAME` or `file:path`"
# As pyiceberg calls them: `uri`, `oauth2-server-uri`, `s3.signer.uri`, `rest.authorization-url`.
_ADDRESS = re.compile(r"ur[il]$", re.IGNORECASE)
# As the stores' clients call them: `aws_endpoint_url`, `s3.endpoint`, `azure_storage_endpoint`, `gcs.service.host`.
_STORE_ADDRESS = re.compile(r"(endpoint|ur[il]|service\.host)$", re.IGNORECASE)
_NO = ("false", "f", "no", "n", "off", "0")
# Azure's emulator speaks plain text; `adls.dfs-storage-scheme` and its like are `https` or not.
_EMULATOR, _SCHEME = "use_emulator", "scheme"
_SECRET_IN_ADDRESS = re.compile(r"://[^?#\s]*@|[?&;][^=]*(pass|pwd|token|sig|secret|key)[^=]*=", re.IGNORECASE)
# What pyiceberg sends with each request to a REST catalogue; all but this one may be a credential.
_HEADER, _PLAIN_HEADER = "header.", "header.x-iceberg-access-delegation"


def is_secret_property(name: str) -> bool:
    """Whether a property of this name holds a secret; in doubt it does."""
    return name in SECRET_PROPERTIES or _SECRET_WORDS.search(name) is not None


def client_option(value: object) -> str | SecretRef:
    """Keep references as references and everything else as librdkafka's text."""
    if isinstance(value, SecretRef):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return secret_ref(value) if value.startswith(("env:", "file:")) else value
    raise ValueError("a client property is text, a number or true/false")


ClientOption = Annotated[str | SecretRef, BeforeValidator(client_option)]


def refusal(name: str, value: str | SecretRef) -> str | None:
    """Why this property can not be set so; None when it can. The text never holds the value."""
    if name == INSECURE:
        return reason_refusal(value)
    if name not in ALLOWED:
        return _name_refusal(name)
    if is_secret_property(name):
        return _IN_CLEAR if isinstance(value, str) else None
    if _DECIDES.match(name) and not isinstance(value, str):
        return "is no secret, and decides how safe the connection is: write the value itself"
    return _value_refusal(name, str(value))


def _name_refusal(name: str) -> str:
    if name in ADDRESSES:
        return "can not be set here: `bootstrap_servers` of the cluster is its one home"
    if name in REFUSED:
        return f"can not be set: {REFUSED[name]}"
    close = difflib.get_close_matches(name, ALLOWED, n=1)
    return "is no property that can be set here" + (f"; did you mean `{close[0]}`?" if close else "")


def _value_refusal(name: str, value: str) -> str | None:
    if name == "check.crcs" and value != "true":
        return "can not be turned off: a batch that is damaged on disk would be delivered, or passed over in silence"
    if name == "security.protocol" and value.lower() not in PROTOCOLS:
        return "is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    if name in _IN_A_COMMAND and not _PLAIN_WORD.fullmatch(value):
        return "holds letters, digits and @ / . _ - only: librdkafka writes it into the command that runs kinit"
    return None


def registry_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why a registry's property can not be set so; None when it can. The text never holds the value."""
    if name == INSECURE:
        return reason_refusal(value)
    if name not in REGISTRY_PROPERTIES:
        return f"is not known; known here: {', '.join(REGISTRY_PROPERTIES)}"
    if is_secret_property(name) and isinstance(value, str):
        return _IN_CLEAR
    return None


def catalog_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of a table catalogue can not be set so; None when it can. The text never holds the value."""
    if name == INSECURE:
        return reason_refusal(value)
    if _LOADS_CODE.search(name):
        return "can not be set: it loads foreign code into the hub and its workers"
    if not isinstance(value, str):
        decides = _decides(name) or (_ADDRESS.search(name) and name != "uri")
        return "is no secret, and decides how safe the connection is: write the value itself" if decides else None
    if is_secret_property(name) or _STORAGE_SECRETS.search(name) or _is_header(name):
        return _IN_CLEAR
    if _SECRET_IN_ADDRESS.search(value):
        return "holds a user or a password in clear: write the whole address as a reference, `env:NAME` or `file:path`"
    return None


def storage_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of an object store can not be set so; None when it can. The text never holds the value."""
    lower = name.lower()
    if _STORE_ADDRESS.search(name) and not isinstance(value, str):
        return "is no secret, and decides how safe the connection is: write the value itself"
    if lower.endswith(_ANY_CERTIFICATE) and str(value).lower() != "false":
        return "can not be set so: whoever is between would take the store's place, and keys and tables with it"
    if lower in _UNSAFE_STORAGE and _UNSAFE_STORAGE[lower] in (None, str(value).lower()):
        return "can not be set so: two writers could both commit the same version"
    return catalog_refusal(name, value)


def catalog_openings(options: Mapping[str, str | SecretRef]) -> tuple[Opening, ...]:
    """What the options of a table catalogue leave open: of every server that it signs in to, gets a word from, or shows
    one; and of the store, which it may reach by options of its own.
    """
    plain = {name: value for name, value in options.items() if isinstance(value, str)}
    addresses = [name for name in plain if _ADDRESS.search(name)] if any(map(_is_credential, options.items())) else []
    store = {name: value for name, value in plain.items() if not _ADDRESS.search(name)}
    signed = (
        Opening(name, "sends the catalogue's credential in clear", "write an https:// address")
        for name in addresses
        if _is_http(plain[name])
    )
    return (*signed, *storage_openings(store))


def _is_http(value: str) -> bool:
    return value.strip().lower().startswith("http://")


def allows_http(name: str) -> bool:
    """Whether an option of this name decides whether delta-rs talks to a store in plain text."""
    return name.lower().endswith("allow_http")


def storage_openings(options: Mapping[str, str | SecretRef]) -> tuple[Opening, ...]:
    """What the options of an object store leave open."""
    return tuple(
        Opening(name, "sends tables, and what the store lets the hub in by, in clear", "write an https:// address")
        for name, value in options.items()
        if _is_open(name.lower(), str(value).strip().lower())
    )


def _is_open(name: str, value: str) -> bool:
    if allows_http(name) or name.endswith(_EMULATOR):
        return value not in _NO
    if name.endswith(_SCHEME):
        return value != "https"
    return _STORE_ADDRESS.search(name) is not None and _is_http(value)


def _decides(name: str) -> bool:
    """Whether an option says how a store is reached, beside its address."""
    return allows_http(name) or name.lower().endswith((_EMULATOR, _SCHEME))


def _is_header(name: str) -> bool:
    return name.lower().startswith(_HEADER) and name.lower() != _PLAIN_HEADER


def _is_credential(option: tuple[str, str | SecretRef]) -> bool:
    name, value = option
    told = isinstance(value, str) and _SECRET_IN_ADDRESS.search(value) is not None
    return told or is_secret_property(name) or _is_header(name)


Options = dict[str, str | SecretRef]


def checked(
    why: Callable[[str, str | SecretRef], str | None],
    open_by: Callable[[Options], tuple[Opening, ...]] | None = None,
) -> Callable[[Options], Options]:
    """A validator of a block of options.

    Args:
        why: Why an option can not be set so; None when it can. Its text never holds the value.
        open_by: What the options leave open together; they need a reason then, and no reason otherwise. None: nothing
            can be said of the block alone.

    Returns:
        A function that hands the options back, or raises ValidationError: one entry per refused option, at its own
        place, with the reason.
    """

    def validate(options: Options) -> Options:
        refused = [(name, reason) for name, value in options.items() if (reason := why(name, value))]
        if open_by and not refused:
            refused = list(unreasoned(open_by(options), options))
        if refused:
            errors = [
                InitErrorDetails(type=PydanticCustomError("client_option", reason), loc=(name,), input=None)
                for name, reason in refused
            ]
            raise ValidationError.from_exception_data("client", errors, hide_input=True)
        return options

    return validate
