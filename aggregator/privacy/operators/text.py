"""Leaves that can be read as text: texts, an enum's symbols, and whole numbers, which may be a phone or card number.

Invariant: the output is plain text, without a logical type that it might not satisfy. Numbers with a logical type
(dates, times) are not read as text.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.operators.descriptor import KeyRings, Operator
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.redact import REDACTED
from aggregator.schema.avro import Kind

P = TypeVar("P", bound=Parameters)
_WORDS = frozenset((Kind.STRING, Kind.ENUM))


def word_type(_rule: Parameters, leaf: Leaf) -> Leaf | None:
    """String for a text or an enum, else None."""
    return Leaf(Kind.STRING) if leaf.kind in _WORDS else None


def text_type(_rule: Parameters, leaf: Leaf) -> Leaf | None:
    """Text for texts, symbols and whole numbers."""
    is_number = leaf.kind in INTEGERS and leaf.logical is None
    return Leaf(Kind.STRING) if leaf.kind in _WORDS or is_number else None


def over(change: Callable[[str], str | None]) -> Operator:
    """An operator from what happens to one text; None stands for a text that cannot be read, and is redacted."""

    def changed(values: Sequence[Value]) -> list[Value | None]:
        made = map(change, map(str, values))
        return [REDACTED if text is None else text for text in made]

    return changed


def each(change: Callable[[P, str], str | None]) -> Callable[[P, Leaf, KeyRings, str], Operator]:
    """A builder of operators from the change that a rule makes to one text."""

    def build(rule: P, *_: object) -> Operator:
        return over(partial(change, rule))

    return build
