"""Whether readers of one schema can read what another one wrote, and what changed between the two.

Invariant: pure, and speaks of names and types only, never of defaults or symbols. A schema that recurs is judged once.
Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aggregator.errors import DeadLetterError, HoldError
from aggregator.schema.avro import Field, Kind, Missing, Node, Schema, parse

_PROMOTED = {
    Kind.INT: {Kind.LONG, Kind.FLOAT, Kind.DOUBLE},
    Kind.LONG: {Kind.FLOAT, Kind.DOUBLE},
    Kind.FLOAT: {Kind.DOUBLE},
    Kind.STRING: {Kind.BYTES},
    Kind.BYTES: {Kind.STRING},
}
# Who changes a policy and leaves its version as it was is not seen by the schemas.
_BY_WRITERS = "the writers changed this, or somebody the policy without its version, who may undo that: begin"
# More than this is no help to a reader.
_LINES = 20
POLICY = "hub.policy"


def reads(reader: Schema, writer: Schema) -> bool:
    """Whether every value that was written under `writer` can be read under `reader`."""
    return _Resolution(reader, writer).verdict()


class _Resolution:
    """Avro's rules, pair by pair.

    A pair that is met again below itself is taken for readable. What was found unreadable under that assumption is so;
    what was found readable is found again until nothing more falls.
    """

    def __init__(self, reader: Schema, writer: Schema) -> None:
        self._reader = reader
        self._writer = writer
        self._fallen: set[tuple[int, int]] = set()
        self._met: set[tuple[int, int]] = set()

    def verdict(self) -> bool:
        while True:
            fallen = len(self._fallen)
            self._met = set()
            if not self.reads(self._reader.root, self._writer.root) or len(self._fallen) == fallen:
                return (self._reader.root, self._writer.root) not in self._fallen

    def reads(self, reader: int, writer: int) -> bool:
        pair = (reader, writer)
        if pair in self._fallen or pair in self._met:
            return pair not in self._fallen
        self._met.add(pair)
        if not self._judged(self._reader.nodes[reader], self._writer.nodes[writer], pair):
            self._fallen.add(pair)
        return pair not in self._fallen

    def _judged(self, reader: Node, writer: Node, pair: tuple[int, int]) -> bool:
        if writer.kind is Kind.UNION:
            return all(self.reads(pair[0], branch) for branch in writer.children)
        if reader.kind is Kind.UNION:
            return any(self.reads(branch, pair[1]) for branch in reader.children)
        if reader.kind is not writer.kind:
            return reader.kind in _PROMOTED.get(writer.kind, ())
        if reader.kind in (Kind.ARRAY, Kind.MAP):
            return self.reads(reader.children[0], writer.children[0])
        return _named_alike(reader, writer) and self._alike(reader, writer)

    def _alike(self, reader: Node, writer: Node) -> bool:
        """Two of one kind and name."""
        match reader.kind:
            case Kind.RECORD:
                return all(self._has(field, writer) for field in reader.fields)
            case Kind.ENUM:
                return set(writer.symbols) <= set(reader.symbols) or reader.default is not None
        return reader.size == writer.size and _decimal(reader) == _decimal(writer)

    def _has(self, field: Field, writer: Node) -> bool:
        names = (field.name, *field.aliases)
        found = next((other for other in writer.fields if other.name in names), None)
        if found is None:
            return field.default is not Missing.MISSING
        return self.reads(field.node, found.node)


def _named_alike(reader: Node, writer: Node) -> bool:
    """Names without namespace, or an alias of the reader."""
    return _short(reader.name) == _short(writer.name) or writer.name in reader.aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _decimal(node: Node) -> tuple[int | None, int]:
    """Precision and scale of a decimal; the only logical type that resolution looks at."""
    if node.logical is None or node.logical.name != "decimal":
        return (None, 0)
    return (node.logical.precision, node.logical.scale or 0)


class _Place(NamedTuple):
    type: str
    optional: bool


def differences(old: Schema, new: Schema) -> list[str]:
    """One line per field that came (`+`), left (`-`) or changed its type (`~`): paths and types."""
    before, after = dict(_places(old)), dict(_places(new))
    lines = []
    for path in sorted({*before, *after}):
        if path not in after:
            lines.append(f"- {path}: {before[path].type}")
        elif path not in before:
            lines.append(f"+ {path}: {after[path].type}{'' if after[path].optional else ', without a default'}")
        elif before[path].type != after[path].type:
            lines.append(f"~ {path}: {before[path].type} -> {after[path].type}")
    rest = len(lines) - _LINES
    return lines if rest <= 0 else [*lines[:_LINES], f"and {rest} more"]


def _places(schema: Schema) -> Iterator[tuple[str, _Place]]:
    yield "(value)", _Place(_type(schema, schema.root), optional=False)
    yield from _below(schema, schema.root, "", frozenset())


def _below(schema: Schema, number: int, path: str, above: frozenset[str]) -> Iterator[tuple[str, _Place]]:
    node = schema.nodes[number]
    if node.kind is Kind.RECORD and node.name not in above:
        for field in node.fields:
            inner = f"{path}.{field.name}" if path else field.name
            yield inner, _Place(_type(schema, field.node), field.default is not Missing.MISSING)
            yield from _below(schema, field.node, inner, above | {node.name})
    for child in node.children:
        yield from _below(schema, child, path + {Kind.ARRAY: "[]", Kind.MAP: "{}"}.get(node.kind, ""), above)


def _type(schema: Schema, number: int) -> str:
    node = schema.nodes[number]
    if node.kind in (Kind.ARRAY, Kind.MAP):
        return f"{node.kind} of {_type(schema, node.children[0])}"
    if node.kind is Kind.UNION:
        return " | ".join(_type(schema, child) for child in node.children)
    name = f"{node.kind} {node.name}" if node.name else str(node.kind)
    numbers = {Kind.ENUM: f" of {len(node.symbols)} symbols", Kind.FIXED: f" of {node.size} bytes"}.get(node.kind, "")
    return name + numbers + (f" ({node.logical.name})" if node.logical else "")


def may_follow(text: str, newest: str) -> bool:
    """Whether a derived schema may become a version after `newest` (BACKWARD: its readers read what is there).

    Under one policy the writers' own registry has judged how their schemas follow each other, and which of two reaches
    the hub first is an accident of the partitions: then it is enough that readers of `newest` can read the other.

    Raises:
        HoldError: a text is no Avro schema.
    """
    new, old = _parsed(text), _parsed(newest)
    return reads(new, old) or (_policy(text) is not None and _policy(text) == _policy(newest) and reads(old, new))


def same_type(text: str, other: str) -> bool:
    """Whether two schemas speak of one type: a topic may carry several kinds of record, which do not follow each other.

    Raises:
        HoldError: a text is no Avro schema.
    """
    first, second = _parsed(text), _parsed(other)
    return first.nodes[first.root].name == second.nodes[second.root].name


def refusal(subject: str, text: str, versions: Iterable[tuple[int, str]]) -> HoldError | None:
    """Why a derived schema cannot follow the newest version of its type, or None.

    Args:
        subject: Central subject.
        text: The derived schema.
        versions: Numbers and texts of what is registered there, newest first.

    Raises:
        HoldError: a text is no Avro schema.
    """
    for version, newest in versions:
        if same_type(text, newest):
            return None if may_follow(text, newest) else breaking(subject, version, text, newest)
    return None


def breaking(subject: str, version: int, text: str, newest: str) -> HoldError:
    """The refusal of a derived schema, with what differs.

    Args:
        subject: Central subject.
        version: The version that the new schema cannot follow.
        text: The derived schema.
        newest: The text of that version.
    """
    changes = "; ".join(differences(_parsed(newest), _parsed(text)))
    policy = _policy(text)
    same = policy is not None and policy == _policy(newest)
    return HoldError(
        f"subject {subject}: readers of the schema that {policy or 'the policy'} derives cannot read version {version},"
        f" which is in the topic: {changes or 'the registry sees a difference that is none of names and types'}",
        hint=(_BY_WRITERS if same else "undo that part of the policy, or begin")
        + " a new generation of the topic: stop the hub, drain (aggregator run --drain), then give the topic a rule of"
        ' its own before the one that it shares, with central: "{edge}.{topic}.v2", and lake: "{topic}_v2" if a column'
        " changed its type; the flow goes on there with this record",
    )


def _parsed(text: str) -> Schema:
    try:
        return parse(text)
    except DeadLetterError as error:
        raise HoldError(
            f"compatibility cannot be judged: {error.message}", hint="see what is registered under the central subject"
        ) from None


def _policy(text: str) -> str | None:
    """Name and version of the policy that a derived schema was made under."""
    shape = json.loads(text)
    labels = [part.get(POLICY) for part in (shape if isinstance(shape, list) else [shape]) if isinstance(part, dict)]
    return next((label for label in labels if isinstance(label, str)), None)
