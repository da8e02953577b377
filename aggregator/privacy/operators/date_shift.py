"""`date_shift`: a date or timestamp moves by whole days, by the same number for every date of one entity.

    T     = HMAC-SHA-256(sub-key, canonical entity), a big-endian number
    shift = the (T mod n)th of the n whole days in the range, from its lower end; never 0

The sub-key is that of `date-shift` (`config.subkeys`), so no token and no dead letter reveals a shift.
Invariants: the type stays, and so do distances between the days of one entity. The time of day is removed, because
whole days would leave it as it is, to the microsecond. A timestamp becomes the beginning of its day, a text its date. A
record without the entity gets the type's constant, as `redact` makes it, and so does a text that is not an ISO date. A
date beyond its type's range fails.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from cryptography.hazmat.primitives import hashes, hmac
from pydantic import AfterValidator, BeforeValidator, Field

from aggregator.config.secrets import ring_of
from aggregator.config.subkeys import Purpose, subkey
from aggregator.privacy.fields.field_types import FieldPath, Name
from aggregator.privacy.fields.leaf import Leaf, Paired, Value
from aggregator.privacy.operators.calendar import DAY_SECONDS, TICKS
from aggregator.privacy.operators.descriptor import Descriptor, KeyRings, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.redact import REDACTED, Redact, constant
from aggregator.privacy.tokens.tokens import Normalize, canonical
from aggregator.schema.avro import Kind

_ISO = len("1984-05-06")
# A smaller number of possible shifts could be undone by trying them.
LEAST_SHIFTS = 2


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


class DateShift(Parameters):
    """A date moves by whole days, as many for all of one `entity`, a field of the same record; its time of day goes."""

    operator: Literal["date_shift"] = "date_shift"
    entity: FieldPath
    days: Annotated[tuple[Days, Days], AfterValidator(_ordered), BeforeValidator(_bounds)]
    key: Name
    normalize: Normalize = "none"


def result(_rule: DateShift, leaf: Leaf) -> Leaf | None:
    """The type of the leaf, for dates, timestamps and text."""
    if leaf.kind is Kind.STRING and leaf.logical is None:
        return leaf
    name = leaf.logical.name if leaf.logical is not None else ""
    return leaf if name == "date" or "timestamp-" in name else None


def build(rule: DateShift, leaf: Leaf, key_rings: KeyRings, *_: object) -> Operator:
    """Dates, each moved by the shift of the entity beside it.

    Raises:
        ConfigError: the key is not configured, or its reference cannot be read.
    """
    material = ring_of(rule.key, key_rings).material(rule.key)
    keyed = hmac.HMAC(subkey(material, Purpose.DATE_SHIFT), hashes.SHA256())
    without = constant(Redact(), leaf)
    moved = _mover(leaf)

    def shifted(pairs: Sequence[Paired]) -> list[Value | None]:
        shifts = {entity: _shift(rule, keyed, entity) for _, entity in pairs if entity is not None}
        return [without if entity is None else moved(value, shifts[entity]) for value, entity in pairs]

    return shifted


def _shift(rule: DateShift, keyed: hmac.HMAC, entity: Value) -> int:
    made = keyed.copy()
    made.update(canonical(entity, rule.normalize))
    low, high = rule.days
    holds_zero = low <= 0 <= high
    place = int.from_bytes(made.finalize()) % (high - low + 1 - holds_zero)
    shift = low + place
    return shift + 1 if holds_zero and shift >= 0 else shift


def _mover(leaf: Leaf) -> Callable[[Value, int], Value]:
    if leaf.kind is Kind.STRING:
        return lambda text, days: _text_moved(str(text), days)
    name = leaf.logical.name if leaf.logical is not None else ""
    ticks = 1 if name == "date" else DAY_SECONDS * TICKS[name.rpartition("-")[2]]
    return lambda value, days: (int(value) // ticks + days) * ticks


def _text_moved(text: str, days: int) -> str:
    """The day, moved; behind it a time of day may stand, and nothing else."""
    text = text.strip()
    day, rest = text[:_ISO], text[_ISO:]
    try:
        if rest:
            datetime.fromisoformat(text)
        before = date.fromisoformat(day)
    except ValueError:
        return REDACTED
    if len(day) < _ISO or (rest and rest[0] not in "T "):
        return REDACTED
    return (before + timedelta(days)).isoformat()


DATE_SHIFT = Descriptor(
    parameters=DateShift,
    strongest=PrivacyClass.PSEUDONYMOUS,
    result=result,
    build=build,
    other_field=lambda rule: rule.entity,
    is_sampled=False,
)
