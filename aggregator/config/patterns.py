"""Topic patterns: RE2, always against the whole name, and what can be said of one without trying every name.

Invariant: matching is linear in the name (Python's `re` is not), and a pattern that RE2 refuses matches nothing.
"""

import importlib
import re
import string
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_SPECIAL = frozenset(".^$*+?()[]{}|\\")
_REPEATS = frozenset("*+?{")


class Branch(NamedTuple):
    """One top-level alternative: the literal text that it begins with; `whole` when it is nothing else."""

    literal: str
    whole: bool


def full_matches(pattern: str, names: Sequence[str]) -> list[bool]:
    r"""Whether the pattern matches the whole of each name.

    Args:
        pattern: RE2 syntax.
        names: Any strings.

    Raises:
        ValueError: RE2 refuses the pattern; the message holds no part of it.
    """
    # Imported on use: a quarter of a second that most uses of the configuration do not need; and pyarrow has no types.
    arrow: Any = importlib.import_module("pyarrow")
    compute: Any = importlib.import_module("pyarrow.compute")
    try:
        # Alone first: `a)(b` compiles inside the group but is no pattern.
        compute.match_substring_regex(_strings(arrow, [""]), pattern=pattern)
        found = compute.match_substring_regex(_strings(arrow, names), pattern=rf"\A(?:{pattern})\z")
    except arrow.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ").partition(":")[0]
        raise ValueError(f"RE2 refuses the pattern ({reason}); it has no look-around and no back-references") from None
    return [bool(item.as_py()) for item in found]


def _strings(arrow: Any, names: Sequence[str]) -> Any:
    """An Arrow array from its buffers: `pyarrow.array` would import pandas, a whole second, to look at a list."""
    encoded = [name.encode() for name in names]
    ends = [0]
    for item in encoded:
        ends.append(ends[-1] + len(item))
    offsets = arrow.py_buffer(struct.pack(f"<{len(ends)}i", *ends))
    return arrow.Array.from_buffers(arrow.string(), len(names), [None, offsets, arrow.py_buffer(b"".join(encoded))])


def literal(name: str) -> str:
    """The pattern that matches this name alone, as a person would write it."""
    return re.escape(name).replace("\\-", "-")


def branches(pattern: str) -> list[Branch]:
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


def _literal(text: str) -> Branch:
    taken: list[str] = []
    index = 0
    while index < len(text):
        escaped = text[index] == "\\" and text[index + 1 : index + 2] in string.punctuation
        sign = text[index + 1 : index + 2] if escaped else text[index]
        if not sign or (not escaped and sign in _SPECIAL):
            if sign in _REPEATS:
                taken = taken[:-1]  # `ab*` begins with `a` only
            return Branch("".join(taken), whole=False)
        taken.append(sign)
        index += 2 if escaped else 1
    return Branch("".join(taken), whole=True)
