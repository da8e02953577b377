"""Decides what a policy's paths leave of JSON values that have no schema.

A path names one place. Its rule applies to a text, number or truth value at that place, and to nothing else. The
content of a container is open only by a path of its own (`items[].sku`) or by `**`. A rule that removes data applies to
everything below its place. Names of an object that the policy writes out are the policy's words and stay, if a path
that opens something has them. Any other name is data, and passes only by its own rule: `**` or `*` with `keep`, or
`{key}` beside `{}`.

Invariants: a rule that drops, or has ended, opens nothing, neither by the names in its path nor by what it leads into.
A place is shown in the policy's words alone (an unlisted name is `{}`). The decision for one place and one type is made
once.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from aggregator.budgets import JSON_PLACES
from aggregator.privacy import operators
from aggregator.privacy.batch.tally import NULL
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.plan import Call, Row
from aggregator.privacy.policy.precedence import AppliedRule, Scope
from aggregator.privacy.policy.rules import other_field
from aggregator.schema.avro import Kind

# The types of JSON, as leaves that operators accept.
LEAVES: Mapping[str, Leaf] = {
    "string": Leaf(Kind.STRING),
    "integer": Leaf(Kind.LONG),
    "number": Leaf(Kind.DOUBLE),
    "boolean": Leaf(Kind.BOOLEAN),
}
NAME = "name"
# A path like `free.**` accepts an unbounded number of places.
MAXIMUM_PLACES = JSON_PLACES.limit
_CONTAINERS = ("object", "array")
_WRITTEN = frozenset((Kind.STRING, Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.BOOLEAN))
# A step that only wildcards match.
_NO_NAME = ""


class PlaceRule(NamedTuple):
    """What happens to values of one type at one place.

    Attributes:
        row: The rule that fired, explained.
        call: The operator to ask; None if the value stays or leaves.
    """

    row: Row
    call: Call | None

    @property
    def is_dropped(self) -> bool:
        """Whether the value is dropped."""
        return self.row.operator == "drop"


class Member(NamedTuple):
    """A member of an object: where its value lies, and what happens to its name; None where that is the policy's."""

    place: "JsonPlace"
    name: PlaceRule | None


class JsonPlace:
    """One place, as all paths of a policy see it.

    Args:
        allowed: The policy's paths.
        alive: States of their automaton.
        inherited: Rules that hold for all below.
        path: In the policy's words.

    Attributes:
        rules: Numbers of the rules that reach it.
    """

    def __init__(self, allowed: "AllowList", alive: frozenset[int], inherited: frozenset[int], path: str) -> None:
        self.path = path
        self.alive = alive
        self._allowed = allowed
        ending = allowed.matcher.matched(alive)
        self.rules = inherited | ending
        self._inherited = inherited | (ending & allowed.closing)
        self._decisions: dict[str, PlaceRule] = {}
        self._members: dict[str, Member] = {}
        self._item: JsonPlace | None = None

    @property
    def opens_object(self) -> bool:
        """Whether anything can be left of an object."""
        return not self.alive.isdisjoint(self._allowed.to_members)

    @property
    def opens_array(self) -> bool:
        """Whether anything can be left of an array."""
        return not self.alive.isdisjoint(self._allowed.to_items)

    def decision_for(self, kind: str) -> PlaceRule:
        """What happens to a value of a JSON type that has no parts."""
        if kind not in self._decisions:
            self._decisions[kind] = self._allowed.decision_for(self.rules, kind, self.path)
        return self._decisions[kind]

    def item(self) -> "JsonPlace":
        """The place of an array's items."""
        if self._item is None:
            self._item = self._below(self._allowed.matcher.advance(self.alive, paths.ITEMS), paths.ITEMS)
        return self._item

    def member(self, name: str) -> Member:
        """The place of an object's member."""
        is_written = name not in paths.WILD and self._allowed.matcher.names(self.alive, name)
        step = name if is_written else _NO_NAME
        if step not in self._members:
            matcher = self._allowed.matcher
            alive = matcher.advance(self.alive, step) | matcher.advance(self.alive, paths.VALUES)
            place = self._below(alive, name if is_written else paths.VALUES)
            is_word = is_written and matcher.names_on_the_way(self.alive, name, self._allowed.ways)
            self._members[step] = Member(place, None if is_word else self._name())
        return self._members[step]

    def _name(self) -> PlaceRule:
        return self._allowed.decision_for(self.naming(), NAME, paths.join(self.path, paths.KEYS))

    def naming(self) -> frozenset[int]:
        """Numbers of the rules that reach the names of an object here."""
        matcher = self._allowed.matcher
        return self._inherited | matcher.matched(matcher.advance(self.alive, paths.KEYS))

    def _below(self, alive: frozenset[int], step: str) -> "JsonPlace":
        return self._allowed.place(alive, self._inherited, paths.join(self.path, step))


class AllowList:
    """A policy's paths on one topic, on one day.

    Args:
        scope: What the policy says; its default is to drop.
        today: Decides which `keep` has expired.
    """

    def __init__(self, scope: Scope, today: date) -> None:
        self._scope = scope
        self._today = today
        self.matcher = paths.Matcher((rule.steps, number) for number, rule in enumerate(scope.rules))
        self.closing = frozenset(
            n for n, item in enumerate(scope.rules) if not isinstance(item.rule, Keep) or item.rule.expired(today)
        )
        opening = frozenset(n for n, item in enumerate(scope.rules) if not item.only_closes(today))
        self.to_members, self.to_items = self.matcher.leading_to(opening)
        self.ways = self.matcher.ways_to(opening)
        self._places = 0
        self._shared: dict[tuple[frozenset[int], frozenset[int]], JsonPlace] = {}
        self.root = JsonPlace(self, self.matcher.start, frozenset(), "")

    def explained(self) -> Iterator[tuple[str, AppliedRule]]:
        """The decision at each path that is written, for a value that its operator takes.

        Of a path with `*` or `**`, which are many places, it is that of the places where nothing else reaches.
        """
        for path in dict.fromkeys(item.path for item in self._scope.rules):
            steps = paths.steps(path)
            alone = frozenset(number for number, item in enumerate(self._scope.rules) if item.path == path)
            rules = self._reaching(steps) if {paths.ANY, paths.ANY_DEPTH}.isdisjoint(steps) else alone
            yield path, self._scope.decide(rules, frozenset(), self._today)

    def _reaching(self, steps: Sequence[str]) -> frozenset[int]:
        place = self.root
        for step in steps:
            if step == paths.KEYS:
                return place.naming()
            place = place.item() if step == paths.ITEMS else place.member(step).place
        return place.rules

    def place(self, alive: frozenset[int], inherited: frozenset[int], path: str) -> JsonPlace:
        """A place below another one; of too many, those that are treated alike are one, under the path of the first."""
        self._places += 1
        if self._places <= MAXIMUM_PLACES:
            return JsonPlace(self, alive, inherited, path)
        if (alive, inherited) not in self._shared:
            self._shared[alive, inherited] = JsonPlace(self, alive, inherited, path)
        return self._shared[alive, inherited]

    def decision_for(self, rules: frozenset[int], kind: str, path: str) -> PlaceRule:
        """What happens to a value at a place."""
        decision = self._scope.decide(rules, frozenset(), self._today)
        rule, because, call = decision.rule, decision.because, None
        if kind in _CONTAINERS:  # open by what lies below, and by that alone
            because = because if isinstance(rule, Drop) else f"{because}; {rule.operator} does not take {kind}"
            rule = Drop()
        elif not isinstance(rule, Keep | Drop) and kind != NULL:
            leaf = LEAVES["string" if kind == NAME else kind]
            result = operators.result(rule, leaf)
            if (
                result is None
                or result.kind not in _WRITTEN
                or (kind == NAME and not operators.is_injective(rule, result))
            ):
                because = f"{because}; {rule.operator} does not take {'names' if kind == NAME else kind}"
                rule = Drop()
            else:
                context = operators.context(rule, self._scope.topic, path, self._today)
                call = Call(rule, leaf, result, context, other_field(rule))
        shown = AppliedRule(rule, because)
        return PlaceRule(Row(path, kind, (), because, rule.operator, shown.privacy_class), call)
