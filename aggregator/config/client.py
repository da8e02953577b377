"""Decides which options `client:`, `consumer:`, `schemas_client:` and similar blocks may set, and why not the others.

Invariant: only allow-listed options are accepted, and secret properties are references. Settings that decide how safe a
connection is stand in the file itself. An open connection has a reason beside it.
"""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from aggregator.config.contexts import CONTEXT, context_refusal
from aggregator.config.document import did_you_mean
from aggregator.config.features import MECHANISMS
from aggregator.config.glue import PROFILE, profile_refusal
from aggregator.config.librdkafka import ADDRESSES, ALIASES, ALLOWED, IDENTITY, REFUSED, ROLES
from aggregator.config.secrets import SecretRef, secret_ref
from aggregator.config.transport import INSECURE, PROTOCOLS, InsecureSetting, reason_refusal, unreasoned

SECRET_PROPERTIES = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "basic.auth.user.info",
        "bearer.auth.token",
        "bearer.auth.client.secret",
    }
)
# Options of a registry's client. The hub itself decides how often the client asks and how long it waits.
REGISTRY_PROPERTIES = (
    "basic.auth.user.info",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.identity.pool.id",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.logical.cluster",
    "bearer.auth.scope",
    "bearer.auth.token",
    CONTEXT,
    PROFILE,
    "https.ca.location",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
# Words in the names of secrets, also in future versions of librdkafka, Spark or a storage driver. An address, a client
# id and the path of a key file are not secret.
_SECRET_WORDS = re.compile(
    r"passw|passphrase|secret|credential(?!s\.client\.id)|user\.info|jaas|private\.?key(?!\.file)"
    r"|access[._-]?key(?![._-]?id)|api[._-]?key"
    r"|token(?!\.endpoint)",
    re.IGNORECASE,
)
# A person who can set a variable or write a secret's file must not be able to open a connection.
_DECIDES = re.compile(r"security\.protocol|sasl\.(mechanism|kerberos)|enable\.ssl|ssl\.endpoint|.*\.url|check\.crcs")
_IN_A_COMMAND = ("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9@/._][A-Za-z0-9@/._-]*")
IN_CLEAR = "is a secret: write a reference, `env:NAME` or `file:path`"


def is_secret_property(name: str) -> bool:
    """Whether a property of this name holds a secret; in doubt it does."""
    return name in SECRET_PROPERTIES or _SECRET_WORDS.search(name) is not None


def holds_private_key(text: str) -> bool:
    """Whether a text holds a private key in PEM, of any kind, alone or beside a certificate."""
    return "PRIVATE KEY" in text


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


def why_refused(name: str, value: str | SecretRef) -> str | None:
    """Why this property cannot have this value; None if it can. The text never holds the value."""
    if name == INSECURE:
        return reason_refusal(value)
    if name not in ALLOWED:
        return _name_refusal(name)
    if is_secret_property(name):
        return IN_CLEAR if isinstance(value, str) else None
    if _DECIDES.match(name) and not isinstance(value, str):
        return "is no secret, and decides how safe the connection is: write the value itself"
    return _value_refusal(name, str(value))


_DOING = {"consumer": "read", "producer": "write", "admin": "ask"}


def role_refusal(role: str) -> Callable[[str, str | SecretRef], str | None]:
    """Make the check of the options of one role's block: `consumer:`, `producer:` or `admin:`."""

    def why(name: str, value: str | SecretRef) -> str | None:
        if name in IDENTITY or name == INSECURE:
            return "belongs into `client:`: all clients of a cluster sign in alike, as one principal"
        owner = next((other for other, names in ROLES.items() if name in names and other != role), None)
        if owner is not None:
            return f"is for clients that {_DOING[owner]}: write it in `{owner}:`"
        return why_refused(name, value)

    return why


def _name_refusal(name: str) -> str:
    if name in ADDRESSES:
        return "cannot be set here: `bootstrap_servers` of the cluster is its one home"
    if name in REFUSED:
        return f"cannot be set: {REFUSED[name]}"
    return "; ".join(filter(None, ("is no property that can be set here", did_you_mean(name, ALLOWED))))


def _value_refusal(name: str, value: str) -> str | None:
    if name == "check.crcs" and value != "true":
        return "cannot be turned off: a batch that is damaged on disk would be delivered, or passed over in silence"
    if name == "security.protocol" and value.lower() not in PROTOCOLS:
        return "is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    if name in ("sasl.mechanism", "sasl.mechanisms") and value not in MECHANISMS:
        return f"is one of {', '.join(MECHANISMS)}, in capital letters"
    if name in _IN_A_COMMAND and not _PLAIN_WORD.fullmatch(value):
        return "holds letters, digits and @ / . _ - only: librdkafka writes it into the command that runs kinit"
    return None


def registry_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why a registry's property cannot have this value; None if it can. The text never holds the value."""
    if name == INSECURE:
        return reason_refusal(value)
    if name not in REGISTRY_PROPERTIES:
        return f"is not known; known here: {', '.join(REGISTRY_PROPERTIES)}"
    if is_secret_property(name):
        return IN_CLEAR if isinstance(value, str) else None
    if not isinstance(value, str):
        return "is no secret: write the value itself"
    if name == PROFILE:
        return profile_refusal(value)
    return context_refusal(value) if name == CONTEXT else None


Options = dict[str, str | SecretRef]


def checked(
    why: Callable[[str, str | SecretRef], str | None],
    open_by: Callable[[Options], tuple[InsecureSetting, ...]] | None = None,
) -> Callable[[Options], Options]:
    """Make a validator of a block of options.

    Args:
        why: Returns why an option cannot have its value; None if it can. Its text never holds the value.
        open_by: Returns what the options leave open together. Only then is a reason needed and allowed. None: the block
            alone does not decide it.

    Returns:
        A function that hands the options back, or raises ValidationError: one entry per refused option, at its own
        place, with the reason.
    """

    def validate(options: Options) -> Options:
        refused = [(name, reason) for name, value in options.items() if (reason := why(name, value))]
        refused += [
            (name, f"and `{other}` are two names of one property: keep one of them")
            for name, other in ALIASES.items()
            if name in options and other in options and not why(name, options[name])
        ]
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
