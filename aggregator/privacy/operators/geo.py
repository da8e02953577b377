"""`geo`: a coordinate with fewer decimals, or `lat,lon` as a geohash.

Invariant: a number keeps its type; a text that is no `lat,lon` within the globe is redacted. A single number can not
become a geohash and is not taken.
"""

from collections.abc import Callable, Sequence

from aggregator.privacy.operators import rounding, text
from aggregator.privacy.plan.leaf import Leaf, Value
from aggregator.privacy.policy.rules import Geo
from aggregator.schema.avro import Kind

_ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
_BITS = 5
_HIGHEST_LATITUDE, _HIGHEST_LONGITUDE = 90.0, 180.0


def result(rule: Geo, leaf: Leaf) -> Leaf | None:
    """Text for text, the same type for numbers."""
    if leaf.kind is Kind.STRING and leaf.logical is None:
        return leaf
    return None if rule.decimals is None else rounding.rounded_result(rule.decimals, leaf)


def build(rule: Geo, leaf: Leaf) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Everything, made coarser."""
    if leaf.kind is not Kind.STRING:
        return rounding.build_rounded(rule.decimals or 0, leaf)
    return text.over(lambda value: _coarse(rule, value))


def _coarse(rule: Geo, value: str) -> str | None:
    first, comma, second = value.partition(",")
    try:
        latitude, longitude = float(first), float(second)
    except ValueError:
        return None
    inside = abs(latitude) <= _HIGHEST_LATITUDE and abs(longitude) <= _HIGHEST_LONGITUDE  # a NaN is not
    if not comma or not inside:
        return None
    if rule.geohash is not None:
        return geohash(latitude, longitude, rule.geohash)
    places = rule.decimals or 0
    # Adding zero takes the sign off a negative one: it would tell the hemisphere.
    return ",".join(f"{round(part, places) + 0.0:.{places}f}" for part in (latitude, longitude))


def geohash(latitude: float, longitude: float, length: int) -> str:
    """Halve the globe by turns, longitude first; five halvings are one sign."""
    ranges = [[-_HIGHEST_LONGITUDE, _HIGHEST_LONGITUDE], [-_HIGHEST_LATITUDE, _HIGHEST_LATITUDE]]
    number = 0
    for bit in range(length * _BITS):
        bounds, part = ranges[bit % 2], (longitude, latitude)[bit % 2]
        middle = sum(bounds) / 2
        is_upper = part >= middle
        bounds[0 if is_upper else 1] = middle
        number = number << 1 | is_upper
    return "".join(_ALPHABET[number >> _BITS * place & 31] for place in reversed(range(length)))
