"""What is left of one value without parts, by the definition: one record, one rule, nothing remembered.

Says once more what `aggregator/privacy/topic/plain_values.py` does for whole batches.
Shares with it only the operators.
"""

from aggregator.errors import Reason
from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf
from aggregator.schema.avro import Kind


def left(form, rule, value, keys):
    """Bytes, None for a null, or the reason for which the record is lost.

    Args:
        form: `text` or `bytes`.
        rule: The one that holds; None for none.
        value: As the edge has it.
        keys: Key rings by name.
    """
    if value is None:
        return None
    if form == "text":
        try:
            seen = value.decode()
        except UnicodeDecodeError:
            return Reason.UNDECODABLE
    else:
        seen = value
    if rule is None or rule.operator == "drop":
        return b""
    if rule.operator == "keep":
        return value
    leaf = Leaf(Kind.STRING if form == "text" else Kind.BYTES)
    try:
        (made,) = operators.build(rule, leaf, keys)([seen])
        return made if isinstance(made, bytes) else made.encode()
    except Exception:  # noqa: BLE001 - whatever an operator raises
        return Reason.OPERATOR_FAILED
