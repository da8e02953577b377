"""This module decodes records of internal topics by declared types, because other principals may write there as well.

Invariant: a value has its type and lies within its bounds, or `CorruptRecord` is raised, whatever the fault: endless
numbers, endless nesting, another type, another encoding. A record of a later version of the hub (`v`) is never taken
for a record of this version. No error message quotes the record.
"""

from collections.abc import Hashable
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct
from msgspec.json import Decoder

from aggregator.coordinates import EdgePartition
from aggregator.errors import AggregatorError

T = TypeVar("T")

# A moment within the calendar, in ms since 1970.
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
# The difference of two clocks, which may show any time.
Difference = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=-1e18, le=1e18)]


class CorruptRecord(ValueError):
    """Raised for a record whose content does not match its topic and key."""


class UnsupportedVersion(CorruptRecord):
    """Raised for a record that a later version of the hub wrote.

    Attributes:
        version: Which one of its kind.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"of version {version}")
        self.version = version


class _Version(Struct):
    v: Number = 0


_VERSIONS = Decoder(_Version)


def check_version(value: bytes, known: int) -> None:
    """Refuse what a later version wrote; what says no version is of the first.

    Args:
        value: A record's.
        known: The newest version of its kind.

    Raises:
        UnsupportedVersion: it says a later one.
    """
    try:
        version = _VERSIONS.decode(value).v
    except (ValueError, RecursionError):
        return
    if version > known:
        raise UnsupportedVersion(version)


def unreadable(error: CorruptRecord, hint: str) -> tuple[str, str]:
    """What a record is that cannot be read, and what to do about it.

    Args:
        error: Why not.
        hint: What to do about a damaged one.
    """
    if isinstance(error, UnsupportedVersion):
        return f"{error}, which this hub does not know", "start the version of the hub that wrote it, or a later one"
    return "damaged", hint


class DamagedRecords:
    """Keeps the errors of a log's damaged records until a later record of the same key takes their place."""

    def __init__(self) -> None:
        self._errors: dict[Hashable, AggregatorError] = {}

    def add(self, key: Hashable, error: AggregatorError) -> None:
        """Note the error of a damaged record."""
        self._errors[key] = error

    def mend(self, key: Hashable) -> None:
        """Forget the error of a key, because a later record takes the place of the damaged one."""
        self._errors.pop(key, None)

    def require_none(self) -> None:
        """Raise the first error that was not mended, after the whole log was read."""
        for error in self._errors.values():
            raise error


class TypedDecoder(Generic[T]):
    """Decodes JSON that has one declared type.

    Args:
        shape: The type that it decodes.
        version: The newest version of it that is known.
    """

    def __init__(self, shape: type[T], version: int = 1) -> None:
        self._decoder: Decoder[T] = Decoder(shape)
        self._version = version

    def decode(self, value: bytes | None) -> T:
        """Decode a record's value.

        Raises:
            CorruptRecord: it is not of this type, or of a later version.
        """
        text = value or b""
        check_version(text, self._version)
        try:
            return self._decoder.decode(text)
        except (ValueError, RecursionError):
            raise CorruptRecord("not of its type") from None


def is_flow(text: str) -> bool:
    """Whether a text names an edge partition."""
    try:
        return EdgePartition.parse(text).partition >= 0
    except ValueError:
        return False


def key_text(key: bytes | None) -> str:
    """A record's key as text; bytes that are none stay readable, and equal no key of ours."""
    return (key or b"").decode(errors="backslashreplace")
