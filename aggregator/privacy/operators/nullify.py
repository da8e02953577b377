"""`nullify`: null; the type becomes `["null", T]`. An enum's symbols leave with the values."""

from collections.abc import Callable, Sequence

from aggregator.privacy.operators.redact import closed_symbols
from aggregator.privacy.plan.leaf import Leaf, Value


def result(leaf: Leaf) -> Leaf:
    """The nullable type."""
    return closed_symbols(leaf)._replace(nullable=True)


def build() -> Callable[[Sequence[Value]], list[Value | None]]:
    """Null for everything."""
    return lambda values: [None] * len(values)
