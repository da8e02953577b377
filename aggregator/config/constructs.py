"""Finds constructs of Java's regular expressions that RE2 refuses or reads differently.

MirrorMaker's configuration uses Java's regular expressions, and the hub uses RE2.
Invariant: a message names the construct and repeats no part of the pattern. RE2 accepts `[a-z&&[^b]]` and `[a-d[m-p]]`
silently but gives them another meaning. These two are therefore searched for before RE2 is asked.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_GROUPS = {
    "(?=": "a look-ahead",
    "(?!": "a look-ahead",
    "(?<=": "a look-behind",
    "(?<!": "a look-behind",
    "(?>": "an atomic group",
}
_POSSESSIVE = re.compile(r"[*+?]\+|\{\d+(?:,\d*)?\}\+")
_REPEAT = re.compile(r"\{\d+(?:,\d*)?\}")
_REFERENCES = frozenset("123456789k")
_SEPARATORS = frozenset(", \t")


class _Piece(NamedTuple):
    """An escape, a class, a repetition or one character; `unsupported_syntax`: what RE2 reads otherwise, of a class."""

    start: int
    end: int
    unsupported_syntax: str = ""


def unsupported_syntax(pattern: str) -> str:
    """The first construct that RE2 does not have or reads otherwise, by its name; empty where there is none."""
    for start, end, found in _pieces(pattern):
        if found:
            return found
        if pattern[start] == "\\" and pattern[start + 1 : end] in _REFERENCES:
            return "a back-reference"
        if group := next((name for name in _GROUPS if pattern.startswith(name, start)), ""):
            return _GROUPS[group]
        if _POSSESSIVE.match(pattern, start):
            return "a possessive quantifier"
    return ""


def has_open_quote(pattern: str) -> bool:
    r"""Whether a `\Q` lacks its `\E`: it would quote whatever is written behind the pattern, too."""
    pieces = (pattern[start:end] for start, end, _ in _pieces(pattern))
    return any(piece.startswith(r"\Q") and not piece.endswith(r"\E", 2) for piece in pieces)


def is_list(pattern: str) -> bool:
    """Whether it holds a comma or a space that is to be matched, as MirrorMaker's lists do: no topic has one."""
    return any(pattern[start:end] in _SEPARATORS for start, end, _ in _pieces(pattern))


def _pieces(pattern: str) -> Iterator[_Piece]:
    end = 0
    while (start := end) < len(pattern):
        found = ""
        if pattern[start] == "\\":
            end = _after_escape(pattern, start)
        elif pattern[start] == "[":
            found, end = _class(pattern, start)
        else:
            repeat = _REPEAT.match(pattern, start)
            end = repeat.end() if repeat else start + 1
        yield _Piece(start, end, found)


def _after_escape(pattern: str, index: int) -> int:
    if not pattern.startswith(r"\Q", index):
        return index + 2
    end = pattern.find(r"\E", index)
    return len(pattern) if end < 0 else end + 2


def _class(pattern: str, index: int) -> tuple[str, int]:
    """The foreign construct in the class that begins here, and the end; a leading bracket is a letter."""
    index += 2 if pattern.startswith("[^", index) else 1
    index += pattern.startswith("]", index)
    while index < len(pattern) and pattern[index] != "]":
        if pattern.startswith("&&", index):
            return "an intersection of classes (`&&`)", index
        if pattern.startswith("[:", index):
            index = max(index, pattern.find(":]", index)) + 2
        elif pattern[index] == "[":
            return "a class within a class", index
        else:
            index = _after_escape(pattern, index) if pattern[index] == "\\" else index + 1
    return "", index + 1
