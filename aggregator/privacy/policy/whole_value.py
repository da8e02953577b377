"""The operators that a rule for whole values, `value:`, can name: those from text to text, or from bytes to any bytes.

Invariant: a value that is declared as text stays text. No rule turns a value into a null, which would delete a record.
"""

from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.policy.rules import AnyRule, other_field
from aggregator.schema.avro import Kind

_MADE = {ValueFormat.TEXT: (Kind.STRING,), ValueFormat.BYTES: (Kind.STRING, Kind.BYTES)}


def leaf_of_whole(value_format: ValueFormat) -> Leaf:
    """The leaf that an operator sees of a whole value."""
    return Leaf(Kind.STRING if value_format is ValueFormat.TEXT else Kind.BYTES)


def result_of_whole(value_format: ValueFormat, rule: AnyRule) -> Leaf | None:
    """The operator's result for a whole value; None where it does not take one."""
    made = None if other_field(rule) else operators.result(rule, leaf_of_whole(value_format))
    return made if made is not None and not made.nullable and made.kind in _MADE[value_format] else None


def whole_refusal(value_format: ValueFormat | None, rule: AnyRule) -> str | None:
    """Why a value of this format cannot have this rule; None if it can."""
    if value_format is None or value_format.has_fields:
        return "`value` is the rule of whole values: it stands beside `value_format: text` or `value_format: bytes`"
    if isinstance(rule, Keep | Drop) or result_of_whole(value_format, rule) is not None:
        return None
    made = operators.result(rule, leaf_of_whole(value_format))
    if made is not None and made.nullable:
        return "a value that becomes null deletes what central has under its key: write `drop`, which leaves it empty"
    what = "a text" if value_format is ValueFormat.TEXT else "bytes"
    return f"{rule.operator} with these parameters does not make {what} of {what}"
