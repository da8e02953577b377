"""Paths into a value: `customer.email`, `items[].sku`, `attributes.{key}`, `attributes.{}`, with `*` and `**`.

Invariants: `[]` is an array's items, `{}` a map's values, and `{key}` its keys. A union's branches have no step of
their own. `*` stands for exactly one step, and `**` for any number of steps. The cost of matching depends on the
patterns that are still alive, not on all of them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ITEMS = "[]"
VALUES = "{}"
KEYS = "{key}"
ANY = "*"
ANY_DEPTH = "**"
# Steps that are not names.
WILD = frozenset((ITEMS, VALUES, KEYS, ANY, ANY_DEPTH))
# Names that Avro allows, and plain names of JSON: `first-name`, `@type`, `2024`.
_SEGMENT = re.compile(r"((?:[A-Za-z0-9_$@:-]+)|\*\*|\*|\{\}|\{key\})((?:\[\])*)")


def steps(path: str) -> tuple[str, ...]:
    """Split a path into its steps.

    Raises:
        ValueError: not a path.
    """
    found: list[str] = []
    for position, segment in enumerate(path.split(".")):
        if position == 0 and segment and segment == ITEMS * (len(segment) // 2):
            found += [ITEMS] * (len(segment) // 2)  # the value itself is an array
            continue
        match = _SEGMENT.fullmatch(segment)
        if not match:
            raise ValueError("is no path; write `customer.email`, `items[].sku`, `attributes.{key}`, `attributes.{}`")
        found += [match[1], *([ITEMS] * (len(match[2]) // 2))]
    return tuple(found)


def exact(path: str) -> str:
    """A path of names alone: it leads to one place in a record.

    Raises:
        ValueError: another path, or none.
    """
    if not WILD.isdisjoint(steps(path)):
        raise ValueError("is no single field; write names with points between, like `customer.id`")
    return path


def join(path: str, step: str) -> str:
    """A path that is one step longer."""
    return f"{path}{step}" if step == ITEMS or not path else f"{path}.{step}"


class _State(NamedTuple):
    """A place in the tree of patterns: steps onwards, and the rules that end here."""

    number: int
    onwards: dict[str, int]
    rules: list[int]
    loops: bool


class Matcher:
    """All patterns of a policy as one automaton.

    Args:
        patterns: (steps, rule number); several rules may have one path.
    """

    def __init__(self, patterns: Iterable[tuple[tuple[str, ...], int]]) -> None:
        self._states = [_State(0, {}, [], loops=False)]
        for path, rule in patterns:
            state = 0
            for step in path:
                state = self._next(state, step)
            self._states[state].rules.append(rule)
        self.start = self._closed({0})

    def _next(self, state: int, step: str) -> int:
        onwards = self._states[state].onwards
        if step not in onwards:
            onwards[step] = len(self._states)
            self._states.append(_State(len(self._states), {}, [], loops=step == ANY_DEPTH))
        return onwards[step]

    def tell_apart(self, path: Sequence[str]) -> None:
        """Give the places along a path states of their own, though no rule may end there."""
        state = 0
        for step in path:
            state = self._next(state, step)

    def _closed(self, states: set[int]) -> frozenset[int]:
        """With every `**` entered that may stand for no step at all."""
        waiting = list(states)
        while waiting:
            inner = self._states[waiting.pop()].onwards.get(ANY_DEPTH)
            if inner is not None and inner not in states:
                states.add(inner)
                waiting.append(inner)
        return frozenset(states)

    def advance(self, states: frozenset[int], step: str) -> frozenset[int]:
        """The states after one more step of a value's path."""
        after: set[int] = set()
        for number in states:
            state = self._states[number]
            after.update(inner for name in (step, ANY) if (inner := state.onwards.get(name)) is not None)
            if state.loops:
                after.add(number)
        return self._closed(after)

    def names(self, states: frozenset[int], name: str) -> bool:
        """Whether a pattern that is still alive has this name for its next step."""
        return any(name in self._states[number].onwards for number in states)

    def names_on_the_way(self, states: frozenset[int], name: str, ways: frozenset[int]) -> bool:
        """Whether that is so for a pattern on one of these ways, as `ways_to` has them."""
        return any(self._states[number].onwards.get(name) in ways for number in states)

    def ways_to(self, rules: frozenset[int]) -> frozenset[int]:
        """States in which one of these rules ends, or from which it can be reached."""
        found: set[int] = set()
        for state in reversed(self._states):  # later states have higher numbers
            if not rules.isdisjoint(state.rules) or not found.isdisjoint(state.onwards.values()):
                found.add(state.number)
        return frozenset(found)

    def leading_to(self, rules: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        """States from which one of these rules can be reached: through a member of an object, through an array's item.

        At least one step is taken, of any name where a wildcard stands; the names of a map lead to no value.
        """
        members: set[int] = set()
        items: set[int] = set()
        for state in reversed(self._states):  # later states have higher numbers
            leading = {
                step
                for step, inner in state.onwards.items()
                if step != KEYS
                and (inner in members or inner in items or not rules.isdisjoint(self._states[inner].rules))
            }
            if state.loops and (leading or not rules.isdisjoint(state.rules)):
                leading = {ANY}  # whatever comes first
            if not leading.isdisjoint((ITEMS, ANY, ANY_DEPTH)):
                items.add(state.number)
            if not leading <= {ITEMS}:
                members.add(state.number)
        return frozenset(members), frozenset(items)

    def matched(self, states: frozenset[int]) -> frozenset[int]:
        """Numbers of the rules whose path ends here."""
        return frozenset(rule for number in states for rule in self._states[number].rules)
