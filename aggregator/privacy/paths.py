"""Paths into a value: `customer.email`, `items[].sku`, `attributes.{key}`, `attributes.{}`, with `*` and `**`.

Invariants: `[]` is an array's items, `{}` a map's values, `{key}` its keys; a union's branches have no step of their
own. `*` stands for exactly one step, `**` for any number. Matching costs the patterns that are still alive, not all.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

ITEMS = "[]"
VALUES = "{}"
KEYS = "{key}"
ANY = "*"
ANY_DEPTH = "**"
_SEGMENT = re.compile(r"((?:[A-Za-z_][A-Za-z0-9_]*)|\*\*|\*|\{\}|\{key\})((?:\[\])*)")


def steps(path: str) -> tuple[str, ...]:
    """A path's steps.

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


def join(path: str, step: str) -> str:
    """A path one step longer, as text."""
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

    def matched(self, states: frozenset[int]) -> frozenset[int]:
        """Numbers of the rules whose path ends here."""
        return frozenset(rule for number in states for rule in self._states[number].rules)
