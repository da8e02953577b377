"""Detectors find spans of free text that look like personal data.

Invariant: time and memory are linear in the text: it is first cut at single signs, then judged piece by piece. Spans do
not overlap and come in order. In case of doubt a span is reported: seven digits in a row of groups count as a phone
number. Two exceptions are not reported. The first is the time of a log line (RFC 3339, or ISO 8601 to the minute),
which has a time of day in it. The second is digits beside a letter in a group of a UUID.
"""

import ipaddress
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise

from aggregator.privacy.operators.checks import Luhn, Mod97

Span = tuple[int, int]

_ENTITY = r"&(?:amp;)*+(?:#0*+64|#[xX]0*+40|commat);?"
# The at sign as in plain text, as in a URL (encoded once or several times), and as in HTML.
_AT = re.compile(rf"@|\uff20|\ufe6b|%(?:25)*+40|{_ENTITY}")
# The quantifiers are possessive: matched text is never looked at again, and costs no memory.
_EMAIL_PIECE = re.compile(rf"(?:[^\s<>()\[\],;:\"&]++|{_ENTITY}|&amp;|&)++")
_IP_PIECE = re.compile(r"[\dA-Fa-f:.]+")
# Letters and colons may stand around an address: `ip:10.0.0.1`, `cafe10.0.0.1`.
_V4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)")
_JWT_PIECE = re.compile(r"[A-Za-z0-9_.-]+")
_JWT_START = "eyJ"  # `{"` in base64url
_WORD = re.compile(r"[0-9A-Za-z]+")
_NO_WORD = bytes(code for code in range(256) if not (code < 128 and chr(code).isalnum()))  # noqa: PLR2004 - ASCII
_IBAN_START = re.compile(r"[A-Za-z]{2}[0-9]{2}")
_DIGITS = re.compile(r"\d+")
_TIME = re.compile(
    r"(?<![\w+(])(?<!\d\W)(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    # After a comma, no more digits count than a time usually has, because the next column may be a phone number.
    r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]"
    r"(?::[0-5][0-9](?:\.[0-9]{1,9}|,[0-9]{1,6})?)?(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?(?![\w:])"
)
_UUID = re.compile(r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])")
# The longest local part of an address, with quotes, and the longest address literal (RFC 5321, 4.5.3.1).
_LONGEST_LOCAL, _LONGEST_LITERAL = 66, 64
_CLOSING = {"[": "]", "(": ")"}
# Invisible signs that Unicode does not count as spaces (Default_Ignorable_Code_Point; a blank of Braille; keycaps).
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u20e3\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10))
)
_MARKS_BETWEEN_GROUPS = _UNSEEN | frozenset("-._|,\t\n\v\f\r\x85\u2028\u2029\u00b7\u2022\u2027\u2212\u2219\u30fb")
_MARKS_BETWEEN_PHONE_GROUPS = _MARKS_BETWEEN_GROUPS | frozenset("()/")
_SPACE_OF_FORMS = "+"  # alone; beside a space it begins the next number
_LONGEST_GAP = 3  # `+49 (0) 30`
_PHONE_DIGITS = range(7, 16)
_CARD_DIGITS = range(12, 20)
_IBAN_SIGNS = range(15, 35)
_HIGHEST_OCTET = 255
_LEAST_COLONS, _V6_SIGNS = 2, 45


def blank(found: re.Match[str]) -> str:
    """A blank of equal length: places and shares stay true, and it is part of no number."""
    return "~" * len(found.group())


def without_letters(found: re.Match[str]) -> str:
    """Keep the purely decimal groups of a UUID; a digit beside a letter is no part of a number."""
    return "-".join(group if group.isdecimal() else "~" * len(group) for group in found.group().split("-"))


def emails(text: str) -> Iterator[Span]:
    """Something at something; with its quotes, comments and brackets."""
    behind = 0
    for piece in _EMAIL_PIECE.finditer(text) if _AT.search(text) else ():
        found = piece.group().rstrip(".!?'")
        parts = _AT.split(found)
        if len(parts) == 1:
            continue
        start, end = piece.start(), piece.start() + len(found)
        if not any(local and domain for local, domain in pairwise(parts)):  # as `@jane@example.com` has them, too
            if not parts[0]:
                start = _local(text, max(behind, start - _LONGEST_LOCAL), start)
            if not parts[-1]:
                end = _literal(text, end)
            has_local, has_domain = parts[0] or start < piece.start(), parts[-1] or end > piece.start() + len(found)
            if not (has_local and has_domain):
                continue
        behind = end
        yield start, end


def _local(text: str, least: int, at: int) -> int:
    """The start of a local part that ends here, with its quotes or comment."""
    if text[at - 1 : at] == '"':
        opened = text.rfind('"', least, at - 1)
        at = opened if opened >= 0 else least
    while at > least and not text[at - 1].isspace():
        at -= 1
    return at


def _literal(text: str, at: int) -> int:
    """The end of a domain in brackets, or of a comment before a domain, that begins here."""
    closing = _CLOSING.get(text[at : at + 1])
    closed = text.find(closing, at, at + _LONGEST_LITERAL) if closing else -1
    return max(at, closed + 1)


def ips(text: str) -> Iterator[Span]:
    """IPv4 wherever it stands, IPv6 that stands alone or behind a name and a colon."""
    for piece in _IP_PIECE.finditer(text):
        found = piece.group().rstrip(".")
        end = piece.start() + len(found if found.endswith("::") else found.rstrip(":"))
        start = _v6_start(text, piece.start(), end)
        if start >= 0:
            yield start, end
            continue
        for host in _V4.finditer(piece.group()):
            if all(int(part) <= _HIGHEST_OCTET for part in host.group().split(".")):
                yield piece.start() + host.start(), piece.start() + host.end()


def _v6_start(text: str, start: int, end: int) -> int:
    """The start of the IPv6 address that ends here: a start or behind its first colon; -1: there is none."""
    for at in (start, max(start, text.find(":", start, end) + 1)):
        if _is_v6(text[at : min(end, at + _V6_SIGNS + 1)]) and not _touches_word(text, at, end):
            return at
    return -1


def _is_v6(text: str) -> bool:
    if text.count(":") < _LEAST_COLONS or len(text) > _V6_SIGNS:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _touches_word(text: str, start: int, end: int) -> bool:
    """Whether a Latin letter or a digit stands beside it: scripts without spaces let theirs touch an address."""
    beside = text[max(0, start - 1) : start] + text[end : end + 1]
    return any(sign.isascii() and sign.isalnum() for sign in beside)


def jwts(text: str) -> Iterator[Span]:
    """A JSON object in base64url, with more behind a point."""
    for piece in _JWT_PIECE.finditer(text) if _JWT_START in text else ():
        found = piece.group().rstrip(".")
        at = found.find(_JWT_START)
        if at >= 0 and "." in found[at:]:
            yield piece.start() + at, piece.start() + len(found)


def ibans(text: str) -> Iterator[Span]:
    """Groups that begin with country and check digits, and pass the check together."""
    signs = text.encode("ascii", "replace").translate(None, _NO_WORD).decode()
    if not _IBAN_START.search(signs):
        return iter(())
    check = Mod97(signs)
    return _windows(
        text, _WORD, _IBAN_SIGNS, lambda start, end: bool(_IBAN_START.match(signs, start)) and check.passes(start, end)
    )


def cards(text: str) -> Iterator[Span]:
    """Groups of digits that pass the check together."""
    return _windows(text, _DIGITS, _CARD_DIGITS, Luhn(text).passes)


def _windows(text: str, group: re.Pattern[str], lengths: range, passes: Callable[[int, int], bool]) -> Iterator[Span]:
    """Neighbouring groups that pass together, the longest first; three signs may stand between them.

    `passes` is asked with a start and an end in all the groups' signs, put together.
    """
    starts, stops, ends, joined = array("i"), array("i"), array("i", [0]), array("b")
    for one in group.finditer(text):
        is_joined = bool(stops) and _is_gap(text, stops[-1], one.start(), _LONGEST_GAP, _MARKS_BETWEEN_GROUPS)
        joined.append(is_joined)
        starts.append(one.start())
        stops.append(one.end())
        ends.append(ends[-1] + one.end() - one.start())
    place = 0
    while place < len(starts):
        last = -1
        for index in range(place, len(starts)):
            if index > place and not joined[index]:
                break
            length = ends[index + 1] - ends[place]
            if length >= lengths.stop:
                break
            if length in lengths and passes(ends[place], ends[index + 1]):
                last = index
        if last >= 0:
            yield starts[place], stops[last]
        place = max(place, last) + 1


def _is_gap(text: str, start: int, end: int, longest: int, marks: frozenset[str]) -> bool:
    """Whether groups on both sides may be of one number: between them stand spaces, dashes, some marks, or what nobody
    sees.
    """
    gap = text[start : min(end, start + longest + 1)]
    is_short = 0 < len(gap) <= longest
    return gap == _SPACE_OF_FORMS or (
        is_short and all(sign in marks or unicodedata.category(sign) in ("Zs", "Pd", "Cf") for sign in gap)
    )


def phones(text: str) -> Iterator[Span]:
    """A row of groups with seven digits or more; a single group longer than any phone number is something else."""
    start = end = groups = digits = 0
    text = _UUID.sub(without_letters, _TIME.sub(blank, text))
    for group in _DIGITS.finditer(text):
        if groups and not _is_gap(text, end, group.start(), _LONGEST_GAP, _MARKS_BETWEEN_PHONE_GROUPS):
            if _is_phone(groups, digits):
                yield _with_sign(text, start), end
            groups = digits = 0
        start = start if groups else group.start()
        groups, digits, end = groups + 1, digits + group.end() - group.start(), group.end()
    if _is_phone(groups, digits):
        yield _with_sign(text, start), end


def _is_phone(groups: int, digits: int) -> bool:
    return digits in _PHONE_DIGITS or (groups > 1 and digits >= _PHONE_DIGITS.start)


def _with_sign(text: str, start: int) -> int:
    return start - (text[max(0, start - 1) : start] in ("+", "\uff0b", "("))
