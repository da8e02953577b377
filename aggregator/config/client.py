"""`client:` and `schemas_client:` blocks: properties that a user may set, and the ones that would break the protocol.

Invariant: no property that exactly-once rests on can be set, and secret properties are references.
"""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from aggregator.config.secrets import SecretRef, secret_ref

OWNED_BY_PROTOCOL = {
    "transactional.id": "it is the fencing identity of a slot",
    "enable.idempotence": "transactions need it",
    "acks": "anything but all loses records",
    "isolation.level": "an uncommitted read delivers aborted records",
    "auto.offset.reset": "a reset skips or repeats records in silence; gaps are reported instead",
    "enable.auto.commit": "positions live in the ledger",
    "enable.partition.eof": "positions move past transaction markers by it",
    "group.id": "positions live in the ledger, not in a group",
    "plugin.library.paths": "it loads foreign code into every worker",
    "debug": "it writes payloads into logs",
}
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
    r"passw|passphrase|secret|credential(?!s\.client\.id)|user\.info|jaas|private\.?key(?!\.file)|access\.?key|api\.?key"
    r"|token(?!\.endpoint)",
    re.IGNORECASE,
)
# What stores call their keys, beside the words above.
_STORAGE_SECRETS = re.compile(
    r"account.?key|sas.?key|connection.?string|service.?account.?key|application.?credentials.?json", re.IGNORECASE
)
# delta-rs would write a version over another writer's: two hubs could both commit (protocol, rule G).
_UNSAFE_STORAGE = {
    "allow_unsafe_rename": None,
    "aws_s3_allow_unsafe_rename": None,
    "conditional_put": "disabled",
    "aws_conditional_put": "disabled",
}
_USER_IN_ADDRESS = re.compile(r"://[^/@]*@")


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
    if name == "check.crcs" and value != "true":
        return "can not be turned off: a batch that is damaged on disk would be delivered, or passed over in silence"
    if name in OWNED_BY_PROTOCOL:
        return f"can not be set: {OWNED_BY_PROTOCOL[name]}"
    if name == "bootstrap.servers":
        return "can not be set here: `bootstrap_servers` of the cluster is its one home"
    if is_secret_property(name) and isinstance(value, str):
        return "is a secret: write a reference, `env:NAME` or `file:path`"
    return None


def registry_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why a registry's property can not be set so; None when it can. The text never holds the value."""
    if name not in REGISTRY_PROPERTIES:
        return f"is not known; known here: {', '.join(REGISTRY_PROPERTIES)}"
    return refusal(name, value)


def catalog_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of a table catalogue can not be set so; None when it can. The text never holds the value."""
    if isinstance(value, str) and (is_secret_property(name) or _STORAGE_SECRETS.search(name)):
        return "is a secret: write a reference, `env:NAME` or `file:path`"
    if isinstance(value, str) and _USER_IN_ADDRESS.search(value):
        return "holds a user or a password in clear: write the whole address as a reference, `env:NAME` or `file:path`"
    return None


def storage_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of an object store can not be set so; None when it can. The text never holds the value."""
    lower = name.lower()
    if lower in _UNSAFE_STORAGE and _UNSAFE_STORAGE[lower] in (None, str(value).lower()):
        return "can not be set so: two writers could both commit the same version"
    return catalog_refusal(name, value)


Options = dict[str, str | SecretRef]


def checked(why: Callable[[str, str | SecretRef], str | None]) -> Callable[[Options], Options]:
    """A validator of a block of options.

    Args:
        why: Why an option can not be set so; None when it can. Its text never holds the value.

    Returns:
        A function that hands the options back, or raises ValidationError: one entry per refused option, at its own
        place, with the reason.
    """

    def validate(options: Options) -> Options:
        refused = [
            InitErrorDetails(type=PydanticCustomError("client_option", reason), loc=(name,), input=None)
            for name, value in options.items()
            if (reason := why(name, value))
        ]
        if refused:
            raise ValidationError.from_exception_data("client", refused, hide_input=True)
        return options

    return validate
