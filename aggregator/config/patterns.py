"""Matches topic patterns with RE2, always against the whole name, and analyses a pattern without trying every name.

Invariant: the time for a match is linear in the length of the name, which Python's `re` does not promise. A pattern
that RE2 refuses matches nothing.
"""

import importlib
import itertools
import re
import string
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from aggregator.config.constructs import has_open_quote, unsupported_syntax

_SPECIAL = frozenset(".^$*+?()[]{}|\\")
_REPEATS = frozenset("*+?{")
# A brace that begins no such repetition is a letter like any other, and so are both brackets that close nothing.
_REPEAT = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_LETTERS = "{}]"
# Escapes of one letter that each match one character.
_CLASSES = "dDwWsS"
_CLASS = re.compile(r"\[\^?(?:\\.|[^\[\]\\])+\]")
# More alternatives, and groups within groups, than anybody writes by hand.
_MAX_NAMES = 1000
_MAX_DEPTH = 50


class PatternBranch(NamedTuple):
    """One top-level alternative: the literal text that it begins with; `is_literal` when it is nothing else."""

    literal: str
    is_literal: bool

    def meets(self, other: "PatternBranch") -> bool:
        """Whether a name may be one of this and of another one."""
        short, long = sorted((self, other), key=lambda one: len(one.literal))
        return short.literal == long.literal or (not short.is_literal and long.literal.startswith(short.literal))


_NOTHING, _ANY = PatternBranch("", is_literal=True), PatternBranch("", is_literal=False)


class MatchTargets:
    """Names in the form that RE2 reads, for matching several patterns with them.

    Args:
        names: Any strings.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._strings = _strings(names)

    def matched_by(self, pattern: str) -> list[int]:
        r"""The positions of the names that the pattern matches as a whole, in order.

        Args:
            pattern: RE2 syntax.

        Raises:
            ValueError: RE2 refuses the pattern; the message holds no part of it.
        """
        arrow, compute = _arrow()
        whole = rf"\A(?:{pattern})\z"
        try:
            # The pattern is compiled alone first, because `a)(b` compiles inside the group but is not a pattern. An
            # open `\Q` compiles alone but not inside the group. Without names, Arrow would not compile that at all.
            empty = _strings([""])
            for tried in (pattern, whole):
                compute.match_substring_regex(empty, pattern=tried)
            found = compute.match_substring_regex(self._strings, pattern=whole)
        except arrow.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ").partition(":")[0]
            raise ValueError(f"RE2 refuses the pattern: {_named_construct(pattern) or reason}") from None
        positions: list[int] = compute.indices_nonzero(found).to_pylist()
        return positions


def full_matches(pattern: str, names: Sequence[str]) -> list[bool]:
    """Whether the pattern matches the whole of each name; see `MatchTargets.matched_by`."""
    matched = set(MatchTargets(names).matched_by(pattern))
    return [number in matched for number in range(len(names))]


def _named_construct(pattern: str) -> str:
    """What is wrong with a pattern, in words; empty where only RE2 can tell."""
    if construct := unsupported_syntax(pattern):
        return f"it holds {construct}, which RE2 does not have"
    return r"it begins a quote with `\Q` that no `\E` ends" if has_open_quote(pattern) else ""


def _arrow() -> tuple[Any, Any]:
    """Import on use, because the import takes a quarter of a second and is rarely needed. pyarrow has no types."""
    return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")


def _strings(names: Sequence[str]) -> Any:
    """An Arrow array from its buffers: `pyarrow.array` would import pandas, a whole second, to look at a list."""
    arrow, _ = _arrow()
    encoded = [name.encode() for name in names]
    ends = [0, *itertools.accumulate(map(len, encoded))]
    offsets = arrow.py_buffer(struct.pack(f"<{len(ends)}i", *ends))
    return arrow.Array.from_buffers(arrow.string(), len(names), [None, offsets, arrow.py_buffer(b"".join(encoded))])


def literal(name: str) -> str:
    """The pattern that matches this name alone, as a person would write it."""
    return re.escape(name).replace("\\-", "-").replace(",", "\\,")


def branches(pattern: str) -> list[PatternBranch]:
    """The top-level alternatives of a pattern, each with the literal text that every match of it begins with.

    Anything that is not plain text or an escaped punctuation mark ends the literal, so it is never too long.
    """
    return [_literal(text) for text in _alternatives(pattern)]


def _alternatives(pattern: str) -> list[str]:
    """Split at `|` outside of groups; with a class, a group flag or a quote in sight, do not split at all."""
    if any(mark in pattern for mark in ("[", "(?", r"\Q")):
        return [pattern if "|" not in pattern else "("]
    parts, depth, start, index = [], 0, 0, 0
    while index < len(pattern):
        sign = pattern[index]
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "|" and depth == 0:
            parts.append(pattern[start:index])
            start = index + 1
        index += 2 if sign == "\\" else 1
    return [*parts, pattern[start:]]


def _literal(text: str) -> PatternBranch:
    taken: list[str] = []
    index = 0
    while index < len(text):
        escaped = text[index] == "\\" and text[index + 1 : index + 2] in string.punctuation
        sign = text[index + 1 : index + 2] if escaped else text[index]
        if not sign or (not escaped and sign in _SPECIAL):
            if sign in _REPEATS:
                taken = taken[:-1]  # `ab*` begins with `a` only
            return PatternBranch("".join(taken), is_literal=False)
        taken.append(sign)
        index += 2 if escaped else 1
    return PatternBranch("".join(taken), is_literal=True)


@lru_cache(maxsize=10_000)
def names(pattern: str) -> tuple[PatternBranch, ...]:
    r"""The names that a pattern matches, as far as they can be listed: whole ones, and beginnings of all others.

    `orders|payments-(eu|us)|log\..*` has three names, and all that begin with `log.`. Never too few: what cannot be
    told ends a beginning.
    """
    found, index = _either(pattern, 0, 0)
    every = found if index == len(pattern) else [_ANY]
    begins = [one.literal for one in every if not one.is_literal]
    return tuple(
        one
        for one in dict.fromkeys(every)
        if one != _NOTHING
        and not any(one.literal.startswith(start) and one != PatternBranch(start, is_literal=False) for start in begins)
    )


def _either(pattern: str, index: int, depth: int) -> tuple[list[PatternBranch], int]:
    """Alternatives up to the end of their group, and where that is."""
    every: list[PatternBranch] = []
    while True:
        found, index = _sequence(pattern, index, depth)
        every += found
        if pattern[index : index + 1] != "|":
            return every, index
        index += 1


def _sequence(pattern: str, index: int, depth: int) -> tuple[list[PatternBranch], int]:
    found = [PatternBranch("", is_literal=True)]
    while index < len(pattern) and pattern[index] not in "|)":
        atom, index = _atom(pattern, index, depth)
        if known := _REPEAT.match(pattern, index):
            atom, index = _repeated(pattern[index], atom), known.end()
        every = [
            one if not one.is_literal else PatternBranch(one.literal + more.literal, more.is_literal)
            for one in found
            for more in atom
        ]
        found = every if len(every) <= _MAX_NAMES else [_ANY]
    return found, index


def _repeated(sign: str, atom: list[PatternBranch]) -> list[PatternBranch]:
    match sign:
        case "?":
            return [_NOTHING, *atom]
        case "+":
            return [PatternBranch(one.literal, is_literal=False) for one in atom]
        case _:
            return [_ANY]


def _atom(pattern: str, index: int, depth: int) -> tuple[list[PatternBranch], int]:
    """The branches of a letter, class, escape or group, and its end; an end past the pattern means unknown."""
    sign, after = pattern[index], pattern[index + 1 : index + 2]
    if sign == "(" and depth < _MAX_DEPTH and (after != "?" or pattern.startswith("(?:", index)):
        found, end = _either(pattern, index + (3 if after == "?" else 1), depth + 1)
        return (found, end + 1) if pattern[end : end + 1] == ")" else ([_ANY], len(pattern) + 1)
    if sign == "\\" and after:
        if after in string.punctuation:
            return [PatternBranch(after, is_literal=True)], index + 2
        return [_ANY], index + 2 if after in _CLASSES else len(pattern) + 1
    if sign == "[" and (known := _CLASS.match(pattern, index)):
        return [_ANY], known.end()
    if sign in "^$.":
        return [_ANY if sign == "." else _NOTHING], index + 1
    is_letter = sign not in _SPECIAL or sign in _LETTERS
    return ([PatternBranch(sign, is_literal=True)], index + 1) if is_letter else ([_ANY], len(pattern) + 1)
