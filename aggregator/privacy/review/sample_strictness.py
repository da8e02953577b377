"""Compares two rules on sample values, where the rules alone do not prove which of them leaves more.

Invariants: a sample can only refute. It shows that a rule leaves more, and never that it leaves less, because values
that it lacks may show the opposite. So the verdict is `looser` or `other`. A sample holds the values that the
parameters of both rules set apart. A report says that a verdict comes from a sample. Keyed rules and foreign code are
not sampled.
"""

import re
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import pairwise
from math import floor

from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators.registry import descriptor
from aggregator.privacy.policy.rules import AnyRule
from aggregator.privacy.policy.strictness import Strictness
from aggregator.schema.avro import Kind

_STEMS = (
    "jane",
    "Żółć",
    "2024-05-06",
    "1984-12-31T23:59:59",
    "4111111111111111",
    "+49 30 1234567",
    "SW1A 1AA",
    "12345",
)
_WEB = ("jane.doe@example.com", "joe@example.org", "192.0.2.7", "192.0.3.9", "2001:db8::1", "2001:db8:1::1",
        "https://example.com/a?b=c#d", "https://example.org/x", "52.5200,13.4050", "52.5211,13.4111")  # fmt: skip
_TEXTS = (*_WEB, *(stem[:length] for stem in _STEMS for length in range(len(stem) + 1)))
_NUMBERS = sorted({sign * base * 10**power for sign in (-1, 1) for base in (0, 1, 3, 5, 15, 49) for power in range(8)})
_DOUBLES = [number / 1000 for number in _NUMBERS]
_SAMPLES: Mapping[Kind, Sequence[Value]] = {
    Kind.STRING: _TEXTS,
    Kind.INT: [number for number in _NUMBERS if abs(number) < 2**31],
    Kind.LONG: _NUMBERS,
    Kind.DOUBLE: [struct.pack("<d", number) for number in _DOUBLES],
    Kind.FLOAT: [struct.pack("<f", number) for number in _DOUBLES],
}
_WHOLE_BITS = {Kind.INT: 32, Kind.LONG: 64}
# What `lookup` finds in its table for a whole number.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_FORMATS = {Kind.DOUBLE: "<d", Kind.FLOAT: "<f"}
_DAY = date(2026, 1, 1)
# A policy has few rules, but the same pairs are compared at thousands of places of a schema.
_PAIRS = 1024


@lru_cache(_PAIRS)
def compare_on_samples(before: AnyRule, after: AnyRule, leaf: Leaf) -> Strictness:
    """The verdict by results on sample values: `looser` where they show it, and `other` else."""
    values = _samples(leaf, [value for rule in (before, after) for value in descriptor(rule).boundary_values(rule)])
    if not (descriptor(before).is_sampled and descriptor(after).is_sampled and values):
        return Strictness.OTHER
    old, new = (_results(rule, leaf, values) for rule in (before, after))
    is_more = _follows(old, new) and not _follows(new, old)
    return Strictness.LOOSER if is_more else Strictness.OTHER


def _samples(leaf: Leaf, boundary_values: Sequence[str | float]) -> Sequence[Value]:
    """Values of a type, and those that the two rules name, with what lies on either side of a number."""
    if leaf.kind is Kind.ENUM:
        return leaf.symbols
    texts = [value for value in boundary_values if isinstance(value, str)]
    if leaf.kind is Kind.STRING:
        return [*_TEXTS, *texts]
    bounds = sorted({value for value in boundary_values if not isinstance(value, str)})
    between = [(low + high) / 2 for low, high in pairwise(bounds)]
    around = [*between, *(value + step for value in bounds for step in (-1, -0.001, 0, 0.001, 1))]
    named = [int(text) for text in texts if _INTEGER.fullmatch(text)]
    return [*_SAMPLES.get(leaf.kind, ()), *dict.fromkeys(_typed(leaf.kind, [*around, *named]))]


def _typed(kind: Kind, numbers: Sequence[float]) -> Iterator[Value]:
    """Numbers as a type has them; those that it cannot hold are left out."""
    bits = _WHOLE_BITS.get(kind)
    for value in numbers:
        if bits is not None and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            yield floor(value)
        elif kind in _FORMATS:
            yield struct.pack(_FORMATS[kind], value)


def _results(rule: AnyRule, leaf: Leaf, values: Sequence[Value]) -> list[Hashable]:
    operator = operators.build(rule, leaf, {}, operators.context(rule, "", "", _DAY))
    made: list[Hashable] = []
    for value in values:
        try:
            made += operator([value])
        except (ValueError, OverflowError, TypeError):
            made.append(value)  # a lost record also tells its value apart from others
    return made


def _follows(result: Sequence[Hashable], source: Sequence[Hashable]) -> bool:
    """Whether one result can be told from the other, for every sample."""
    known: dict[Hashable, Hashable] = {}
    return all(known.setdefault(before, after) == after for before, after in zip(source, result, strict=True))
