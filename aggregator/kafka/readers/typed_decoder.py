"""Records of internal topics by their declared types: anybody who may write there can write anything.

Invariant: a value is of its type, within its bounds, or it is `Damaged`, whatever is wrong with it: numbers or nesting
without end, another type, another encoding. No message quotes the record.
"""

from typing import Annotated, Generic, TypeVar

from msgspec import Meta
from msgspec.json import Decoder

from aggregator.coordinates import EdgePartition

T = TypeVar("T")

# As far as a date can be told, in ms since 1970.
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
# A difference of two clocks, whatever they show.
Difference = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=-1e18, le=1e18)]


class Damaged(ValueError):
    """A record is not what its topic and key say that it is."""


class TypedDecoder(Generic[T]):
    """Decodes JSON of one type.

    Args:
        shape: The type.
    """

    def __init__(self, shape: type[T]) -> None:
        self._decoder: Decoder[T] = Decoder(shape)

    def decode(self, value: bytes | None) -> T:
        """A record's value.

        Raises:
            Damaged: it is not of this type.
        """
        try:
            return self._decoder.decode(value or b"")
        except (ValueError, RecursionError):
            raise Damaged("not of its type") from None


def is_flow(text: str) -> bool:
    """Whether a text names an edge partition."""
    try:
        return EdgePartition.parse(text).partition >= 0
    except ValueError:
        return False


def key_text(key: bytes | None) -> str:
    """A record's key as text; bytes that are none stay readable, and equal no key of ours."""
    return (key or b"").decode(errors="backslashreplace")
