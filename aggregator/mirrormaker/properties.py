"""Parses Java's `.properties` files, as `java.util.Properties.load` reads them.

Invariant: every line that holds a key gives one property with its line number, in order, also for duplicate keys. No
error holds a part of the text, because it may be a password.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANK = " \t\f"
_ENDS = re.compile(r"\r\n|\n|\r")
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")


class Property(NamedTuple):
    """One key with its value, escapes resolved, and the line on which it begins."""

    key: str
    value: str
    line: int


class PropertiesFault(Exception):
    """Says which line of the file Java refuses, and why.

    Args:
        line: The line's number.
        what: The fault in that line.
    """

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


def parse_properties(text: str) -> list[Property]:
    r"""Every property: `key=value`, `key: value` or `key value`; comments, continued lines and `\u0041` as in Java.

    Args:
        text: Text of the whole file.

    Raises:
        PropertiesFault: an escape that Java refuses, or half of a character.
    """
    return [_property(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that hold a key, with those that continue them."""
    parts: list[str] = []
    begun = 0
    for number, natural in enumerate(_ENDS.split(text), start=1):
        line = natural.lstrip(_BLANK)
        if not parts:
            if not line or line[0] in "#!":
                continue
            begun = number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if continues else line)
        if not continues:
            yield begun, "".join(parts)
            parts = []
    if parts:
        yield begun, "".join(parts)


def _property(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in _SEPARATORS + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] and rest[0] in _SEPARATORS:
        rest = rest[1:].lstrip(_BLANK)
    return Property(_resolved(line[:end], number), _resolved(rest, number), number)


def _resolved(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    found: list[str] = []
    index = 0
    while index < len(text):
        sign = text[index]
        if sign != "\\":
            found.append(sign)
            index += 1
            continue
        escaped = text[index + 1 : index + 2]
        if escaped == "u":
            digits = text[index + 2 : index + 6]
            if not _HEX.fullmatch(digits):
                raise PropertiesFault(number, r"holds \u without four hexadecimal digits")
            found.append(chr(int(digits, 16)))
            index += 6
        else:
            found.append(_ESCAPES.get(escaped, escaped))
            index += 2
    return _joined("".join(found), number)


def _joined(text: str, number: int) -> str:
    r"""Pairs such as `\ud83d\ude00` as the one character that they stand for."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise PropertiesFault(number, r"holds half of a character (\ud800 to \udfff without its other half)") from None
