"""Leaves that can be read as text: texts, an enum's symbols, and whole numbers, which may be a phone or card number.

Invariant: what comes out is plain text, without a logical type that it might not be true to. Numbers with a logical
type (dates, times) are no text.
"""

from collections.abc import Callable, Sequence

from aggregator.privacy.operators.redact import REDACTED
from aggregator.privacy.plan.leaf import INTEGERS, Leaf, Value
from aggregator.schema.avro import Kind

_WORDS = frozenset((Kind.STRING, Kind.ENUM))


def word_result(leaf: Leaf) -> Leaf | None:
    """Text for texts and symbols."""
    return Leaf(Kind.STRING) if leaf.kind in _WORDS else None


def result(leaf: Leaf) -> Leaf | None:
    """Text for texts, symbols and whole numbers."""
    is_number = leaf.kind in INTEGERS and leaf.logical is None
    return Leaf(Kind.STRING) if leaf.kind in _WORDS or is_number else None


def over(change: Callable[[str], str | None]) -> Callable[[Sequence[Value]], list[Value | None]]:
    """An operator from what happens to one text; None stands for a text that can not be read, and is redacted."""

    def changed(values: Sequence[Value]) -> list[Value | None]:
        made = map(change, map(str, values))
        return [REDACTED if text is None else text for text in made]

    return changed
