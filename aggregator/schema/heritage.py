"""Tags that a schema's text does not show: those that its registry keeps beside it, and those of earlier versions.

Invariants: a tag once given to a field stays for later versions of the subject, wherever the field lies or whatever it
is called there, as far as its place, its name, or an alias of either tells that it is the same. What can not be told
apart is tagged. Pure; what comes from a registry is matched in linear time and within a budget.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/data-contracts.html
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from aggregator.budgets import SCHEMA_STEPS, SUBJECT_VERSIONS
from aggregator.config.patterns import full_matches
from aggregator.errors import DeadLetterError, HoldError, Reason
from aggregator.schema.avro import Field, Kind, Node, Schema, parse
from aggregator.schema.registry import Registered, TagPaths

_ITEMS, _VALUES, _BRANCH = "[]", "{}", "|"
_WILD = re.compile(r"\\.|\*\*(?:\.\*)?|\*|\?|[^*?\\]+|\\", re.DOTALL)
_STANDS_FOR = {"**": ".*", "**.*": ".*", "*": "[^.]*", "?": "[^.]"}
_NONE: frozenset[str] = frozenset()


def with_heritage(text: str, beside: TagPaths, versions: Sequence[Registered]) -> Schema:
    """A writer's schema with all tags that its fields have had.

    Args:
        text: The schema.
        beside: Tags that the registry keeps beside it; they count as its own.
        versions: The subject's, up to this one, oldest first; what these give it is `inherited`.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, the text is no Avro schema that is supported, or tags and places are too many.
        HoldError: a version can not be read, or there are too many.
    """
    try:
        return _with_heritage(text, beside, versions)
    except RecursionError:
        raise _refused("it nests too deep") from None


def _with_heritage(text: str, beside: TagPaths, versions: Sequence[Registered]) -> Schema:
    schema = _tagged(parse(text), beside)
    if len(versions) > SUBJECT_VERSIONS.limit:
        raise HoldError(
            f"subject {versions[0].subject} has more than {SUBJECT_VERSIONS.limit:,} versions",
            hint="delete versions that no record needs, for good; their tags go with them",
        )
    memory = _Memory()
    for version in versions:
        try:
            earlier = _tagged(parse(version.text), version.tags)
        except DeadLetterError as error:
            raise HoldError(
                f"subject {version.subject} version {version.version}: its tags can not be read: {error.message}",
                hint="delete that version for good, if no record needs it",
            ) from None
        memory.add(memory.given(earlier))
    return memory.given(schema)


def fingerprint(text: str, schema: Schema) -> str:
    """What tells a schema, together with all its tags, from any other one: 16 digits in hex."""
    tags = [
        [sorted(node.tags | node.inherited), [sorted(item.tags | item.inherited) for item in node.fields]]
        for node in schema.nodes
    ]
    meaning = json.dumps([json.loads(text), tags], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(meaning.encode(errors="surrogatepass")).hexdigest()[:16]


class _Place:
    """A step on the way to something tagged."""

    __slots__ = ("onwards", "tags")

    def __init__(self) -> None:
        self.onwards: dict[str, _Place] = {}
        self.tags: frozenset[str] = _NONE

    def at(self, way: Iterable[str]) -> "_Place":
        place = self
        for step in way:
            place = place.onwards.setdefault(step, _Place())
        return place


class _Memory:
    """What versions have said of their fields: by place, and by the names of records and fields."""

    def __init__(self) -> None:
        self._root = _Place()
        self._of_types: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        self._of_fields: defaultdict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)

    def add(self, schema: Schema) -> None:
        """Remember a version's tags, those that it inherited among them."""
        for number in _definitions(schema):
            node = schema.nodes[number]
            self._of_types[node.name] |= node.tags | node.inherited
            for item in node.fields:
                self._of_fields[node.name, item.name] |= item.tags | item.inherited
        for way, tags in _tagged_places(schema):
            place = self._root.at(way)
            place.tags |= tags

    def given(self, schema: Schema) -> Schema:
        """The schema with what is remembered of its fields and types as `inherited`."""
        if not (self._root.onwards or self._root.tags or any(self._of_types.values()) or any(self._of_fields.values())):
            return schema
        found = _Found(schema, self._root)
        found.visit(schema.root, (self._root,))
        nodes = []
        for number, node in enumerate(schema.nodes):
            names = (node.name, *node.aliases) if node.name else ()
            of_type = frozenset[str]().union(*(self._of_types.get(name, _NONE) for name in names))
            fields = tuple(
                item._replace(inherited=found.fields[number, place].union(*self._by_name(names, item)) - item.tags)
                for place, item in enumerate(node.fields)
            )
            inherited = (found.nodes[number] | of_type) - node.tags
            nodes.append(replace(node, fields=fields, inherited=inherited))
        return Schema(tuple(nodes), schema.root)

    def _by_name(self, names: Sequence[str], item: Field) -> Iterator[frozenset[str]]:
        for record in names:
            for field in (item.name, *item.aliases):
                yield self._of_fields.get((record, field), _NONE)


class _Found:
    """Tags by place, while a schema is walked beside the remembered places."""

    def __init__(self, schema: Schema, root: _Place) -> None:
        self._schema = schema
        self._met: set[tuple[int, tuple[int, ...]]] = set()
        self.nodes: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
        self.fields: defaultdict[tuple[int, int], frozenset[str]] = defaultdict(frozenset)
        self.nodes[schema.root] = root.tags

    def visit(self, number: int, places: Sequence[_Place]) -> None:
        met = (number, tuple(sorted(map(id, places))))
        if not places or met in self._met:
            return
        self._met.add(met)
        if len(self._met) > SCHEMA_STEPS.limit // 100:
            raise _refused("its aliases lead to too many places")
        node = self._schema.nodes[number]
        if node.kind is Kind.RECORD:
            for at, item in enumerate(node.fields):
                inside = _onwards(places, (item.name, *item.aliases))
                self.fields[number, at] |= _all_tags(inside)
                self.visit(item.node, inside)
        elif node.kind is Kind.UNION:
            for child in node.children:
                inside = _onwards(places, _branch_names(self._schema.nodes[child]))
                self.nodes[child] |= _all_tags(inside)
                self.visit(child, [*places, *inside])
        else:
            for child in node.children:
                inside = _onwards(places, (_ITEMS if node.kind is Kind.ARRAY else _VALUES,))
                self.nodes[child] |= _all_tags(inside)
                self.visit(child, inside)


def _onwards(places: Iterable[_Place], steps: Sequence[str]) -> list[_Place]:
    found = {id(inner): inner for one in places for step in steps if (inner := one.onwards.get(step)) is not None}
    return list(found.values())


def _all_tags(places: Iterable[_Place]) -> frozenset[str]:
    return frozenset[str]().union(*(place.tags for place in places))


def _branch_names(node: Node) -> tuple[str, ...]:
    names = (node.name, *node.aliases) if node.name else (node.kind.value,)
    return tuple(_BRANCH + name for name in names)


def _definitions(schema: Schema) -> list[int]:
    """The node that defines each named type; others of its name add tags at their own place."""
    first: dict[str, int] = {}
    for number, node in enumerate(schema.nodes):
        if node.name:
            first.setdefault(node.name, number)
    return list(first.values())


def _tagged_places(schema: Schema) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Ways to everything that has a tag; a type that is used again is remembered by its name there."""
    met: set[int] = set()

    def below(number: int, way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
        node = schema.nodes[number]
        if node.tags or node.inherited:
            yield way, node.tags | node.inherited
        if number in met:
            return
        met.add(number)
        for item in node.fields:
            if item.tags or item.inherited:
                yield (*way, item.name), item.tags | item.inherited
            yield from below(item.node, (*way, item.name))
        branches = [child for child in node.children if schema.nodes[child].kind is not Kind.NULL]
        for child in node.children:
            if node.kind is Kind.UNION:
                # A branch beside others has a way of its own; an optional type is at the place of the type.
                step: tuple[str, ...] = _branch_names(schema.nodes[child])[:1] if len(branches) > 1 else ()
            else:
                step = (_ITEMS if node.kind is Kind.ARRAY else _VALUES,)
            yield from below(child, (*way, *step))

    return below(schema.root, ())


# Tags beside the schema.


class _Name(NamedTuple):
    """One way to call a record (`field` is -1) or a field of it."""

    text: str
    record: int
    field: int


def _tagged(schema: Schema, beside: TagPaths) -> Schema:
    """The schema with the tags that the registry keeps beside it."""
    if not beside:
        return schema
    names = list(_names(schema))
    if len(beside) * len(names) > SCHEMA_STEPS.limit:
        raise _refused("the tags beside it, times its fields, are too many")
    texts = [name.text for name in names]
    found: defaultdict[tuple[int, int], frozenset[str]] = defaultdict(frozenset)
    for path, tags in beside:
        for name, fits in zip(names, full_matches(_expression(path), texts), strict=True):
            if fits:
                found[name.record, name.field] |= tags
    nodes = [
        replace(
            node,
            tags=node.tags | found[number, -1],
            fields=tuple(item._replace(tags=item.tags | found[number, at]) for at, item in enumerate(node.fields)),
        )
        for number, node in enumerate(schema.nodes)
    ]
    return Schema(tuple(nodes), schema.root)


def _expression(path: str) -> str:
    r"""A path of `metadata.tags` in RE2: `*` within a name, `**` across names, `?` one character, `\` quotes one."""
    parts = (found[0] for found in _WILD.finditer(path))
    return "".join(
        _STANDS_FOR.get(part) or re.escape(part[1:] if len(part) > 1 and part[0] == "\\" else part) for part in parts
    )


def _names(schema: Schema) -> Iterator[_Name]:
    """Whatever a path may mean: `record.field` as Confluent has it, with and without namespace, and ways from the root.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, too many places.
    """
    for number, node in enumerate(schema.nodes):
        if node.kind is Kind.RECORD:
            for record in {node.name, node.name.rpartition(".")[2]}:
                yield _Name(record, number, -1)
                yield from (_Name(f"{record}.{item.name}", number, at) for at, item in enumerate(node.fields))
    root = schema.nodes[schema.root].name
    heads = {"", root, root.rpartition(".")[2]}
    for steps, (way, number, at) in enumerate(_ways(schema, schema.root, "", frozenset())):
        if steps > SCHEMA_STEPS.limit // 100:
            raise _refused("tags are kept beside it, and it means too many places")
        yield from (_Name(f"{head}.{way}" if head else way, number, at) for head in heads)


def _ways(schema: Schema, number: int, way: str, above: frozenset[int]) -> Iterator[tuple[str, int, int]]:
    node = schema.nodes[number]
    if number in above:
        return
    above |= {number}
    for at, item in enumerate(node.fields):
        inside = f"{way}.{item.name}" if way else item.name
        yield inside, number, at
        yield from _ways(schema, item.node, inside, above)
    for child in node.children:
        yield from _ways(schema, child, way, above)


def _refused(message: str) -> DeadLetterError:
    return DeadLetterError(
        Reason.SCHEMA_REFUSED,
        f"writer schema refused: {message}",
        hint="use fewer aliases, or fewer tags beside the schema",
    )
