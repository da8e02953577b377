"""The type of a leaf before and after an operator, and the Python values that operators receive.

Invariant: an operator receives text as `str`, integers as `int`, enums as their symbol, and all other types as raw
`bytes` of the Avro encoding. No conversion can lose a bit.
"""

from typing import NamedTuple

from aggregator.schema.avro import Kind, Logical, Node

Value = str | int | bytes
# A value that another value's operator sees; floating point numbers only show that a value is present.
Shown = Value | float
INTEGERS = frozenset((Kind.INT, Kind.LONG))


class Paired(NamedTuple):
    """A value, and the value of another field of the same record."""

    value: Value
    other: Value | None


class Leaf(NamedTuple):
    """Describes a type without parts.

    Attributes:
        kind: The Avro type; never a container.
        logical: The logical type; None for none.
        size: Bytes of a fixed.
        symbols: Symbols of an enum.
        nullable: The type is `["null", T]`; only operators make it so.
    """

    kind: Kind
    logical: Logical | None = None
    size: int = 0
    symbols: tuple[str, ...] = ()
    nullable: bool = False

    @property
    def is_uuid(self) -> bool:
        """Whether values are uuids, in either encoding."""
        return self.logical is not None and self.logical.name == "uuid"


def leaf_of(node: Node) -> Leaf:
    """The leaf type of a schema's node."""
    return Leaf(node.kind, node.logical, node.size, node.symbols)
