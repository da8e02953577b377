"""`bucket`: a number becomes the text of its interval, `[10,20)`, and beyond the outermost bounds `<10` or `>=20`.

Invariant: intervals are half-open, and every number has exactly one. Bounds are the decimals that the policy writes,
not their nearest binary fractions. A value that is not a number is redacted.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, frexp
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators import number
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.redact import REDACTED
from aggregator.schema.avro import Kind

Bound = Annotated[float, Field(allow_inf_nan=False, ge=-1e18, le=1e18)]
SMALLEST_SIZE = 1e-9
# An interval with a single whole number reveals it. With a size below two, some intervals hold one whole number only.
_NARROW, _ALONE = 1, 2
_FLOAT_BITS = 24  # of the significand of Avro's `float`
_INTS = range(-(2**31), 2**31)  # Avro's `int`


class Bucket(Justified):
    """A number becomes the text of its interval: of one `size`, or between the bounds in `ranges`."""

    operator: Literal["bucket"] = "bucket"
    size: Annotated[Bound, Field(ge=SMALLEST_SIZE)] | None = None
    ranges: Annotated[tuple[Bound, ...], Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """Intervals are told in one way, and bounds grow."""
        if (self.size is None) is (self.ranges is None):
            raise ValueError("bucket has either `size` or `ranges`")
        if any(low >= high for low, high in pairwise(self.ranges or ())):
            raise ValueError("`ranges` are bounds in ascending order")
        return self


def privacy_class(rule: Bucket) -> PrivacyClass:
    """A fixed number of ranges bounds what is left of any type; of one size there are as many as there are numbers."""
    if rule.size is not None:
        return PrivacyClass.CLEAR if rule.size < _ALONE else PrivacyClass.PSEUDONYMOUS
    bounds = [Fraction(_written(bound)) for bound in rule.ranges or ()]
    outer = pairwise([None, *bounds, None])
    tells = any(_tells(*both) for both in pairwise(bounds)) or any(_tells_int(*both) for both in outer)
    return PrivacyClass.CLEAR if tells else PrivacyClass.IRREVERSIBLE


def _tells(low: Fraction, high: Fraction) -> bool:
    """Whether an interval may hold one number alone: a whole one, or a large `float`, whose neighbours are far away."""
    gap = Fraction(2) ** (frexp(float(max(abs(low), abs(high))))[1] - _FLOAT_BITS)
    return high - low <= _NARROW or ceil(high) - ceil(low) < _ALONE or high - low < _ALONE * gap


def _tells_int(low: Fraction | None, high: Fraction | None) -> bool:
    """Whether an interval holds one `int` alone, as one at an end of that type may."""
    first = _INTS.start if low is None else max(ceil(low), _INTS.start)
    end = _INTS.stop if high is None else min(ceil(high), _INTS.stop)
    return end - first == 1


def result(_rule: Bucket, leaf: Leaf) -> Leaf | None:
    """Text for a number: the bucket's bounds."""
    return Leaf(Kind.STRING) if number.is_number(leaf) else None


def build(rule: Bucket, leaf: Leaf, *_: object) -> Operator:
    """Build the operator that replaces numbers by their intervals."""
    label = _of_size(rule.size) if rule.size is not None else _of_ranges(rule.ranges or ())

    def labels(values: Sequence[Value]) -> list[Value | None]:
        numbers = (number.exact(leaf, value) for value in values)
        return [REDACTED if exact is None else label(exact) for exact in numbers]

    return labels


def _written(bound: float) -> Decimal:
    return Decimal(repr(bound))


def _of_size(size: float) -> Callable[[Fraction], str]:
    width = Fraction(_written(size))
    places = _places(_written(size))

    def label(exact: Fraction) -> str:
        low = floor(exact / width) * width
        return f"[{_shown(low, places)},{_shown(low + width, places)})"

    def whole_label(exact: Fraction) -> str:
        """The same for whole bounds, ten times as fast."""
        low = floor(exact) // width.numerator * width.numerator
        return f"[{low},{low + width.numerator})"

    return whole_label if width.denominator == 1 else label


def _of_ranges(bounds: Sequence[float]) -> Callable[[Fraction], str]:
    exact_bounds = [Fraction(_written(bound)) for bound in bounds]
    texts = [_shown(exact, _places(_written(bound))) for exact, bound in zip(exact_bounds, bounds, strict=True)]
    inner = [f"[{low},{high})" for low, high in pairwise(texts)]
    labels = [f"<{texts[0]}", *inner, f">={texts[-1]}"]
    return lambda exact: labels[bisect_right(exact_bounds, exact)]


def _places(written: Decimal) -> int:
    exponent = written.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _shown(exact: Fraction, places: int) -> str:
    """All digits, however large: no exponent, and no zeros behind the point."""
    scaled = int(exact * 10**places)
    whole, part = divmod(abs(scaled), 10**places)
    decimals = f"{part:0{places}d}".rstrip("0") if places else ""
    return f"{'-' if scaled < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"


def is_coarser(rule: Bucket, other: Bucket) -> bool:
    """Whether every bound of a rule is one of another rule's, so that none of its intervals is cut in two."""
    width = None if other.size is None else Fraction(_written(other.size))
    if width is None:
        return rule.ranges is not None and set(rule.ranges).issubset(other.ranges or ())
    bounds = rule.ranges if rule.size is None else (rule.size,)
    return all(Fraction(_written(bound)) % width == 0 for bound in bounds or ())


def boundary_values(rule: Bucket) -> Sequence[float]:
    """The bounds of its intervals; of one size some of them."""
    return rule.ranges or [rule.size * count for count in (-1, 0, 1, 2, 3) if rule.size]


BUCKET = Descriptor(
    parameters=Bucket,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=result,
    build=build,
    is_coarser=is_coarser,
    boundary_values=boundary_values,
)
