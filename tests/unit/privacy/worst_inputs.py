"""The worst that an edge can send for its size: texts, bytes and numbers, for whatever loops over them.

Each is a pattern of signs that some loop likes least: what sorts, what searches, what is tried again and again, what is
one object per sign. Patterns are repeated to the size that is asked for.
"""

import struct

PATTERNS = {
    "one sign": "a",
    "marks out of order": "\u0301\u0316",
    "marks that fall apart": "\u0344\u0316",
    "marks without class": "\u0f73\u0f71\u0316",
    "letters with marks": "e\u0301\u0323",
    "joiners": "\u200d",
    "flags": "\U0001f1e6",
    "families": "\U0001f600\u200d",
    "leading consonants": "\u1100",
    "syllables": "\u1112\u1161\u11ab",
    "letters that grow": "\u0390",
    "ligatures": "\ufb03",
    "line ends": "\r\n",
    "controls": "\x00",
    "digits": "1",
    "groups of digits": "1234 ",
    "single digits": "1 ",
    "digits and marks": "1()",
    "signed digits": "+1",
    "digits of another script": "\u0661",
    "wide digits": "\uff11",
    "long gaps": "1   ",
    "figure spaces": "12\u2007",
    "points": ".",
    "parts of an address": "1.1.1.",
    "addresses": "1.2.3.4 ",
    "colons": ":",
    "short colons": "1:",
    "double colons": "::1",
    "hexadecimal": "a:",
    "signs of an address": "@",
    "mailboxes": "a@b ",
    "quotes": '"@',
    "quoted": '"a"@b ',
    "escaped signs": "%40",
    "escaped spaces": "1%20a",
    "escapes of JSON": "\\u0031a",
    "encoded escapes": "%25",
    "entities": "&amp;",
    "brackets": "a@[",
    "tokens": "eyJ.",
    "beginnings of tokens": "eyJ",
    "accounts": "AA00",
    "spaced accounts": "DE00 1 ",
    "spaces": " ",
    "wide spaces": "\u00a0",
    "schemes": "http://",
    "slashes": "/",
    "questions": "?",
    "per cent": "%",
    "commas": "1,",
    "minus": "-1",
    "exponents": "1e",
    "letters and digits": "a1",
    "domains": "a.",
    "opened": "[",
    "empty arrays": "[],",
    "objects": '{"":',
    "backslashes": "\\",
    "quotes alone": '"',
}
FRAMES = {
    "a base and marks out of order": ("a", "\u0301\u0316", ""),
    "an address with marks": ("a", "\u0316\u0301", "@b.c"),
    "a host of marks": ("http://", "\u0316\u0301", "/"),
    "a host of letters that fold": ("http://", "\u2100", "/"),
    "a host of labels": ("http://", "a.", "/"),
    "a port": ("http://a:", "1", ""),
    "a host in brackets": ("http://[", "1:", "]"),
    "a query": ("http://a/?", "a=b&", ""),
    "a fraction": ("1.", "1", ",2"),
    "a whole number": ("", "9", ",2"),
    "a small number": ("0.", "0", "1,2"),
    "a date": ("2020-01-01T", "0", ""),
    "an address of zeros": ("1:", "0", "::1"),
    "an entity of zeros": ("a&#", "0", "64;b.c"),
    "a zone": ("fe80::1%", "a", ""),
}
EXTREMES = (-(2**31), -1, 0, 1, 2**31 - 1)
WIDE_EXTREMES = (-(2**63), *EXTREMES, 2**63 - 1)
DOUBLES = [struct.pack("<d", number) for number in (0.0, -0.0, 5e-324, 1.7e308, -1.7e308, float("inf"), float("nan"))]
FLOATS = [struct.pack("<f", number) for number in (0.0, 1e-45, 3.4e38, -3.4e38, float("inf"), float("nan"))]


def filled(first, pattern, last, size):
    """So many bytes of UTF-8, about."""
    return first + pattern * (size // len(pattern.encode())) + last


def texts(size):
    """Name to text of about so many bytes; marks are more, because sorting them is where the square of few hides."""
    frames = {**{name: ("", pattern, "") for name, pattern in PATTERNS.items()}, **FRAMES}
    return {name: filled(*frame, size * (6 if "marks" in name else 1)) for name, frame in frames.items()}


def raws(size):
    """Name to bytes of that size."""
    return {
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "mixed": bytes(range(256)) * (size // 256),
        "high": b"\x7f" * size,
    }
