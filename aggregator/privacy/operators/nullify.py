"""`nullify`: null; the type becomes `["null", T]`. An enum's symbols leave with the values."""

from collections.abc import Callable, Sequence

from aggregator.privacy.leaf import Leaf, Value
from aggregator.privacy.operators.redact import closed_symbols


def result(leaf: Leaf) -> Leaf:
    """The nullable type."""
    return closed_symbols(leaf)._replace(nullable=True)


def build() -> Callable[[Sequence[Value]], list[Value | None]]:
    """Null for everything."""
    return lambda values: [None] * len(values)
