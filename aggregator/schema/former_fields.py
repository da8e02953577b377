"""Remembers the tags of fields and types in earlier versions of a schema, and finds these parts in a new version.

A field is recognised by its place, and by the names of its record and of itself. A type is recognised by its name or by
its former place. Names that any version declared to be one, by an alias, are one name in all versions. Arrays, maps and
unions around a type may change: a single customer may become a list of customers.

Invariants: a part is tagged in case of doubt. A type that stood at its place in the version before is the same type. A
new type may be any type that stood at this place before and is not there now. A text that replaces a record inherits
the tags of all its fields, and so do the keys of a map that replaces something else. Pure, and within a budget.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from aggregator.budgets import SCHEMA_STEPS, SCHEMA_TAGS
from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import Field, Kind, Node, Schema, TagCount

_ITEMS, _VALUES = "[]", "{}"
_WRAPPERS = {Kind.ARRAY: _ITEMS, Kind.MAP: _VALUES}
_NONE: frozenset[str] = frozenset()
# Each name to those that a version declared to mean the same.
_Links = defaultdict[str, set[str]]
# The budget of steps for finding a node's former place, beside one visit to each node: of one version, and of all:
# what a version adds to the latter is in proportion to its text.
_STEPS = SCHEMA_STEPS.limit // 10
_STEPS_OF_ALL, _STEPS_OF_A_NODE = 10 * _STEPS, 100
# The budget of tags that are remembered of all versions.
_TAGS_OF_ALL = 10 * SCHEMA_TAGS.limit


class _Type:
    """A type at its former place; of a named one, `whole` is the type at all places, `links` are those of fields."""

    __slots__ = ("key_tags", "links", "places", "tags", "whole")

    def __init__(self) -> None:
        self.tags = self.key_tags = _NONE
        self.places: dict[str, _Place] = {}
        self.links: _Links = defaultdict(set)
        self.whole: _Type | None = None

    @property
    def inside(self) -> list["_Place"]:
        """The items of an array, or the values of a map."""
        return [place for name, place in self.places.items() if name in (_ITEMS, _VALUES)]

    def place(self, name: str) -> "_Place":
        return self.places.setdefault(name, _Place())


class _Place:
    """Where types stand: a field, the items of an array, the values of a map, or the root."""

    __slots__ = ("newest", "tags", "types", "version")

    def __init__(self) -> None:
        self.tags = _NONE
        self.types: dict[str, _Type] = {}
        self.newest: set[str] = set()
        self.version = 0


class _Stood(NamedTuple):
    """A type, by what it was called where it stood, and whether it was there in the newest version of these places."""

    called: str
    type: _Type
    is_newest: bool


class Lineage:
    """What the versions of a subject have said, one after the other."""

    def __init__(self) -> None:
        self.root = _Place()
        self.named: dict[str, _Type] = {}
        self.links: _Links = defaultdict(set)
        self.count = TagCount(_TAGS_OF_ALL)
        self.version = 0
        self._is_tagged = False
        self._steps_left = _STEPS_OF_ALL

    def add(self, schema: Schema, *, is_own_version: bool = True) -> None:
        """Remember a version, with the tags that it inherited; of untagged ones before the first tag, the aliases.

        Args:
            schema: The version.
            is_own_version: It is one of the subject's; else it only defines types that these refer to.
        """
        self._is_tagged = self._is_tagged or any(
            node.tags or node.inherited or any(item.tags or item.inherited for item in node.fields)
            for node in schema.nodes
        )
        self._link(schema)
        self.version += 1
        self._steps_left += _STEPS_OF_A_NODE * len(schema.nodes)
        if self._is_tagged:
            _Entering(self, schema).enter(self.root if is_own_version else _Place(), schema.root)

    def given(self, schema: Schema, *, is_own_version: bool = True) -> Schema:
        """The schema with what is remembered of its fields and types as `inherited`; arguments as of `add`.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, it may have been too many things.
        """
        if not self._is_tagged:
            return schema
        found = _Finding(self, schema, min(_STEPS, self._steps_left))
        self._steps_left -= found.look([self.root] if is_own_version else [])
        nodes = []
        for number, node in enumerate(schema.nodes):
            fields = tuple(
                item._replace(inherited=found.fields[number, at] - item.tags) for at, item in enumerate(node.fields)
            )
            inherited = found.nodes[number] - node.tags
            nodes.append(replace(node, fields=fields, inherited=inherited, inherited_keys=found.keys[number]))
        return Schema(tuple(nodes), schema.root)

    def _link(self, schema: Schema) -> None:
        """Note which names a version declares to be one, of types and of their fields."""
        for node in schema.nodes:
            _link(self.links, node.name, node.aliases)
            for item in node.fields:
                if item.aliases:
                    _link(self.named.setdefault(node.name, _Type()).links, item.name, item.aliases)


class _Entering:
    """Enters one version; a named type is entered once, whatever refers to it."""

    def __init__(self, lineage: Lineage, schema: Schema) -> None:
        self._lineage = lineage
        self._nodes = schema.nodes
        self._entered: set[str] = set()
        self._defined: dict[str, Node] = {}
        for node in schema.nodes:
            self._defined.setdefault(node.name, node)

    def enter(self, place: _Place, number: int) -> None:
        node = self._nodes[number]
        branches = [node]
        if node.kind is Kind.UNION:
            self._note(place, node)
            branches = [self._nodes[child] for child in node.children]
        place.newest, place.version = {_called(branch) for branch in branches}, self._lineage.version
        for branch in branches:
            self._type(place, branch)

    def _type(self, place: _Place, node: Node) -> None:
        if node.kind is Kind.NULL:
            return
        here = place.types.setdefault(_called(node), _Type())
        self._note(here, node)
        here.key_tags |= node.inherited_keys
        if node.name:
            here.whole = self._lineage.named.setdefault(node.name, _Type())
            if node.name not in self._entered:
                self._entered.add(node.name)
                self._whole(here.whole, self._defined[node.name])
        elif node.kind in _WRAPPERS:
            self.enter(here.place(_WRAPPERS[node.kind]), node.children[0])

    def _whole(self, whole: _Type, node: Node) -> None:
        self._note(whole, node)
        for item in node.fields:
            field = whole.place(item.name)
            self._note(field, item)
            self.enter(field, item.node)

    def _note(self, at: "_Place | _Type", said: Node | Field) -> None:
        at.tags = self._lineage.count.joined(at.tags, said.tags | said.inherited)


class _Finding:
    """Follows a schema beside what is remembered, and gathers the tags of everything that it was.

    Args:
        lineage: What is remembered.
        schema: The one to follow.
        steps: Budget of steps, beside one visit to each node and alias.
    """

    def __init__(self, lineage: Lineage, schema: Schema, steps: int) -> None:
        self._lineage = lineage
        self._schema = schema
        self._met: set[tuple[int, frozenset[int]]] = set()
        self._waiting: list[tuple[int, list[_Stood]]] = []
        self._below: dict[int, frozenset[str]] = {}
        self._names: dict[int, set[str]] = {}
        self._count = TagCount()
        aliases = sum(len(item.aliases) for node in schema.nodes for item in node.fields)
        self._left = self._steps = steps
        self._free = 12 * len(schema.nodes) + 4 * aliases
        self.nodes: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
        self.keys: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
        self.fields: defaultdict[tuple[int, int], frozenset[str]] = defaultdict(frozenset)

    def look(self, roots: Sequence[_Place]) -> int:
        """Follow the schema from its root, which stands at these places; return the steps of the budget it took."""
        self._give(self.nodes, self._schema.root, _tags(roots))
        self._wait(self._schema.root, _standing(roots))
        while self._waiting:
            self._visit(*self._waiting.pop())
        return self._steps - self._left

    def _wait(self, number: int, stood: list[_Stood]) -> None:
        self._spend(1 + len(stood))
        met = number, frozenset(id(one.type) for one in stood)
        if met not in self._met:
            self._met.add(met)
            self._waiting.append((number, stood))

    def _spend(self, steps: int = 1) -> None:
        free = min(steps, self._free)
        self._free -= free
        self._left -= steps - free
        if self._left < 0:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                "writer schema refused: by its names, and those of earlier versions, it may have been too many things",
                hint="use fewer aliases, one name for one type in all versions, or a new subject",
            )

    def _visit(self, number: int, stood: list[_Stood]) -> None:
        """Match each branch of a union, or the one type, with the earlier types that it may have been."""
        node = self._schema.nodes[number]
        branches = node.children if node.kind is Kind.UNION else (number,)
        names = {branch: self._type_names(branch) for branch in branches}
        self._spend(sum(map(len, names.values())))
        left = self._left_over(stood, set[str]().union(*names.values())) if stood else []
        called = defaultdict[str, list[_Stood]](list)
        for one in stood:
            called[one.called].append(one)
        for branch in branches:
            known = [one for name in sorted(names[branch]) if name in called for one in called[name]]
            if not any(one.is_newest for one in known):
                known += left
            self._type(branch, known, names[branch])

    def _left_over(self, stood: Iterable[_Stood], taken: set[str]) -> list[_Stood]:
        """What is there no more under its name, and what stood within it if it was an array or a map."""
        found, waiting = dict[int, _Stood](), [one for one in stood if one.called not in taken]
        while waiting:
            one = waiting.pop()
            if id(one.type) not in found:
                self._spend()
                found[id(one.type)] = one
                waiting += [inner for inner in _standing(one.type.inside) if inner.called not in taken]
        return list(found.values())

    def _type(self, number: int, stood: Sequence[_Stood], names: Iterable[str]) -> None:
        self._spend(len(stood))
        node = self._schema.nodes[number]
        everywhere = [self._lineage.named[name] for name in sorted(names) if name in self._lineage.named]
        tags = _tags([*(one.type for one in stood), *everywhere])
        wholes = list({id(one): one for one in [*(one.type.whole or one.type for one in stood), *everywhere]}.values())
        if node.kind is Kind.RECORD:
            self._record(number, node, wholes)
        elif node.kind in _WRAPPERS:
            self._wrapper(number, node, stood)
        else:
            tags |= self._all_below(wholes)
        self._give(self.nodes, number, tags)

    def _type_names(self, number: int) -> set[str]:
        """The names that a type may have had."""
        if number not in self._names:
            node = self._schema.nodes[number]
            own = {node.name, *node.aliases} if node.name else {_called(node)}
            self._names[number] = self._linked(own, [self._lineage.links])
        return self._names[number]

    def _linked(self, names: set[str], links: Sequence[_Links]) -> set[str]:
        """These names, and all that some version declared to mean the same."""
        found, waiting = set(names), list(names)
        while waiting:
            name = waiting.pop()
            for one in links:
                linked = one.get(name, set())
                self._spend(1 + len(linked))
                waiting += linked - found
                found |= linked
        return found

    def _give(self, into: dict[Any, frozenset[str]], part: Any, tags: frozenset[str]) -> None:
        into[part] = self._count.joined(into[part], tags)

    def _record(self, number: int, node: Node, wholes: Sequence[_Type]) -> None:
        met = ~number, frozenset(map(id, wholes))  # of a record used at many places the fields are looked at once
        if met in self._met:
            return
        self._met.add(met)
        for at, item in enumerate(node.fields):
            names = self._linked({item.name, *item.aliases}, [whole.links for whole in wholes])
            self._spend(len(names) * len(wholes))
            places = [whole.places[name] for whole in wholes for name in sorted(names) if name in whole.places]
            self._give(self.fields, (number, at), _tags(places))
            self._wait(item.node, _standing(places))

    def _wrapper(self, number: int, node: Node, stood: Iterable[_Stood]) -> None:
        """Match the items of an array, or the values of a map, with the earlier ones.

        If the earlier type was a single value, match that. What was no map may have become the keys.
        """
        inside: list[_Stood] = []
        for one in stood:
            places = one.type.inside
            self._give(self.nodes, node.children[0], _tags(places))
            inside += _standing(places) or [one]
            if node.kind is Kind.MAP:
                was_map = _VALUES in one.type.places
                keys = one.type.key_tags if was_map else self._all_below([one.type.whole or one.type])
                self._give(self.keys, number, keys)
        self._wait(node.children[0], inside)

    def _all_below(self, types: Iterable[_Type]) -> frozenset[str]:
        """The tags of everything that these types held."""
        found = _NONE
        for held in types:
            if id(held) not in self._below:
                self._below[id(held)] = self._all_within(held)
            found |= self._below[id(held)]
        return found

    def _all_within(self, held: _Type) -> frozenset[str]:
        tags, met, waiting = _NONE, set[int](), [held]
        while waiting:
            one = waiting.pop()
            if id(one) not in met:
                self._spend()
                met.add(id(one))
                tags |= one.tags | one.key_tags | _tags(one.places.values())
                waiting += [one.whole] if one.whole else []
                waiting += [inner.type for inner in _standing([*one.places.values()])]
        self._count.add(tags)
        return tags


def _link(links: _Links, name: str, aliases: Iterable[str]) -> None:
    for alias in aliases:
        links[name].add(alias)
        links[alias].add(name)


def _called(node: Node) -> str:
    """A name that no other type at the same place has; a colon is in no name of Avro's."""
    return node.name or f":{node.kind.value}"


def _standing(places: Sequence[_Place]) -> list[_Stood]:
    """The types at places that may be one; the place that a version entered last tells which are the newest."""
    last = max((place.version for place in places), default=0)
    return [
        _Stood(called, one, place.version == last and called in place.newest)
        for place in places
        for called, one in place.types.items()
    ]


def _tags(found: Iterable[_Place | _Type]) -> frozenset[str]:
    return frozenset[str]().union(*(one.tags for one in found))
