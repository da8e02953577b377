"""`geo`: a coordinate keeps fewer decimals, or a text `lat,lon` becomes a geohash.

Invariant: a number keeps its type. A number beyond all degrees, and a text that is not `lat,lon` within the globe, is
redacted, because rounding would leave most of it. A single number cannot become a geohash and is not accepted.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators import number
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass, clear_if
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.redact import Redact, constant
from aggregator.privacy.operators.text import over
from aggregator.schema.avro import Kind

_ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
_BITS = 5
_HIGHEST_LATITUDE, _HIGHEST_LONGITUDE = 90.0, 180.0
# Two decimals are about one kilometre, and six characters of a geohash about one kilometre by a half.
_DECIMALS, _GEOHASH = 2, 6


class Geo(Justified):
    """A coordinate keeps so many `decimals`; a text `lat,lon` does, or becomes a geohash of that length. What is
    no coordinate is redacted.
    """

    operator: Literal["geo"] = "geo"
    decimals: Annotated[int, Field(ge=0, le=6)] | None = None
    geohash: Annotated[int, Field(ge=1, le=9)] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """Refuse a rule with both or neither of `decimals` and `geohash`."""
        if (self.decimals is None) is (self.geohash is None):
            raise ValueError("geo has either `decimals` or `geohash`")
        return self


def privacy_class(rule: Geo) -> PrivacyClass:
    """The privacy class: a place as fine as one house is left in clear."""
    return clear_if((rule.decimals or 0) > _DECIMALS or (rule.geohash or 0) > _GEOHASH)


def is_coarser(rule: Geo, other: Geo) -> bool:
    """A geohash begins with its coarser ones; rounding twice is not rounding once."""
    return rule.geohash is not None and other.geohash is not None and rule.geohash <= other.geohash


def result(rule: Geo, leaf: Leaf) -> Leaf | None:
    """Text for text, the same type for numbers."""
    if leaf.kind is Kind.STRING and leaf.logical is None:
        return leaf
    return None if rule.decimals is None else number.rounded_type(leaf, rule.decimals)


def build(rule: Geo, leaf: Leaf, *_: object) -> Operator:
    """Build the operator that makes coordinates coarser."""
    if leaf.kind is not Kind.STRING:
        return _degrees(leaf, rule.decimals or 0)
    return over(lambda value: _coarse(rule, value))


def _degrees(leaf: Leaf, decimals: int) -> Operator:
    """Numbers on the globe with so many decimals; any other is redacted."""
    redacted = constant(Redact(), leaf)

    def coarse(value: Value) -> Value:
        exact = number.exact(leaf, value)
        inside = exact is not None and abs(exact) <= _HIGHEST_LONGITUDE
        return number.rounded(leaf, value, decimals) if inside else redacted

    return lambda values: [coarse(value) for value in values]


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
    # Adding zero removes the sign of a negative zero, which would reveal the hemisphere.
    return ",".join(f"{round(part, places) + 0.0:.{places}f}" for part in (latitude, longitude))


def geohash(latitude: float, longitude: float, length: int) -> str:
    """Halve the globe by turns, longitude first; five halvings are one sign."""
    ranges = [[-_HIGHEST_LONGITUDE, _HIGHEST_LONGITUDE], [-_HIGHEST_LATITUDE, _HIGHEST_LATITUDE]]
    code = 0
    for bit in range(length * _BITS):
        bounds, part = ranges[bit % 2], (longitude, latitude)[bit % 2]
        middle = sum(bounds) / 2
        is_upper = part >= middle
        bounds[0 if is_upper else 1] = middle
        code = code << 1 | is_upper
    return "".join(_ALPHABET[code >> _BITS * place & 31] for place in reversed(range(length)))


GEO = Descriptor(
    parameters=Geo,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=result,
    build=build,
    is_coarser=is_coarser,
)
