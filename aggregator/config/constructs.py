r"""Constructs of Java's regular expressions, as MirrorMaker takes them, that RE2 refuses or reads otherwise.

Invariant: names the construct, and repeats nothing of the pattern. `[a-z&&[^b]]` and `[a-d[m-p]]` are the ones that RE2
takes without a word and that mean something else there, so that they are looked for before RE2 is asked.
"""

import re

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


def foreign(pattern: str) -> str:
    """The first construct that RE2 does not have or reads otherwise, by its name; empty where there is none."""
    index = 0
    while index < len(pattern):
        if pattern[index] == "\\":
            if pattern[index + 1 : index + 2] in _REFERENCES:
                return "a back-reference"
            index = _after_escape(pattern, index)
        elif pattern[index] == "[":
            found, index = _class(pattern, index)
            if found:
                return found
        elif group := next((name for name in _GROUPS if pattern.startswith(name, index)), ""):
            return _GROUPS[group]
        elif _POSSESSIVE.match(pattern, index):
            return "a possessive quantifier"
        else:
            index += 1
    return ""


def is_list(pattern: str) -> bool:
    """Whether it holds a comma or a space that is to be matched, as MirrorMaker's lists do: no topic has one."""
    index = 0
    while index < len(pattern):
        if pattern[index] == "\\":
            index = _after_escape(pattern, index)
        elif pattern[index] == "[":
            _, index = _class(pattern, index)
        elif repeat := _REPEAT.match(pattern, index):
            index = repeat.end()
        elif pattern[index] in ", \t":
            return True
        else:
            index += 1
    return False


def _after_escape(pattern: str, index: int) -> int:
    if not pattern.startswith(r"\Q", index):
        return index + 2
    end = pattern.find(r"\E", index)
    return len(pattern) if end < 0 else end + 2


def _class(pattern: str, index: int) -> tuple[str, int]:
    """What is foreign in the class that begins here, and where it ends; a bracket right after its begin is a letter."""
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
