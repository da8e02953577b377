"""Remembers where types stood in earlier versions of a schema, and with which tags.

Invariants: what one version entered is never taken back. A record that took the place of another holds whatever was
remembered of that one, for good: also of fields that it does not have yet.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from aggregator.budgets import SCHEMA_TAGS
from aggregator.schema.avro import Field, Kind, Node, Schema, TagCount

ITEMS, VALUES = "[]", "{}"
WRAPPERS = {Kind.ARRAY: ITEMS, Kind.MAP: VALUES}
NO_TAGS: frozenset[str] = frozenset()
# A field that a record does not have itself takes memory that its text does not account for.
_STEPS_OF_A_COPY = 50
# The budget of tags that are remembered of all versions.
_TAGS_OF_ALL = 10 * SCHEMA_TAGS.limit
# Each name to those that a version declared to mean the same.
Links = defaultdict[str, set[str]]


class Type:
    """A type where it stands or stood.

    Attributes:
        tags: What it was tagged with.
        key_tags: What the keys of a map were tagged with.
        places: An array's items or a map's values.
        whole: A named type at all its places.
    """

    __slots__ = ("key_tags", "places", "tags", "whole")

    def __init__(self) -> None:
        self.tags = self.key_tags = NO_TAGS
        self.places: dict[str, Place] = {}
        self.whole: NamedType | None = None

    @property
    def inside(self) -> Sequence["Place"]:
        """The items of an array, or the values of a map."""
        return () if self.whole else [*self.places.values()]

    def place(self, name: str) -> "Place":
        """The place of this name, new if there was none."""
        known = self.places.get(name)
        if known is None:
            known = self.places[name] = Place()
        return known


class NamedType(Type):
    """A named type at all its places; its own `places` are a record's fields.

    Attributes:
        links: Names of fields that mean the same.
        held: The types that this one took the place of, with their last changes of then.
        change: The number of the last change to what is remembered of it.
    """

    __slots__ = ("change", "held", "links")

    def __init__(self) -> None:
        super().__init__()
        self.links: Links = defaultdict(set)
        self.held: dict[NamedType, int] = {}
        self.change = 0

    def holds(self, other: "NamedType") -> bool:
        """Whether everything that is remembered of another type is remembered of this one."""
        return self.held.get(other) == other.change


class Place:
    """Where types stand: a field, the items of an array, the values of a map, or the root.

    Attributes:
        tags: What the place itself was tagged with.
        types: All that ever stood here, by what they are called.
        newest: What stood here in the last version that had this place.
        version: That version.
        joined: The other places that were one with it, when that version was entered.
    """

    __slots__ = ("joined", "newest", "tags", "types", "version")

    def __init__(self) -> None:
        self.tags = NO_TAGS
        self.types: dict[str, Type] = {}
        self.newest: Sequence[str] = ()
        self.version = 0
        self.joined: Collection[Place] = ()


class Standing(NamedTuple):
    """A type, by what it was called where it stood, and whether it was surely there in the version before."""

    called: str
    type: Type
    is_newest: bool


class Found(NamedTuple):
    """What a version's parts were in earlier ones, but for each one's own place and type.

    Attributes:
        places: By node and number of field; the items of an array, or the values of a map, have the number -1.
        types: By node.
    """

    places: dict[tuple[int, int], set[Place]]
    types: dict[int, dict[NamedType, None]]


def called(node: Node) -> str:
    """A name that no other type at the same place has; a colon is in no name of Avro's."""
    return node.name or f":{node.kind.value}"


def tags_of(found: Iterable[Place | Type]) -> frozenset[str]:
    """All tags on these places or types themselves."""
    return NO_TAGS.union(*(one.tags for one in found))


def standing(places: Sequence[Place], own: Place | None, spend: Callable[[int], None]) -> list[Standing]:
    """The types at places that may be one.

    Args:
        places: The places.
        own: The one among them that has the name of now, if there is one.
        spend: Called with a number of steps before they are taken.
    """
    newest = frozenset(_newest(places, own, spend))
    return [Standing(name, one, name in newest) for place in places for name, one in place.types.items()]


def _newest(places: Sequence[Place], own: Place | None, spend: Callable[[int], None]) -> Sequence[str]:
    """What stood in the version before, if one place has followed all the others; else nothing is sure."""
    for place in places:
        until = place.version + (place is own)  # of two that stood beside each other, the one of this name is trusted
        if _has_followed(place, places, until, spend):
            return place.newest
    return ()


def _has_followed(place: Place, others: Sequence[Place], until: int, spend: Callable[[int], None]) -> bool:
    for other in others:
        if other is not place:
            spend(1)
            if other not in place.joined or other.version >= until:
                return False
    return True


class TagHistory:
    """All that is remembered of the versions of one subject, in their order.

    Attributes:
        root: Where its own versions stand.
        named: Each named type, at all its places.
        links: Names of types that mean the same.
        count: The tags that are remembered.
        version: The number of the version that is being read.
        changes: Numbers each change to a named type.
    """

    def __init__(self) -> None:
        self.root = Place()
        self.named: dict[str, NamedType] = {}
        self.links: Links = defaultdict(set)
        self.count = TagCount(_TAGS_OF_ALL)
        self.version = 0
        self.changes = count(1)

    def link(self, schema: Schema) -> None:
        """Note which names a version declares to be one, of types and of their fields."""
        for node in schema.nodes:
            _link(self.links, node.name, node.aliases)
            for item in node.fields:
                if item.aliases:
                    _link(self.named.setdefault(node.name, NamedType()).links, item.name, item.aliases)


class Entering:
    """Enters one version; a named type is entered once, whatever refers to it.

    Args:
        history: Into this.
        schema: The version, with the tags that it inherited.
        found: What its parts were.
    """

    def __init__(self, history: TagHistory, schema: Schema, found: Found) -> None:
        self._history = history
        self._nodes = schema.nodes
        self._found = found
        self._entered: set[str] = set()
        self._defined: dict[str, int] = {}
        for number, node in enumerate(schema.nodes):
            self._defined.setdefault(node.name, number)

    def hold(self, spend: Callable[[int], None]) -> None:
        """Let each named type hold what is remembered of those that it was found to be.

        Args:
            spend: Called with a number of steps before they are taken.
        """
        for number, types in self._found.types.items():
            node = self._nodes[number]
            holder = self._history.named.setdefault(node.name, NamedType())
            present = {item.name for item in node.fields}
            for one in types:
                if one is not holder and not holder.holds(one):
                    holder.held[one], holder.change = one.change, next(self._history.changes)
                    spend(sum(map(len, one.links.values())))
                    for name, linked in one.links.items():
                        holder.links[name] |= linked
                    for name, place in one.places.items():
                        spend(1 if name in present else _STEPS_OF_A_COPY)
                        self._copy(place, holder.place(name))

    def _copy(self, place: Place, to: Place) -> None:
        to.tags = self._history.count.joined(to.tags, place.tags)
        to.newest = ()
        for name, one in place.types.items():
            here = to.types.setdefault(name, Type())
            here.tags, here.whole = self._history.count.joined(here.tags, one.tags), one.whole
            here.key_tags |= one.key_tags
            for inner, items in one.places.items():
                self._copy(items, here.place(inner))

    def enter(self, place: Place, number: int) -> None:
        """Enter the type at a place, and everything below it."""
        node = self._nodes[number]
        branches = [number]
        if node.kind is Kind.UNION:
            self._note(place, node)
            branches = [*node.children]
        place.newest = tuple(called(self._nodes[branch]) for branch in branches)
        place.version = self._history.version
        for branch in branches:
            self._type(place, branch)

    def _type(self, place: Place, number: int) -> None:
        node = self._nodes[number]
        if node.kind is Kind.NULL:
            return
        here = place.types.setdefault(called(node), Type())
        self._note(here, node)
        here.key_tags |= node.inherited_keys
        if node.name:
            here.whole = self._history.named.setdefault(node.name, NamedType())
            if node.name not in self._entered:
                self._entered.add(node.name)
                self._whole(here.whole, self._defined[node.name])
        elif node.kind in WRAPPERS:
            self._enter(here, WRAPPERS[node.kind], self._found.places.get((number, -1), ()), node.children[0])

    def _whole(self, whole: NamedType, number: int) -> None:
        node = self._nodes[number]
        whole.change = next(self._history.changes)
        self._note(whole, node)
        for item in node.fields:
            self._note(whole.place(item.name), item)
        for at, item in enumerate(node.fields):
            linked = whole.links.get(item.name, ())
            beside = [whole.places[name] for name in linked if name in whole.places]
            self._enter(whole, item.name, [*beside, *self._found.places.get((number, at), ())], item.node)

    def _enter(self, owner: Type, name: str, joined: Collection[Place], number: int) -> None:
        place = owner.place(name)
        place.joined = frozenset(joined) if joined else ()
        self.enter(place, number)

    def _note(self, at: Place | Type, said: Node | Field) -> None:
        at.tags = self._history.count.joined(at.tags, said.tags | said.inherited)


def _link(links: Links, name: str, aliases: Iterable[str]) -> None:
    for alias in aliases:
        links[name].add(alias)
        links[alias].add(name)
