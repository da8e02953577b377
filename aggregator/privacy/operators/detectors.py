"""What looks like personal data in free text: each detector names the spans that it finds.

Invariant: linear in the text (a text is first cut at single signs, then judged piece by piece), spans do not overlap
and come in order. Rather too much than too little: seven digits in a row of groups count as a phone number.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

from aggregator.privacy.operators.checks import Luhn, passes_mod97

Span = tuple[int, int]

_EMAIL_PIECE = re.compile(r"[^\s<>()\[\],;:\"]+")
_IP_PIECE = re.compile(r"[0-9A-Fa-f:.]+")
_JWT_PIECE = re.compile(r"[A-Za-z0-9_.-]+")
_JWT_START = "eyJ"  # `{"` in base64url
_WORD = re.compile(r"[0-9A-Za-z]+")
_IBAN_START = re.compile(r"[A-Za-z]{2}[0-9]{2}")
_DIGITS = re.compile(r"\d+")
_AT = re.compile(r"[@\uff20]")
_BETWEEN_GROUPS = frozenset(" -.\u00a0\u202f\u2010\u2011")
_BETWEEN_PHONE_GROUPS = _BETWEEN_GROUPS | frozenset("()/\u2013")
_LONGEST_PHONE_GAP = 3  # `+49 (0) 30`
_PHONE_DIGITS = range(7, 16)
_CARD_DIGITS = range(12, 20)
_IBAN_SIGNS = range(15, 35)
_OCTETS, _HIGHEST_OCTET, _OCTET_DIGITS = 4, 255, 3
_LEAST_COLONS = 2


def emails(text: str) -> Iterator[Span]:
    """Something at something."""
    for piece in _EMAIL_PIECE.finditer(text) if _AT.search(text) else ():
        found = piece.group().rstrip(".!?'")
        parts = _AT.split(found)
        if len(parts) > 1 and parts[0] and parts[-1]:
            yield piece.start(), piece.start() + len(found)


def ips(text: str) -> Iterator[Span]:
    """IPv4 with or without a port, IPv6 that stands alone."""
    for piece in _IP_PIECE.finditer(text):
        start, found = piece.start(), piece.group().rstrip(".")
        found = found if found.endswith("::") else found.rstrip(":")
        host = found.partition(":")[0] if found.count(":") == 1 else found
        if _is_v4(host) or (_is_v6(found) and not _touches_word(text, start, start + len(found))):
            yield start, start + len(host)


def _is_v4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == _OCTETS and all(
        part.isdecimal() and len(part) <= _OCTET_DIGITS and int(part) <= _HIGHEST_OCTET for part in parts
    )


def _is_v6(text: str) -> bool:
    if text.count(":") < _LEAST_COLONS:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _touches_word(text: str, start: int, end: int) -> bool:
    return text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()


def jwts(text: str) -> Iterator[Span]:
    """A JSON object in base64url, with more behind a point."""
    for piece in _JWT_PIECE.finditer(text) if _JWT_START in text else ():
        at, found = 0, piece.group().rstrip(".")
        for part in found.split("."):
            if part.startswith(_JWT_START) and at + len(part) < len(found):
                yield piece.start() + at, piece.start() + len(found)
                break
            at += len(part) + 1


def ibans(text: str) -> Iterator[Span]:
    """Groups that begin with country and check digits, and pass the check together."""
    if not _IBAN_START.search(text):
        return iter(())
    words = [word.span() for word in _WORD.finditer(text)]
    signs = "".join(text[start:end] for start, end in words)
    return _windows(text, words, _IBAN_SIGNS, lambda start, end: _is_iban(signs[start:end]))


def _is_iban(signs: str) -> bool:
    return signs[:2].isalpha() and signs[2:4].isdecimal() and passes_mod97(signs)


def cards(text: str) -> Iterator[Span]:
    """Groups of digits that pass the check together."""
    groups = [group.span() for group in _DIGITS.finditer(text)]
    luhn = Luhn("".join(text[start:end] for start, end in groups))
    return _windows(text, groups, _CARD_DIGITS, luhn.passes)


def _windows(text: str, groups: list[Span], lengths: range, passes: Callable[[int, int], bool]) -> Iterator[Span]:
    """Neighbouring groups that pass together, the longest first; one sign may stand between two.

    `passes` is asked with a start and an end in all the groups' signs, put together.
    """
    ends = [0, *accumulate(end - start for start, end in groups)]
    place = 0
    while place < len(groups):
        last = -1
        for index in range(place, len(groups)):
            begin = groups[index][0]
            if index > place and (begin - groups[index - 1][1] != 1 or text[begin - 1] not in _BETWEEN_GROUPS):
                break
            length = ends[index + 1] - ends[place]
            if length >= lengths.stop:
                break
            if length in lengths and passes(ends[place], ends[index + 1]):
                last = index
        if last >= 0:
            yield groups[place][0], groups[last][1]
        place = max(place, last) + 1


def phones(text: str) -> Iterator[Span]:
    """A row of groups with seven digits or more; a single group longer than any phone number is something else."""
    groups = [group.span() for group in _DIGITS.finditer(text)]
    rows: list[list[Span]] = [groups[:1]] if groups else []
    for before, group in pairwise(groups):
        gap = text[before[1] : group[0]]
        if len(gap) <= _LONGEST_PHONE_GAP and _BETWEEN_PHONE_GROUPS.issuperset(gap):
            rows[-1].append(group)
        else:
            rows.append([group])
    for row in rows:
        digits = sum(end - start for start, end in row)
        if digits in _PHONE_DIGITS or (len(row) > 1 and digits >= _PHONE_DIGITS.start):
            start = row[0][0]
            yield start - (text[max(0, start - 1) : start] in ("+", "\uff0b", "(")), row[-1][1]
