"""`regex_replace` and `lookup`: text by pattern or by table.

Invariant: what has no match, or no entry, is redacted, never passed.
"""

from collections.abc import Callable, Sequence

from aggregator.privacy import expressions
from aggregator.privacy.operators import text
from aggregator.privacy.operators.redact import REDACTED
from aggregator.privacy.plan.leaf import Value
from aggregator.privacy.policy.rules import Lookup, RegexReplace


def build_regex(rule: RegexReplace) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Every match replaced."""

    def replaced(values: Sequence[Value]) -> list[Value | None]:
        made = expressions.replaced(rule.pattern, rule.replacement, [str(value) for value in values])
        return [REDACTED if text is None else text for text in made]

    return replaced


def build_lookup(rule: Lookup) -> Callable[[Sequence[Value]], list[Value | None]]:
    """What the table has."""
    return text.over(dict(rule.table).get)
