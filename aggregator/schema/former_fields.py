"""Finds the fields and types of earlier versions in a new version of a schema, with the tags that they had.

A field is recognised by its record and its names, a record by its names and by its place. Names that any version
declared to be one, by an alias, are one name in all versions. A record that takes the place of another is that record,
for good: both under both names. So is one of the same name in another namespace. Arrays, maps and unions around a type
may change: a single customer may become a list of customers.

Invariants: a part is tagged in case of doubt. What stood at its place in the version before is the same. Anything else
may be whatever stood at this place before and is not there now. A text that replaces a record inherits the tags of all
its fields, and so do the keys of a map that replaces something else. Pure, and within a budget.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from aggregator.schema.avro import Field, Kind, Node, Schema, TagCount
from aggregator.schema.tag_history import NO_TAGS, Called, Key, NamedType, Place, Steps, TagHistory, Type, called

_WRAPPERS = (Kind.ARRAY, Kind.MAP)
# Steps that a node and an alias are worth: a few looks at each.
_FREE_OF_A_NODE, _FREE_OF_AN_ALIAS = 50, 10


class Lineage:
    """What the versions of a subject have said, one after the other."""

    def __init__(self) -> None:
        self._history = TagHistory()

    @property
    def size(self) -> int:
        """How many fields are remembered."""
        return self._history.places

    def add(self, schema: Schema, *, subject: str = "") -> Schema:
        """The next version, with what is remembered of its fields and types as `inherited`; it is remembered too.

        Args:
            schema: The version.
            subject: Empty for the subject's own; else of the subject that only defines types for these.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, it may have been too many things, or there are too many tags.
        """
        history = self._history
        aliases = sum(len(node.aliases) + sum(len(item.aliases) for item in node.fields) for node in schema.nodes)
        steps = history.begin(_FREE_OF_A_NODE * len(schema.nodes) + _FREE_OF_AN_ALIAS * aliases)
        _declare(history, schema)
        root = history.root(subject)
        finding = _Finding(history, schema, steps)
        while finding.look(root):
            pass
        tagged = finding.tagged()
        _Entering(history, tagged).enter(root, schema.root)
        return tagged


def _declare(history: TagHistory, schema: Schema) -> None:
    """Join what this version says to be one, by its aliases."""
    for node in schema.nodes:
        for alias in node.aliases:
            history.join_types(history.named(node.name), history.named(alias))
    for node in schema.nodes:
        for item in node.fields:
            for alias in item.aliases:
                history.join_names(history.named(node.name), item.name, alias)


class _Entering:
    """Enters one version."""

    def __init__(self, history: TagHistory, schema: Schema) -> None:
        self._history = history
        self._nodes = schema.nodes
        self._entered: set[int] = set()
        self._defined: dict[str, int] = {}
        for number, node in enumerate(schema.nodes):
            self._defined.setdefault(node.name, number)

    def enter(self, place: Place, number: int) -> None:
        """Enter the type at a place, and everything below it."""
        place, node = place.now, self._nodes[number]
        branches = [number]
        if node.kind is Kind.UNION:
            place.tags = self._noted(place.tags, node)
            branches = [*node.children]
        keys = [(self._history.key(self._nodes[branch]), called(self._nodes[branch])) for branch in branches]
        for branch in branches:
            if self._nodes[branch].kind is Kind.NULL:
                place.tags = self._noted(place.tags, self._nodes[branch])
        real = [branch for branch in branches if self._nodes[branch].kind is not Kind.NULL]
        for branch, here in zip(real, list(self._history.stand(place, keys)), strict=True):
            self._type(here, branch)

    def _type(self, here: Type, number: int) -> None:
        node = self._nodes[number]
        here.tags = self._noted(here.tags, node)
        here.key_tags = self._history.noted(here.key_tags, node.inherited_keys)
        if node.kind in _WRAPPERS:
            self.enter(self._history.inside(here), node.children[0])
        elif node.name and number not in self._entered:
            self._entered.add(number)
            named = self._history.saw(node)
            definition = self._nodes[self._defined[node.name]]  # this node may have tags of its place alone
            named.tags = self._noted(named.tags, definition)
            for item in node.fields:
                place = self._history.field(named, item.name)
                place.tags = self._noted(place.tags, item)
                self.enter(place, item.node)

    def _noted(self, known: frozenset[str], said: Node | Field) -> frozenset[str]:
        return self._history.noted(known, said.tags | said.inherited)


class _Left:
    """What a type may have taken the place of: what is there no more, with what stood within it.

    Args:
        types: By what tells them apart.
        tags: Of the places within.
        is_by_name: They have the same name in another namespace.
    """

    def __init__(
        self, types: Sequence[tuple[Key, Type]], tags: frozenset[str] = NO_TAGS, *, is_by_name: bool = False
    ) -> None:
        self.types = types
        self.is_by_name = is_by_name
        self.named = list(dict.fromkeys(key for key, _ in types if isinstance(key, NamedType)))
        self.tags = tags.union(*(one.tags for _, one in types), *(one.tags for one in self.named))
        self.key_tags = NO_TAGS.union(*(one.key_tags for _, one in types))

    def joined(self) -> None:
        """Note that its named types are one by now."""
        self.named = list(dict.fromkeys(one.now for one in self.named))


class _Finding:
    """Follows a schema beside what is remembered, and gathers the tags of everything that it was.

    Args:
        history: What is remembered.
        schema: The one to follow.
        steps: Budget of steps.
    """

    def __init__(self, history: TagHistory, schema: Schema, steps: Steps) -> None:
        self._history = history
        self._schema = schema
        self._steps = steps
        self._met: set[Any] = set()
        self._waiting: list[tuple[int, Place | None, Sequence[tuple[Key, Type]]]] = []
        self._known_below: dict[NamedType, frozenset[str]] = {}
        self._looked_at: set[NamedType] = set()
        # Types that are there under a name of now, which the version before did not have.
        self._took_over = {history.named(node.name) for node in schema.nodes if node.name and history.is_back(node)}
        self._is_late = False
        self._count = TagCount()
        self._nodes: dict[int, frozenset[str]] = {}
        self._keys: dict[int, frozenset[str]] = {}
        self._fields: dict[tuple[int, int], frozenset[str]] = {}

    def look(self, root: Place) -> bool:
        """Follow the schema from its root; whether two types were found to be one after one of them was looked at."""
        self._met, self._known_below, self._looked_at, self._is_late = set(), {}, set(), False
        self._give(self._nodes, self._schema.root, root.tags)
        self._wait(self._schema.root, root, ())
        while self._waiting:
            self._visit(*self._waiting.pop())
        return self._is_late

    def tagged(self) -> Schema:
        """The schema with what was found as `inherited`."""
        nodes = list(self._schema.nodes)
        fields: dict[int, list[Field]] = {}
        for (number, at), tags in self._fields.items():
            own = fields.setdefault(number, [*nodes[number].fields])
            own[at] = own[at]._replace(inherited=tags - own[at].tags)
        for number, changed in fields.items():
            nodes[number] = replace(nodes[number], fields=tuple(changed))
        for number in self._nodes.keys() | self._keys.keys():
            inherited = self._nodes.get(number, NO_TAGS) - nodes[number].tags
            keys = self._keys.get(number, NO_TAGS)
            nodes[number] = replace(nodes[number], inherited=inherited, inherited_keys=keys)
        return Schema(tuple(nodes), self._schema.root)

    def _below(self, outer: NamedType) -> frozenset[str]:
        """The tags of a type, and of everything below it."""
        if outer not in self._known_below:
            self._known_below[outer] = self._all_within(outer)
            self._count.add(self._known_below[outer])
        return self._known_below[outer]

    def _all_within(self, outer: NamedType) -> frozenset[str]:
        tags, met, waiting = NO_TAGS, set[NamedType](), [outer]
        while waiting:
            named = waiting.pop().now
            if named not in met:
                met.add(named)
                self._looked_at.add(named)
                self._steps.spend(1 + len(named.fields))
                tags |= named.tags
                places = [place.now for place in named.fields.values()]
                while places:
                    place = places.pop()
                    tags |= place.tags
                    for key, one in self._history.stood(place).items():
                        tags |= one.tags | one.key_tags
                        waiting += [key] if isinstance(key, NamedType) else []
                        places += [one.inside.now] if one.inside else []
        return tags

    def _wait(self, number: int, place: Place | None, extra: Sequence[tuple[Key, Type]]) -> None:
        met = number, id(place), *sorted(id(one) for _, one in extra)
        self._steps.spend(1 + len(extra))
        if met not in self._met:
            self._met.add(met)
            self._waiting.append((number, place, extra))

    def _visit(self, number: int, place: Place | None, extra: Sequence[tuple[Key, Type]]) -> None:
        """Match each branch of a union, or the one type, with the earlier types that it may have been.

        Args:
            number: The node.
            place: Where it stands, if that was there before.
            extra: What stood elsewhere and may be here now.
        """
        node = self._schema.nodes[number]
        branches = node.children if node.kind is Kind.UNION else (number,)
        keys = {branch: self._history.key(self._schema.nodes[branch]) for branch in branches}
        self._steps.spend(len(branches))
        place = place.now if place else None
        stood = list(self._history.stood(place).items()) if place else []
        self._steps.spend(len(place.newest_keys) if place else 0)
        newest = place.newest if place and not extra else Counter[Key]()
        here = [(keys[branch], called(self._schema.nodes[branch])) for branch in branches]
        matching = _Matching(self._history, [*stood, *extra], here, newest, self._took_over)
        for branch, (key, known_as) in zip(branches, here, strict=True):
            known, left = matching.of(key, known_as)
            self._type(branch, key, known, left)

    def _type(self, number: int, key: Key, known: Sequence[Type], left: Sequence[_Left]) -> None:
        node = self._schema.nodes[number]
        tags = NO_TAGS.union(*(one.tags for one in known), *(one.tags for one in left))
        if isinstance(key, NamedType):
            for one in left:
                self._take_over(key, one)
            tags |= key.now.tags
            self._looked_at.add(key.now)
        if node.kind is Kind.RECORD:
            self._record(number, node)
        elif node.kind in _WRAPPERS:
            self._wrapper(number, node, known, left)
        else:
            tags |= self._all_below(left)
            if isinstance(key, NamedType):
                tags |= self._below(key.now)
        self._give(self._nodes, number, tags)

    def _all_below(self, left: Sequence[_Left]) -> frozenset[str]:
        """The tags of everything that these types held."""
        return NO_TAGS.union(
            *(one.tags | one.key_tags for one in left), *(self._below(named) for one in left for named in one.named)
        )

    def _take_over(self, key: NamedType, left: _Left) -> None:
        for other in left.named:
            both = {key.now, other.now}
            if self._history.join_types(key, other):
                self._is_late |= not both.isdisjoint(self._looked_at)
                if not left.is_by_name or both & self._took_over:
                    self._took_over.difference_update(both)
                    self._took_over.add(key.now)
        left.joined()

    def _give(self, into: dict[Any, frozenset[str]], part: Any, tags: frozenset[str]) -> None:
        if tags:
            into[part] = self._count.joined(into.get(part, NO_TAGS), tags)

    def _record(self, number: int, node: Node) -> None:
        if ~number in self._met:  # a record used at many places is looked at once
            return
        self._met.add(~number)
        named = self._history.named(node.name)
        for at, item in enumerate(node.fields):
            place = named.field(item.name)
            if place:
                self._give(self._fields, (number, at), place.tags)
            self._wait(item.node, place, ())

    def _wrapper(self, number: int, node: Node, known: Sequence[Type], left: Sequence[_Left]) -> None:
        """Match the items of an array, or the values of a map, with the earlier ones.

        If the earlier type was a single value, match that. What was no map may have become the keys, and what was the
        keys of a map may have become items.
        """
        extra = [pair for one in left for pair in one.types if pair[0] not in _WRAPPERS]
        for one in known[1:]:
            inside, tags = self._history.within(one)
            extra += inside
            self._give(self._nodes, node.children[0], tags)
        here = known[0].inside.now if known and known[0].inside else None
        self._give(self._nodes, node.children[0], here.tags if here else NO_TAGS)
        if node.kind is Kind.MAP:
            keys = self._all_below(left).union(*(one.key_tags for one in known))
            self._give(self._keys, number, keys)
        else:
            self._give(self._nodes, node.children[0], NO_TAGS.union(*(one.key_tags for one in left)))
        self._wait(node.children[0], here, extra)


class _Matching:
    """Matches the types of a version at one place with those that stood there.

    Args:
        history: Where they stood.
        stood: What stood there, or may have come there.
        here: What stands there now, and what Avro matches it by.
        newest: What surely stood there in the version before.
        took_over: Types that are there under a name of now, which the version before did not have.
    """

    def __init__(
        self,
        history: TagHistory,
        stood: Sequence[tuple[Key, Type]],
        here: Sequence[tuple[Key, Called]],
        newest: Counter[Key],
        took_over: Collection[Key],
    ) -> None:
        self._history = history
        self._took_over = took_over
        self._stood = stood
        self._keys = Counter(key for key, _ in here)
        self._newest = newest
        self._by_key: dict[Key, list[Type]] = {}
        for key, one in stood:
            self._by_key.setdefault(key, []).append(one)
        new = Counter(known_as for key, known_as in here if isinstance(key, NamedType) and not self._is_sure(key))
        similar: dict[Called, list[tuple[Key, Type]]] = {}
        gone: dict[Called, list[tuple[Key, Type]]] = {}
        for key, one in stood:
            for known_as in key.called & new.keys() if isinstance(key, NamedType) and newest[key] else ():
                similar.setdefault(known_as, []).append((key, one))
                if newest[key] > self._keys[key] and known_as == one.called:
                    gone.setdefault(known_as, []).append((key, one))
        self._renamed = {known_as for known_as, pairs in gone.items() if len(pairs) >= new[known_as]}
        self._taken = {key for known_as in self._renamed for key, one in gone[known_as] if one.most == 1}
        self._similar = {
            known_as: _Left(gone.get(known_as, pairs), is_by_name=True) for known_as, pairs in similar.items()
        }

    def of(self, key: Key, known_as: Called) -> tuple[Sequence[Type], Sequence[_Left]]:
        """The types that have this key, and those that it may have taken the place of."""
        known = self._by_key.get(key, [])
        if self._is_sure(key) or not self._stood:
            return known, ()
        similar = [self._similar[known_as]] if known_as in self._similar else []
        if known_as in self._renamed:
            return known, similar
        within = [_Left(self._within[key])] if key in self._within else []
        return known, [*similar, self._left, *within]

    def _is_sure(self, key: Key) -> bool:
        return self._newest[key] >= self._keys[key] and key not in self._took_over

    def _is_left(self, key: Key, one: Type) -> bool:
        return one.most > self._keys[key] and key not in self._taken

    @cached_property
    def _left(self) -> _Left:
        """What is there no more, and what stood within that, under no key of now."""
        free, tags = [pair for pair in self._stood if self._is_left(*pair)], NO_TAGS
        for _, one in tuple(free):
            inside, within = self._history.within(one)
            free += [pair for pair in inside if pair[0] not in self._keys or self._is_sure(pair[0])]
            tags |= within
        return _Left(free, tags)

    @cached_property
    def _within(self) -> dict[Key, list[tuple[Key, Type]]]:
        """What stood within what is there no more, under a key of now."""
        found: dict[Key, list[tuple[Key, Type]]] = {}
        for gone, one in self._stood:
            if self._is_left(gone, one):
                for key, inner in self._history.within(one)[0]:
                    if key in self._keys:
                        found.setdefault(key, []).append((key, inner))
        return found
