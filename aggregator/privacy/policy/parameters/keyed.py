"""Parameters of the operators with a key; `key` names an entry of `keys:` in the hub's configuration."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from aggregator.privacy.policy.parameters.model import FieldPath, Model, Name

Normalize = Literal["none", "trim", "casefold", "email", "e164", "digits"]
# Fewer could be undone by trying.
LEAST_SHIFTS = 2
Encode = Literal["hex", "base64url", "uuid", "bytes"]


class Pseudonymize(Model):
    """The value becomes a keyed token; tokens of one domain can be joined."""

    operator: Literal["pseudonymize"] = "pseudonymize"
    key: Name
    domain: Name
    normalize: Normalize = "none"
    encode: Encode = "hex"


class Encrypt(Model):
    """The value becomes an AES-256-GCM envelope, another one in every batch; a key of 32 bytes."""

    operator: Literal["encrypt"] = "encrypt"
    key: Name


def _bounds(value: Any) -> Any:
    """One number stands for both directions."""
    number = str(value).removeprefix("+")
    return (-int(number), int(number)) if number.isascii() and number.isdecimal() else value


def _ordered(value: tuple[int, int]) -> tuple[int, int]:
    low, high = value
    if high - low < LEAST_SHIFTS:
        raise ValueError("`days` is a number, or a smaller and a larger one; with room for several shifts")
    return value


Days = Annotated[int, Field(ge=-100_000, le=100_000)]


class DateShift(Model):
    """A date moves by whole days, as many for all of one `entity`, a field of the same record; its time of day goes."""

    operator: Literal["date_shift"] = "date_shift"
    entity: FieldPath
    days: Annotated[tuple[Days, Days], AfterValidator(_ordered), BeforeValidator(_bounds)]
    key: Name
    normalize: Normalize = "none"


class EncryptDeterministic(Model):
    """The value becomes an AES-256-SIV envelope, always the same one; a key of 64 bytes."""

    operator: Literal["encrypt_deterministic"] = "encrypt_deterministic"
    key: Name
