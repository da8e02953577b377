"""Decides whether readers of one schema can read records of another one, and describes the changes between the two.

Invariant: pure. Messages contain names and types only, never defaults or symbols. A recursive schema is judged once.
Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aggregator.errors import DeadLetterError, HoldError
from aggregator.schema.avro import Field, Kind, Missing, Node, Schema, parse
from aggregator.schema.registry import IncompatibleSchema

_PROMOTED = {
    Kind.INT: {Kind.LONG, Kind.FLOAT, Kind.DOUBLE},
    Kind.LONG: {Kind.FLOAT, Kind.DOUBLE},
    Kind.FLOAT: {Kind.DOUBLE},
    Kind.STRING: {Kind.BYTES},
    Kind.BYTES: {Kind.STRING},
}
# A change of a policy whose version stays the same is not visible in the schemas.
_BY_WRITERS = (
    "the writers changed this (or the policy did, whose version was left as it was: undo that):"
    " drop the field, or begin"
)
# A longer message does not help its reader.
_LINES = 20
# A topic that was begun anew has its number in its name, as the advice says.
_GENERATION = re.compile(r"\.v(\d{1,4})-(?:value|key)$")
_STEPS = {Kind.ARRAY: "[]", Kind.MAP: "{}"}
POLICY = "hub.policy"


def reads(reader: Schema, writer: Schema) -> bool:
    """Whether every value that was written under `writer` can be read under `reader`."""
    return _Resolution(reader, writer).verdict()


class _Resolution:
    """Applies Avro's rules of schema resolution to pairs of types.

    A pair that is met again below itself is taken for readable. What was found unreadable under that assumption is so;
    what was found readable is found again until nothing more falls.
    """

    def __init__(self, reader: Schema, writer: Schema) -> None:
        self._reader = reader
        self._writer = writer
        self._fallen: set[tuple[int, int]] = set()
        self._met: set[tuple[int, int]] = set()
        self._branches: dict[int, Mapping[str, list[int]]] = {}

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
            return any(self.reads(branch, pair[1]) for branch in self._candidates(pair[0], writer))
        if reader.kind is not writer.kind:
            return reader.kind in _PROMOTED.get(writer.kind, ())
        if reader.kind in (Kind.ARRAY, Kind.MAP):
            return self.reads(reader.children[0], writer.children[0])
        return _named_alike(reader, writer) and self._alike(reader, writer)

    def _candidates(self, union: int, writer: Node) -> Sequence[int]:
        """Branches that can read a type: of a named one those that are called so, or once were."""
        children = self._reader.nodes[union].children
        if not writer.name:
            return children
        if union not in self._branches:
            called: defaultdict[str, list[int]] = defaultdict(list)
            for child in children:
                node = self._reader.nodes[child]
                for name in {_short(node.name), *node.aliases} if node.name else ():
                    called[name].append(child)
            self._branches[union] = called
        of = self._branches[union]
        return list(dict.fromkeys((*of.get(_short(writer.name), ()), *of.get(writer.name, ()))))

    def _alike(self, reader: Node, writer: Node) -> bool:
        """Whether a reader's type can read a writer's type of the same kind and name."""
        match reader.kind:
            case Kind.RECORD:
                there = {field.name: (at, field) for at, field in enumerate(writer.fields)}
                return all(self._has(field, there) for field in reader.fields)
            case Kind.ENUM:
                return set(writer.symbols) <= set(reader.symbols) or reader.default is not None
        return reader.size == writer.size and _decimal(reader) == _decimal(writer)

    def _has(self, field: Field, there: Mapping[str, tuple[int, Field]]) -> bool:
        """Whether the writer's fields, each with its place, hold one; the first of them counts."""
        found = [there[name] for name in (field.name, *field.aliases) if name in there]
        if not found:
            return field.default is not Missing.MISSING
        return self.reads(field.node, min(found)[1].node)


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


def differences(old: Schema, new: Schema) -> list[str]:
    """One line per field that came (`+`), left (`-`) or changed its type (`~`): paths and types.

    Two types that stand for each other are compared at the first of their places: a schema may name one type at more
    places than anybody could look at.
    """
    lines = [line for _, line in sorted(_changes(old, new))]
    rest = len(lines) - _LINES
    return lines if rest <= 0 else [*lines[:_LINES], f"and {rest} more"]


def _changes(old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    """The path and a line of each change."""
    first, second = _type(old, old.root), _type(new, new.root)
    if first != second:
        yield "(value)", f"~ (value): {first} -> {second}"
    waiting = deque([(old.root, new.root, "")])
    met = {(old.root, new.root)}
    while waiting:
        before, after, path = waiting.popleft()
        pairs = [(one, other, path + step) for one, other, step in _parts(old, before, new, after)]
        for inner, line, both in _members(old, before, new, after, path):
            if line:
                yield inner, line
            pairs += [(*both, inner)] if both else []
        for pair in pairs:
            if pair[:2] not in met:
                met.add(pair[:2])
                waiting.append(pair)


def _members(
    old: Schema, before: int, new: Schema, after: int, path: str
) -> Iterator[tuple[str, str, tuple[int, int] | None]]:
    """Each field's path, its change, and, where both records have the field, its types."""
    if not old.nodes[before].kind is new.nodes[after].kind is Kind.RECORD:
        return
    there, here = ({one.name: one for one in node.fields} for node in (old.nodes[before], new.nodes[after]))
    for name in dict.fromkeys((*there, *here)):
        was, now, inner = there.get(name), here.get(name), f"{path}.{name}" if path else name
        left, came = was and _type(old, was.node), now and _type(new, now.node)
        if was and now:
            yield inner, "" if left == came else f"~ {inner}: {left} -> {came}", (was.node, now.node)
        elif now:
            optional = "" if now.default is not Missing.MISSING else ", without a default"
            yield inner, f"+ {inner}: {came}{optional}", None
        else:
            yield inner, f"- {inner}: {left}", None


def _parts(old: Schema, before: int, new: Schema, after: int) -> Iterator[tuple[int, int, str]]:
    """The matching parts of two types that are not both records: items, values, branches."""
    first, second = old.nodes[before], new.nodes[after]
    if first.kind is second.kind and first.kind in _STEPS:
        yield first.children[0], second.children[0], _STEPS[first.kind]
    elif Kind.UNION in (first.kind, second.kind):
        there = {_branch(new, one): one for one in (second.children if second.kind is Kind.UNION else [after])}
        for one in first.children if first.kind is Kind.UNION else [before]:
            if (other := there.get(_branch(old, one))) is not None:
                yield one, other, ""


def _branch(schema: Schema, number: int) -> tuple[Kind, str]:
    return schema.nodes[number].kind, schema.nodes[number].name


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
    label = policy_label(text)
    return reads(new, old) or (label is not None and label == policy_label(newest) and reads(old, new))


def same_type(text: str, other: str) -> bool:
    """Whether two schemas speak of one type: a topic may carry several kinds of record, which do not follow each other.

    Raises:
        HoldError: a text is no Avro schema.
    """
    first, second = _parsed(text), _parsed(other)
    return first.nodes[first.root].name == second.nodes[second.root].name


def standing(text: str, newest: str, versions: Iterable[str]) -> str | None:
    """The version that a derived schema is but for the policy's name, if it may come again after `newest`.

    A policy gets another version for the sake of other topics, too. Two schemas of one topic's writers are then derived
    anew as they were, and come again in any order. They are known by this: both stood here under one version.

    Args:
        text: The derived schema.
        newest: The newest version of its type.
        versions: Texts of what is registered under its subject.
    """
    shape, other, there = _unlabelled(text), _unlabelled(newest), list(versions)
    beside = {policy_label(one) for one in there if _unlabelled(one) == other}
    again = (one for one in there if _unlabelled(one) == shape and policy_label(one) in beside)
    return next((one for one in again if policy_label(one) and reads(_parsed(newest), _parsed(one))), None)


def incompatibility(subject: str, text: str, versions: Iterable[tuple[int, str]]) -> HoldError | None:
    """Why a derived schema cannot follow the newest version of its type, or None; one that is `standing` may.

    Args:
        subject: Central subject.
        text: The derived schema.
        versions: Numbers and texts of what is registered there, newest first.

    Raises:
        HoldError: a text is no Avro schema.
    """
    there = list(versions)
    for version, newest in there:
        if same_type(text, newest):
            if may_follow(text, newest) or standing(text, newest, (one for _, one in there)) is not None:
                return None
            return breaking(subject, version, text, newest)
    return None


def breaking(subject: str, version: int, text: str, newest: str) -> IncompatibleSchema:
    """The refusal of a derived schema, with what differs.

    Args:
        subject: Central subject.
        version: The version that the new schema cannot follow.
        text: The derived schema.
        newest: The text of that version.
    """
    changes = "; ".join(differences(_parsed(newest), _parsed(text)))
    policy = policy_label(text)
    same = policy is not None and policy == policy_label(newest)
    generation = _GENERATION.search(subject)
    next_ = int(generation[1]) + 1 if generation else 2
    return IncompatibleSchema(
        f"subject {subject}: readers of the schema that {policy or 'the policy'} derives cannot read version {version},"
        f" which is in the topic: {changes or 'the registry sees a difference that is none of names and types'}",
        hint=(_BY_WRITERS if same else "undo that part of the policy, drop the field, or begin")
        + " a new generation of the topic: stop the hub, drain (aggregator run --drain), then say"
        f' central: "{{edge}}.{{topic}}.v{next_}", and lake: "{{topic}}_v{next_}" if a column changed its type'
        f' ("{{edge}}_{{topic}}_v{next_}" if it did so at one edge of several), in the rule of this topic (one of its'
        " own where it shares one; it holds for each edge of the rule); the flow goes on there with this record",
    )


def _parsed(text: str) -> Schema:
    try:
        return parse(text)
    except DeadLetterError as error:
        raise HoldError(
            f"compatibility cannot be judged: {error.message}", hint="see what is registered under the central subject"
        ) from None


def _unlabelled(text: str) -> str:
    """A derived schema without the name of its policy, which its outermost types alone have."""
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError):  # somebody else's, under a subject of ours
        return text
    parts = shape if isinstance(shape, list) else [shape]
    bare = [{k: v for k, v in one.items() if k != POLICY} if isinstance(one, dict) else one for one in parts]
    return json.dumps(bare)


def policy_label(text: str) -> str | None:
    """Name and version of the policy that a derived schema was made under; None where it does not say so."""
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError):  # somebody else's, under a subject of ours
        return None
    labels = [part.get(POLICY) for part in (shape if isinstance(shape, list) else [shape]) if isinstance(part, dict)]
    return next((label for label in labels if isinstance(label, str)), None)
