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
from typing import Any

from aggregator.budgets import SCHEMA_STEPS
from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import Field, Kind, Node, Schema, TagCount
from aggregator.schema.tag_history import (
    NO_TAGS,
    VALUES,
    WRAPPERS,
    Entering,
    Found,
    Links,
    NamedType,
    Place,
    Standing,
    TagHistory,
    Type,
    called,
    standing,
    tags_of,
)

# The budget of steps for finding a node's former place, beside one visit to each node: of one version, and of all:
# what a version adds to the latter is in proportion to its text.
_STEPS = SCHEMA_STEPS.limit // 10
_STEPS_OF_ALL, _STEPS_OF_A_NODE = 10 * _STEPS, 100


class Lineage:
    """What the versions of a subject have said, one after the other."""

    def __init__(self) -> None:
        self._history = TagHistory()
        self._steps_left = _STEPS_OF_ALL

    @property
    def size(self) -> int:
        """How many fields are remembered, about."""
        return sum(1 + len(kind.places) for kind in self._history.named.values())

    def add(self, schema: Schema, *, is_own_version: bool = True) -> Schema:
        """The next version, with what is remembered of its fields and types as `inherited`; it is remembered too.

        Args:
            schema: The version.
            is_own_version: It is one of the subject's; else it only defines types that these refer to.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, it may have been too many things, or there are too many tags.
        """
        history = self._history
        history.version += 1
        self._steps_left += _STEPS_OF_A_NODE * len(schema.nodes)
        root = history.root if is_own_version else Place()
        finding = _Finding(history, schema, min(_STEPS, self._steps_left))
        finding.look(root)
        tagged = finding.tagged()
        history.link(schema)
        entering = Entering(history, tagged, finding.found)
        entering.hold(finding.spend)
        entering.enter(root, schema.root)
        self._steps_left -= finding.steps_taken
        return tagged


class _Finding:
    """Follows a schema beside what is remembered, and gathers the tags of everything that it was.

    Args:
        history: What is remembered.
        schema: The one to follow.
        steps: Budget of steps, beside one visit to each node and alias.
    """

    def __init__(self, history: TagHistory, schema: Schema, steps: int) -> None:
        self._history = history
        self._schema = schema
        self._met: set[Any] = set()
        self._waiting: list[tuple[int, list[Standing], Place | None]] = []
        self._below: dict[Type, frozenset[str]] = {}
        self._names: dict[int, set[str]] = {}
        self._count = TagCount()
        aliases = sum(len(item.aliases) for node in schema.nodes for item in node.fields)
        self._left = self._steps = steps
        self._free = 12 * len(schema.nodes) + 4 * aliases
        self._nodes: dict[int, frozenset[str]] = {}
        self._keys: dict[int, frozenset[str]] = {}
        self._fields: dict[tuple[int, int], frozenset[str]] = {}
        self.found = Found(defaultdict(set), defaultdict(dict))

    @property
    def steps_taken(self) -> int:
        """The steps of the budget that were taken so far."""
        return self._steps - self._left

    def look(self, root: Place) -> None:
        """Follow the schema from its root, which stands at this place."""
        self._give(self._nodes, self._schema.root, root.tags)
        self._wait(self._schema.root, standing([root], root, self.spend), root)
        while self._waiting:
            self._visit(*self._waiting.pop())

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

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, these are too many.
        """
        free = min(steps, self._free)
        self._free -= free
        self._left -= steps - free
        if self._left < 0:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                "writer schema refused: by its names, and those of earlier versions, it may have been too many things",
                hint="use fewer aliases, one name for one type in all versions, or a new subject",
            )

    def _wait(self, number: int, stood: list[Standing], own: Place | None) -> None:
        self.spend(1 + len(stood))
        met = number, *sorted((id(one.type), one.is_newest) for one in stood)
        if met not in self._met:
            self._met.add(met)
            self._waiting.append((number, stood, own))

    def _visit(self, number: int, stood: list[Standing], own: Place | None) -> None:
        """Match each branch of a union, or the one type, with the earlier types that it may have been.

        Args:
            number: The node.
            stood: What stood where it stands now.
            own: The place of this very name, if it was there.
        """
        node = self._schema.nodes[number]
        branches = node.children if node.kind is Kind.UNION else (number,)
        names = {branch: self._type_names(branch) for branch in branches}
        self.spend(sum(map(len, names.values())))
        left = self._left_over(stood, set[str]().union(*names.values())) if stood else []
        by_name = defaultdict[str, list[Standing]](list)
        by_short_name = defaultdict[str, list[Standing]](list)
        for one in stood:
            by_name[one.called].append(one)
            by_short_name[_short(one.called)].append(one)
        for branch in branches:
            known = [one for name in sorted(names[branch]) if name in by_name for one in by_name[name]]
            if not any(one.is_newest for one in known):
                short = {_short(name) for name in names[branch]} & by_short_name.keys()
                known = self._outermost(one for name in sorted(short) for one in by_short_name[name])
            if not any(one.is_newest for one in known):
                known += left
            self._type(branch, known, names[branch], own)

    def _left_over(self, stood: Iterable[Standing], taken: set[str]) -> list[Standing]:
        """What is there no more under its name, and what stood within it if it was an array or a map."""
        found, waiting = dict[Type, Standing](), [one for one in stood if one.called not in taken]
        while waiting:
            one = waiting.pop()
            if one.type not in found:
                self.spend()
                found[one.type] = one
                inside = standing(one.type.inside, None, self.spend)
                waiting += [inner for inner in inside if inner.called not in taken]
        return self._outermost(found.values())

    def _outermost(self, stood: Iterable[Standing]) -> list[Standing]:
        """These without the ones that others of them hold, with all their tags."""
        found = list(stood)
        wholes = {one.type.whole for one in found if one.type.whole}
        self.spend(sum(len(whole.held) for whole in wholes))
        held = {former for whole in wholes for former in whole.held if whole.holds(former)}
        tags = tags_of(wholes)
        return [one for one in found if one.type.whole not in held or not one.type.tags <= tags]

    def _type(self, number: int, stood: Sequence[Standing], names: Iterable[str], own: Place | None) -> None:
        self.spend(len(stood))
        node = self._schema.nodes[number]
        everywhere = [self._history.named[name] for name in sorted(names) if name in self._history.named]
        tags = tags_of([*(one.type for one in stood), *everywhere])
        if node.kind is Kind.RECORD:
            self._record(
                number, node, [*dict.fromkeys([*(one.type.whole for one in stood if one.type.whole), *everywhere])]
            )
        elif node.kind in WRAPPERS:
            self._wrapper(number, node, stood, own)
        else:
            tags |= self._all_below([*(one.type.whole or one.type for one in stood), *everywhere])
        self._give(self._nodes, number, tags)

    def _type_names(self, number: int) -> set[str]:
        """The names that a type may have had."""
        if number not in self._names:
            node = self._schema.nodes[number]
            own = {node.name, *node.aliases} if node.name else {called(node)}
            self._names[number] = self._linked(own, [self._history.links])
        return self._names[number]

    def _linked(self, names: set[str], links: Sequence[Links]) -> set[str]:
        """These names, and all that some version declared to mean the same."""
        found, waiting = set(names), list(names)
        while waiting:
            name = waiting.pop()
            for one in links:
                linked = one.get(name, set())
                self.spend(1 + len(linked))
                waiting += linked - found
                found |= linked
        return found

    def _give(self, into: dict[Any, frozenset[str]], part: Any, tags: frozenset[str]) -> None:
        if tags:
            into[part] = self._count.joined(into.get(part, NO_TAGS), tags)

    def _record(self, number: int, node: Node, wholes: Sequence[NamedType]) -> None:
        met = ~number, frozenset(wholes)  # a record used at many places is looked at once
        if met in self._met:
            return
        self._met.add(met)
        known = self._history.named.get(node.name)
        self.found.types[number].update({one: None for one in wholes if one is not known})
        for at, item in enumerate(node.fields):
            names = self._linked({item.name, *item.aliases}, [whole.links for whole in wholes])
            self.spend(len(names) * len(wholes))
            places = [whole.places[name] for whole in wholes for name in sorted(names) if name in whole.places]
            own = known.places.get(item.name) if known else None
            self._give(self._fields, (number, at), tags_of(places))
            self._note(number, at, places, own)
            self._wait(item.node, standing(places, own, self.spend), own)

    def _note(self, number: int, at: int, places: Iterable[Place], own: Place | None) -> None:
        others = [place for place in places if place is not own]
        if others:
            self.found.places[number, at].update(others)

    def _wrapper(self, number: int, node: Node, stood: Iterable[Standing], own: Place | None) -> None:
        """Match the items of an array, or the values of a map, with the earlier ones.

        If the earlier type was a single value, match that. What was no map may have become the keys, and what was the
        keys of a map may have become items.
        """
        places, single = list[Place](), list[Standing]()
        for one in stood:
            inside = one.type.inside
            places += inside
            single += [] if any(place.types for place in inside) else [one._replace(is_newest=False)]
            was_map = VALUES in one.type.places
            if node.kind is Kind.MAP:
                keys = one.type.key_tags if was_map else self._all_below([one.type.whole or one.type])
                self._give(self._keys, number, keys)
            else:
                self._give(self._nodes, node.children[0], one.type.key_tags)
        here = own.types.get(called(node)) if own else None
        own_inside = here.places.get(WRAPPERS[node.kind]) if here else None
        self._give(self._nodes, node.children[0], tags_of(places))
        self._note(number, -1, places, own_inside)
        inner = standing(places, own_inside, self.spend)
        if single:
            inner = [one._replace(is_newest=False) for one in inner] + single
        self._wait(node.children[0], inner, own_inside)

    def _all_below(self, types: Iterable[Type]) -> frozenset[str]:
        """The tags of everything that these types held."""
        found = NO_TAGS
        for one in types:
            if one not in self._below:
                self._below[one] = self._all_within(one)
            found |= self._below[one]
        return found

    def _all_within(self, outer: Type) -> frozenset[str]:
        tags, met, waiting = NO_TAGS, set[Type](), [outer]
        while waiting:
            one = waiting.pop()
            if one not in met:
                self.spend()
                met.add(one)
                tags |= one.tags | one.key_tags | tags_of(one.places.values())
                waiting += [one.whole] if one.whole else []
                waiting += [kind for place in one.places.values() for kind in place.types.values()]
        self._count.add(tags)
        return tags


def _short(name: str) -> str:
    """A name without its namespace: Avro takes types of one such name for the same."""
    return name.rpartition(".")[2]
