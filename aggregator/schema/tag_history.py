"""Remembers where types stood in earlier versions of a schema, and with which tags.

A type is remembered under all names that mean it, and a field under all of its names, as one thing. What is found to be
one later is joined, for good and with all that is remembered of either.

Invariant: nothing that was remembered is taken back.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

from aggregator.budgets import SCHEMA_STEPS, SCHEMA_TAGS
from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import Kind, Node, TagCount

NO_TAGS: frozenset[str] = frozenset()
# The budgets of steps, beside what is in proportion to a version's text: of one version, and of all.
_STEPS = SCHEMA_STEPS.limit // 10
_STEPS_OF_ALL = 10 * _STEPS
# The budget of tags that are remembered of all versions.
_TAGS_OF_ALL = 10 * SCHEMA_TAGS.limit


class _Joinable:
    """What may be found to be one with another.

    Attributes:
        joined_to: The other one, which has all that was remembered of this.
    """

    __slots__ = ("joined_to",)

    def __init__(self) -> None:
        self.joined_to: Self | None = None

    @property
    def now(self) -> Self:
        """What this one is part of by now."""
        found = self
        while found.joined_to is not None:
            found = found.joined_to
        if found is not self:
            self.joined_to = found
        return found


class NamedType(_Joinable):
    """A record, enum or fixed, under all names that mean it.

    Attributes:
        tags: What it was tagged with.
        fields: Places of a record's fields, by each of their names.
        called: All that it was called.
        version: The last version that had it.
    """

    __slots__ = ("called", "fields", "tags", "version")

    def __init__(self) -> None:
        super().__init__()
        self.tags = NO_TAGS
        self.fields: dict[str, Place] = {}
        self.called: set[Called] = set()
        self.version = 0

    def field(self, name: str) -> "Place | None":
        """The place of a field, if there was one of this name."""
        place = self.fields.get(name)
        if place is not None and place.joined_to is not None:
            place = self.fields[name] = place.now
        return place


# What tells types at one place apart: a named one itself, or the kind of another.
Key = NamedType | Kind
# What Avro matches named types by: the kind, and the name without its namespace.
Called = tuple[Kind, str]


class Type:
    """A type where it stood.

    Attributes:
        called: What it last stood as.
        tags: What it was tagged with there.
        key_tags: What the keys of a map were tagged with.
        inside: The place of an array's items, or a map's values.
        first: The first version in which it stood there.
        last: The last one.
        most: How many stood there at once that are one type by now.
    """

    __slots__ = ("called", "first", "inside", "key_tags", "last", "most", "tags")

    def __init__(self, called: Called, version: int) -> None:
        self.called = called
        self.first = self.last = version
        self.most = 1
        self.tags = self.key_tags = NO_TAGS
        self.inside: Place | None = None


class Place(_Joinable):
    """Where types stand: a field, the items of an array, the values of a map, or the root.

    Attributes:
        tags: What the place itself was tagged with.
        types: All that ever stood here; `TagHistory.stood` has them under the keys of now.
        newest_keys: What stood here in the last version that had the place; `newest` has the keys of now.
        version: That version.
    """

    __slots__ = ("newest_keys", "tags", "types", "version")

    def __init__(self) -> None:
        super().__init__()
        self.tags = NO_TAGS
        self.version = 0
        self.types: dict[Key, Type] = {}
        self.newest_keys: tuple[Key, ...] = ()

    @property
    def newest(self) -> Counter[Key]:
        """What surely stood here in the last version that had the place, and how often."""
        return Counter(map(_now, self.newest_keys))


class Steps:
    """Counts steps, up to the budget of a version.

    Args:
        limit: The budget.
        free: Steps that are in proportion to the version's text, and count nothing.
    """

    def __init__(self, limit: int, free: int) -> None:
        self._limit = self._left = limit
        self._free = free

    @property
    def taken(self) -> int:
        """Those of the budget."""
        return self._limit - self._left

    def spend(self, steps: int) -> None:
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


class TagHistory:
    """All that is remembered of the versions of one subject, in their order.

    Attributes:
        version: The number of the version that is being read.
        places: How many places are remembered.
    """

    def __init__(self) -> None:
        self.version = 0
        self.places = 0
        self._roots: dict[str, Place] = {}
        self._named: dict[str, NamedType] = {}
        self._seen: dict[str, tuple[int, Kind]] = {}
        self._count = TagCount(_TAGS_OF_ALL)
        self._steps_left = _STEPS_OF_ALL
        self._steps = Steps(0, 0)

    def begin(self, free: int) -> Steps:
        """Begin with the next version.

        Args:
            free: Steps that its text is worth; as many are added to the budget of all versions.
        """
        self._steps_left += free - self._steps.taken
        self.version += 1
        self._steps = Steps(min(_STEPS, self._steps_left), free)
        return self._steps

    def root(self, subject: str) -> Place:
        """Where the versions of a subject stand."""
        if subject not in self._roots:
            self._roots[subject] = self._place()
        return self._roots[subject]

    def named(self, name: str) -> NamedType:
        """A named type, new if nothing is known of it."""
        known = self._named.get(name)
        if known is None:
            known = self._named[name] = NamedType()
        return known.now

    def key(self, node: Node) -> Key:
        """What tells a type from others at its place."""
        return self.named(node.name) if node.name else node.kind

    def is_back(self, node: Node) -> bool:
        """Whether the last version that had a named type had it under other names alone, or as another kind.

        A name may come back to its type, or for another one. Aliases of this version say which.
        """
        known = self.named(node.name)
        names = (node.name, *node.aliases)
        return known.version > 0 and all(self._seen.get(name) != (known.version, node.kind) for name in names)

    def saw(self, node: Node) -> NamedType:
        """Note that this version has a named type."""
        known = self.named(node.name)
        known.version, self._seen[node.name] = self.version, (self.version, node.kind)
        known.called.add(called(node))
        return known

    def field(self, of: NamedType, name: str) -> Place:
        """The place of a field, new if there was none of this name."""
        known = of.field(name)
        if known is None:
            known = of.fields[name] = self._place()
        return known

    def stood(self, place: Place) -> dict[Key, Type]:
        """All types that ever stood at a place."""
        types = place.types
        self._steps.spend(len(types))
        if any(_now(key) is not key for key in types):
            place.types = {}
            for key, one in types.items():
                self._put(place, _now(key), one)
        return place.types

    def join_types(self, one: NamedType, other: NamedType) -> bool:
        """Let two types be one for good; whether they were two."""
        one, other = one.now, other.now
        self._steps.spend(1)
        if one is other:
            return False
        if (len(one.fields), len(one.tags)) < (len(other.fields), len(other.tags)):
            one, other = other, one
        self._steps.spend(len(other.fields) + len(other.called))
        other.joined_to = one
        one.tags = self.noted(one.tags, other.tags)
        one.called |= other.called
        one.version = max(one.version, other.version)
        for name, place in other.fields.items():
            known = one.field(name)
            if known is None:
                one.fields[name] = place.now
            else:
                self.join_places(known, place)
        other.fields = {}
        return True

    def join_names(self, of: NamedType, name: str, other: str) -> None:
        """Let two names of fields mean one for good."""
        self._steps.spend(1)
        here, there = of.field(name), of.field(other)
        if here is not None and there is not None:
            self.join_places(here, there)
        else:
            of.fields[name] = of.fields[other] = here or there or self._place()

    def join_places(self, one: Place, other: Place) -> None:
        """Let two places be one for good. What is newest there is sure only where it was the newest of both."""
        one, other = one.now, other.now
        if one is other:
            return
        newest = one.newest_keys or other.newest_keys
        if one.version and other.version:
            self._steps.spend(len(one.newest_keys) + len(other.newest_keys))
            newest = tuple((one.newest & other.newest).elements())
        mine, theirs = one.types, other.types
        if len(mine) < len(theirs):
            one, other, theirs = other, one, mine
        self._steps.spend(1 + len(theirs))
        other.joined_to = one
        one.tags = self.noted(one.tags, other.tags)
        one.version = max(one.version, other.version)
        for key, there in theirs.items():
            self._put(one, _now(key), there)
        one.newest_keys = newest
        other.types = {}

    def stand(self, place: Place, keys: Iterable[tuple[Key, Called]]) -> Iterator[Type]:
        """The types of a version at a place, which are the newest there; where two fields share it, what both have."""
        stood, keys = self.stood(place), list(keys)
        newest = Counter(key for key, _ in keys)
        sure = place.newest & newest if place.version == self.version else newest
        place.newest_keys = tuple(sure.elements())
        place.version = self.version
        for key, known_as in keys:
            if key is Kind.NULL:
                continue
            if key not in stood:
                stood[key] = Type(known_as, self.version)
            here = stood[key]
            here.called, here.last, here.most = known_as, self.version, max(here.most, newest[key])
            yield here

    def inside(self, one: Type) -> Place:
        """The place of an array's items, or a map's values."""
        one.inside = one.inside.now if one.inside else self._place()
        return one.inside

    def within(self, one: Type) -> tuple[list[tuple[Key, Type]], frozenset[str]]:
        """All types within an array or a map, however deep, and the tags of their places."""
        found, tags = list[tuple[Key, Type]](), NO_TAGS
        waiting = [one.inside.now] if one.inside else []
        while waiting:
            place = waiting.pop()
            tags |= place.tags
            for key, inner in self.stood(place).items():
                found.append((key, inner))
                waiting += [inner.inside.now] if inner.inside else []
        return found, tags

    def noted(self, known: frozenset[str], tags: frozenset[str]) -> frozenset[str]:
        """These tags together; what is new is counted.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, all versions have too many.
        """
        return self._count.joined(known, tags)

    def _place(self) -> Place:
        self.places += 1
        return Place()

    def _put(self, place: Place, key: Key, one: Type) -> None:
        known = place.types.setdefault(key, one)
        if known is not one:
            met = known.first <= one.last and one.first <= known.last
            known.most = known.most + one.most if met else max(known.most, one.most)
            known.first, known.last = min(known.first, one.first), max(known.last, one.last)
            known.tags = self.noted(known.tags, one.tags)
            known.key_tags = self.noted(known.key_tags, one.key_tags)
            if known.inside and one.inside:
                self.join_places(known.inside, one.inside)
            known.inside = known.inside or one.inside


def called(node: Node) -> Called:
    """What Avro matches a type by; of one without a name, its kind alone."""
    return node.kind, node.name.rpartition(".")[2]


def _now(key: Key) -> Key:
    return key.now if isinstance(key, NamedType) else key
