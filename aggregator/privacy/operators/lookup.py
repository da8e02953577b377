"""`lookup`: a text is replaced by its entry in a table.

Invariant: a text without an entry is redacted, never passed.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.redact import REDACTED
from aggregator.privacy.operators.text import over, text_type

Text = Annotated[str, StringConstraints(max_length=1000)]


def _pairs(value: Any) -> Any:
    """A table as sorted pairs: a mapping has no hash. Numbers as keys are what YAML makes of digits."""
    if not isinstance(value, Mapping):
        return value
    keys = [str(key) if isinstance(key, int) and not isinstance(key, bool) else key for key in value]
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("the keys of `table` are texts or whole numbers, each once")
    return tuple(sorted(zip(keys, value.values(), strict=True), key=lambda pair: pair[0]))


class Lookup(Justified):
    """A value becomes what the table has for it; not in it: redacted."""

    operator: Literal["lookup"] = "lookup"
    table: Annotated[tuple[tuple[Text, Text], ...], BeforeValidator(_pairs), Field(min_length=1, max_length=10_000)]


def privacy_class(rule: Lookup) -> PrivacyClass:
    """A text that only one value becomes tells that value to whoever has the table."""
    if any(key == text for key, text in rule.table):
        return PrivacyClass.CLEAR
    sources = Counter(text for _, text in rule.table)
    return PrivacyClass.REVERSIBLE if min(sources.values()) == 1 else PrivacyClass.IRREVERSIBLE


def is_coarser(rule: Lookup, other: Lookup) -> bool:
    """Whether each result of another table has one result in this, and no text is new, which could tell more.

    Readers may know what a text means: it stands for no other values than before, but where two texts become one.
    A value without an entry is redacted.
    """
    before, after = dict(other.table), dict(rule.table)
    made = {REDACTED: REDACTED}
    kept = {*after.values()}
    if any(text in kept and after.get(key, REDACTED) not in (text, REDACTED) for key, text in before.items()):
        return False
    if any(key == text != before.get(key) for key, text in after.items()):
        return False
    return {*after.values()} <= {*before.values(), REDACTED} and all(
        made.setdefault(before.get(key, REDACTED), after.get(key, REDACTED)) == after.get(key, REDACTED)
        for key in before | after
    )


def build(rule: Lookup, *_: object) -> Operator:
    """Build the operator that looks values up in the table, with null for what it does not have."""
    return over(dict(rule.table).get)


LOOKUP = Descriptor(
    parameters=Lookup,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=text_type,
    build=build,
    is_coarser=is_coarser,
    boundary_values=lambda rule: [key for key, _ in rule.table],
    may_grow=True,
)
