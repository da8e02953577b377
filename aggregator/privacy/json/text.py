"""Parses JSON values strictly, and writes them in one form.

Invariant: every correct reader and writer turns an accepted value into the same value. Input that readers treat
differently or change silently is refused: duplicate names, NaN and infinities, integers beyond 64 bits, decimals that
no double holds exactly, half surrogates, and anything that is not UTF-8. Nesting deeper than the guard's limit for Avro
is refused too.
"""

import json
import re
from decimal import Decimal
from typing import Any

from aggregator.budgets import DEPTH, JSON_PARTS, NUMBER_SIGNS
from aggregator.errors import Reason
from aggregator.privacy.batch.guard import Malformed

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
_INTEGER_LIMIT = 2**63
# A JSON text, also one without an end, so that no input can make this search restart many times.
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def read_json(text: bytes) -> Json:
    """Read one JSON value.

    Raises:
        Malformed: UNDECODABLE, TOO_DEEP or TOO_LARGE.
    """
    try:
        decoded = text.decode()
        measured(decoded)
        value: Json = _DECODER.decode(decoded)
        if "\\ud" in decoded or "\\uD" in decoded:
            _ENCODER.encode(value).encode()
    except (ValueError, ArithmeticError):  # JSON's or UTF-8's, one of ours, an exponent that no decimal has
        raise Malformed from None
    return value


def write_json(value: Json) -> bytes:
    """Sorted names, no spaces, nothing escaped that need not be, UTF-8."""
    return _ENCODER.encode(value).encode()


def measured(text: str) -> None:
    """Look at how deep and how many the parts are, before any is made.

    Raises:
        Malformed: TOO_DEEP or TOO_LARGE.
    """
    opened = text.count("[") + text.count("{")
    if opened > DEPTH.limit and _depth(text) > DEPTH.limit:
        raise Malformed(Reason.TOO_DEEP)
    if opened + text.count(",") > JSON_PARTS.limit:
        plain = _TEXT.sub("", text)
        if plain.count("[") + plain.count("{") + plain.count(",") > JSON_PARTS.limit:
            raise Malformed(Reason.TOO_LARGE)


def _depth(text: str) -> int:
    """How deep brackets nest; asked only where there are many."""
    depth = deepest = 0
    for sign in _TEXT.sub("", text):
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _integer(text: str) -> int:
    number = int(text) if len(text) <= NUMBER_SIGNS.limit else _INTEGER_LIMIT
    if not -_INTEGER_LIMIT <= number < _INTEGER_LIMIT:
        raise ValueError("more than 64 bits")
    return number


def _decimal(text: str) -> float:
    number = float(text) if len(text) <= NUMBER_SIGNS.limit else float("inf")
    if number in (float("inf"), float("-inf")) or Decimal(text) != Decimal(repr(number)):
        raise ValueError("no double")
    return number


def _reject_constant(_text: str) -> Any:
    raise ValueError("no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_decimal, parse_constant=_reject_constant
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
