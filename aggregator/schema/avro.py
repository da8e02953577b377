"""Parses an Avro schema into a graph of numbered nodes, so that recursion, shared types and contexts need no names.

Invariants: every reference is resolved, and node numbers follow the order of the text. Free text (`doc` and unknown
properties) is left out, so that it cannot travel on. References to other subjects, and names that Avro does not allow,
are refused.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from math import log10
from typing import Any, NamedTuple

from aggregator.budgets import DECIMAL_DIGITS, FIXED_BYTES, SCHEMA_CHARACTERS, SCHEMA_DEPTH, SCHEMA_TAGS
from aggregator.errors import DeadLetterError, Reason

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
TAGS = "confluent:tags"
UNREADABLE_TAG = "(unreadable tag)"
_TAG_LONGEST = 200


class Kind(StrEnum):
    """Names Avro's types."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"
    UNION = "union"


PRIMITIVES = frozenset(list(Kind)[:8])
CONTAINERS = frozenset((Kind.ARRAY, Kind.MAP, Kind.RECORD, Kind.UNION))
_LOGICAL = frozenset(
    {
        "decimal",
        "uuid",
        "date",
        "duration",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    }
)


class Missing(Enum):
    """Stands for a field without a default, because null is a default."""

    MISSING = "missing"


class Logical(NamedTuple):
    """A logical type that Avro defines, with a decimal's two numbers."""

    name: str
    precision: int | None = None
    scale: int | None = None


class Field(NamedTuple):
    """A record's field; `node` is the number of its type's node, `inherited` are tags that earlier versions gave it."""

    name: str
    node: int
    tags: frozenset[str]
    aliases: tuple[str, ...] = ()
    default: Any = Missing.MISSING
    inherited: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Node:
    """Describes one type at one place in a schema.

    Attributes:
        kind: The Avro type.
        name: Full name of a record, enum or fixed.
        children: Nodes of an array's items, a map's values, or a union's branches.
        fields: A record's fields.
        tags: Tags on the type itself.
        inherited: Tags that earlier versions gave it, and that it does not have itself.
        inherited_keys: Tags that a map's keys have from what the map replaced.
        aliases: The full names of its aliases.
        logical: Logical type, where Avro defines it.
        symbols: An enum's symbols.
        default: An enum's default symbol.
        size: The size of a fixed, in bytes.
    """

    kind: Kind
    name: str = ""
    children: tuple[int, ...] = ()
    fields: tuple[Field, ...] = ()
    tags: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    inherited: frozenset[str] = frozenset()
    inherited_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Schema:
    """Nodes by number; `root` is where a value begins."""

    nodes: tuple[Node, ...]
    root: int


# How a .proto file begins.
_PROTOBUF = re.compile(r"\s*(syntax|edition|package|import|message|option)\b")


def parse(text: str) -> Schema:
    """Parse the text of an Avro schema.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, with the place and what is wrong, never a value of the text.
    """
    if len(text) > SCHEMA_CHARACTERS.limit:
        raise _refusal(f"it has more than {SCHEMA_CHARACTERS.limit:,} characters")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _refusal("it is a Protobuf schema" if _PROTOBUF.match(text) else "the schema is not JSON") from None
    if isinstance(data, dict) and ("$schema" in data or data.get("type") == "object"):
        raise _refusal("it is a JSON Schema")
    reader = _Reader()
    root = reader.read(data, "", 0)
    for copy, original in reader.copies:  # the fields of recursive records are complete only now
        node = reader.nodes[original]
        tags = node.tags | reader.nodes[copy].tags
        reader.count.add(tags)
        reader.nodes[copy] = replace(node, tags=tags)
    return Schema(tuple(reader.nodes), root)


def _refusal(message: str) -> DeadLetterError:
    return DeadLetterError(
        Reason.SCHEMA_REFUSED, f"writer schema refused: {message}", hint="register a valid Avro schema under a new id"
    )


class TagCount:
    """Bounds the tags over all parts of a schema: a type with many may be named many times.

    Args:
        limit: The largest number of them.
    """

    def __init__(self, limit: int = SCHEMA_TAGS.limit) -> None:
        self._left = self._limit = limit

    def add(self, tags: Collection[str]) -> None:
        """Count the tags of one more part.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, these are too many.
        """
        self._left -= len(tags)
        if self._left < 0:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"writer schema refused: its parts have more than {self._limit:,} tags in all",
                hint="use fewer tags, or fewer references to a type that has many",
            )

    def joined(self, known: frozenset[str], tags: frozenset[str]) -> frozenset[str]:
        """The tags of one part with more of them; what is new is counted, and raises as `add` does."""
        new = tags - known
        self.add(new)
        return known | new if new else known


@dataclass(slots=True)
class _Reader:
    nodes: list[Node] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    copies: list[tuple[int, int]] = field(default_factory=list)
    count: TagCount = field(default_factory=TagCount)

    def read(self, data: Any, namespace: str, depth: int) -> int:
        if depth > SCHEMA_DEPTH.limit:
            raise _refusal(f"it nests deeper than {SCHEMA_DEPTH.limit}")
        if isinstance(data, str):
            return self.reference(data, namespace)
        if isinstance(data, list):
            return self.union(data, namespace, depth)
        if not isinstance(data, dict) or "type" not in data:
            raise _refusal("a type is a name, a list or an object with `type`")
        kind = data["type"]
        if not isinstance(kind, str):
            return self.tagged(data, namespace, depth)
        if kind in PRIMITIVES:
            return self.add(Node(Kind(kind), tags=_tags(data), logical=_logical(data)))
        reader = getattr(self, {"error": "record"}.get(kind, kind), None) if kind in _COMPLEX else None
        return self.tagged(data, namespace, depth) if reader is None else int(reader(data, namespace, depth))

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def reference(self, name: str, namespace: str) -> int:
        if name in PRIMITIVES:
            return self.add(Node(Kind(name)))
        for full in [name] if "." in name else [full_name(name, namespace), name]:
            if full in self.named:
                return self.named[full]
        raise _refusal("it names a type that neither it nor what it refers to defines")

    def tagged(self, data: dict[str, Any], namespace: str, depth: int) -> int:
        """`{"type": <a type>, …}`: a wrapper that may add tags to a type or to a reference."""
        index = self.read(data["type"], namespace, depth + 1)
        tags = _tags(data)
        if not tags:
            return index
        copy = self.add(Node(self.nodes[index].kind, name=self.nodes[index].name, tags=tags))
        self.copies.append((copy, index))
        return copy

    def union(self, data: list[Any], namespace: str, depth: int) -> int:
        branches = tuple(self.read(item, namespace, depth + 1) for item in data)
        kinds = [(self.nodes[branch].kind, self.nodes[branch].name) for branch in branches]
        if not branches or len(set(kinds)) != len(kinds) or any(kind is Kind.UNION for kind, _ in kinds):
            raise _refusal("a union is empty, holds a union, or holds one type twice")
        return self.add(Node(Kind.UNION, children=branches))

    def array(self, data: dict[str, Any], namespace: str, depth: int) -> int:
        items = self.read(data.get("items"), namespace, depth + 1)
        return self.add(Node(Kind.ARRAY, children=(items,), tags=_tags(data)))

    def map(self, data: dict[str, Any], namespace: str, depth: int) -> int:
        values = self.read(data.get("values"), namespace, depth + 1)
        return self.add(Node(Kind.MAP, children=(values,), tags=_tags(data)))

    def define(self, data: dict[str, Any], namespace: str, node: Node) -> tuple[int, str]:
        """Number a named type before its fields are read, so that they can name it."""
        name = data.get("name")
        if not isinstance(name, str) or not FULL_NAME.fullmatch(name) or name in PRIMITIVES:
            raise _refusal("a named type has no name that Avro allows")
        space = data.get("namespace")
        if space is not None and (not isinstance(space, str) or (space and not FULL_NAME.fullmatch(space))):
            raise _refusal("a namespace is not one that Avro allows")
        full = full_name(name, namespace if space is None else space)
        if full in self.named:
            raise _refusal("one name is defined twice")
        space = full.rpartition(".")[0]
        aliases = tuple(full_name(alias, space) for alias in _names(data.get("aliases"), FULL_NAME))
        index = self.add(replace(node, name=full, tags=_tags(data), aliases=aliases))
        self.named[full] = index
        return index, space

    def fixed(self, data: dict[str, Any], namespace: str, _depth: int) -> int:
        size = data.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= FIXED_BYTES.limit:
            raise _refusal("a fixed has no size")
        return self.define(data, namespace, Node(Kind.FIXED, size=size, logical=_logical(data)))[0]

    def enum(self, data: dict[str, Any], namespace: str, _depth: int) -> int:
        symbols = _names(data.get("symbols"), _NAME)
        default = data.get("default")
        if len(set(symbols)) != len(symbols) or (default is not None and default not in symbols):
            raise _refusal("an enum names a symbol twice, or a default that is none of its symbols")
        return self.define(data, namespace, Node(Kind.ENUM, symbols=symbols, default=default))[0]

    def record(self, data: dict[str, Any], namespace: str, depth: int) -> int:
        index, space = self.define(data, namespace, Node(Kind.RECORD))
        items = data.get("fields")
        if not isinstance(items, list) or not all(isinstance(item, dict) and "type" in item for item in items):
            raise _refusal("a record has no list of fields, or a field has no type")
        fields = []
        for item in items:
            (name,) = _names([item.get("name")], _NAME)
            node = self.read(item["type"], space, depth + 1)
            default = item.get("default", Missing.MISSING)
            fields.append(Field(name, node, _tags(item), _names(item.get("aliases"), _NAME), default))
        if len({item.name for item in fields}) != len(fields):
            raise _refusal("a record names a field twice")
        self.nodes[index] = replace(self.nodes[index], fields=tuple(fields))
        return index


_COMPLEX = frozenset(("record", "error", "enum", "fixed", "array", "map"))


def full_name(name: str, namespace: str) -> str:
    """A type's name with its namespace, where it has none of its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _names(data: Any, pattern: re.Pattern[str]) -> tuple[str, ...]:
    if data is None:
        return ()
    if not isinstance(data, list) or not all(isinstance(name, str) and pattern.fullmatch(name) for name in data):
        raise _refusal("a name is not one that Avro allows")
    return tuple(data)


def _tags(data: dict[str, Any]) -> frozenset[str]:
    tags = data.get(TAGS, [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _refusal(f"{TAGS} is not a list of names")
    return printable_tags(tags)


def printable_tags(tags: Iterable[str]) -> frozenset[str]:
    """Tags as they can be shown and written; one that is no short printable name is told as that, and stays a tag."""
    return frozenset(tag if tag.isprintable() and 0 < len(tag) <= _TAG_LONGEST else UNREADABLE_TAG for tag in tags)


def _logical(data: dict[str, Any]) -> Logical | None:
    """The logical type, where it is one: an invalid decimal is bytes, as the specification says."""
    name = data.get("logicalType")
    if not isinstance(name, str) or name not in _LOGICAL:
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = data.get("precision"), data.get("scale")
    if any(isinstance(number, int) and number > DECIMAL_DIGITS.limit for number in (precision, scale)):
        raise _refusal(f"a decimal has more than {DECIMAL_DIGITS.limit:,} digits")
    if type(precision) is not int or (scale is not None and type(scale) is not int) or precision == 0:
        return None
    is_one = 0 <= (scale or 0) <= precision and _holds(data, precision)
    return Logical(name, precision, scale) if is_one else None


def _holds(data: dict[str, Any], digits: int) -> bool:
    """Whether every number of so many digits has a place in the type."""
    size: int = data["size"] if data["type"] == Kind.FIXED else 0
    return bool(data["type"] == Kind.BYTES) or digits <= (8 * size - 1) * log10(2)
