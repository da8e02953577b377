"""What operators do to values: one module per family, all over lists of distinct values of one leaf.

Invariant: an operator's result type is known before any value is seen. An operator that does not take a leaf's type
has no result, and the leaf is dropped instead: the more restrictive answer. `keep` and `drop` need no code.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from aggregator.config.secrets import KeyRing
from aggregator.privacy.operators import (
    age,
    bucket,
    custom,
    date_shift,
    date_truncate,
    encrypt,
    envelope,
    geo,
    mask,
    mask_addresses,
    mask_numbers,
    nullify,
    pseudonymize,
    redact,
    rewriting,
    rounding,
    scrub_text,
    text,
)
from aggregator.privacy.plan.leaf import Leaf, Value
from aggregator.privacy.policy import rules
from aggregator.privacy.policy.rules import AnyRule

# Over values, or over pairs where the rule looks at another field of the record.
Operator = Callable[[Sequence[Any]], list[Value | None]]
# The same with texts as UTF-8 in its answers.
RawOperator = Callable[[Sequence[Any]], list[bytes]]
# What happens to one text, by the rule's type; None: it is not what the operator is for.
_TEXTS: Mapping[type[Any], Callable[[Any, str], str | None]] = {
    rules.Mask: mask.masked,
    rules.MaskCard: mask_numbers.masked_card,
    rules.MaskEmail: mask_addresses.masked_email,
    rules.MaskIp: mask_addresses.masked_ip,
    rules.MaskPhone: mask_numbers.masked_phone,
    rules.MaskPostcode: mask_numbers.masked_postcode,
    rules.MaskUrl: mask_addresses.masked_url,
    rules.ScrubText: scrub_text.scrubbed,
}
# Where a whole number can be what the operator is for.
_ALSO_NUMBERS = rules.Mask | rules.MaskCard | rules.MaskPhone | rules.MaskPostcode | rules.Lookup


def result(rule: AnyRule, leaf: Leaf) -> Leaf | None:  # noqa: PLR0911 - one for each family
    """The type that an operator makes of a leaf's; None when it does not take it."""
    match rule:
        case rules.Nullify():
            return nullify.result(leaf)
        case rules.Redact():
            return redact.result(leaf)
        case rules.Pseudonymize():
            return pseudonymize.result(rule, leaf)
        case rules.Encrypt() | rules.EncryptDeterministic():
            return encrypt.result(leaf)
        case rules.DateShift():
            return date_shift.result(leaf)
        case rules.Custom():
            return custom.result(rule, leaf)
        case rules.Drop() | rules.Keep():
            return None
        case rules.Bucket() | rules.Round() | rules.Truncate() | rules.DateTruncate() | rules.Age() | rules.Geo():
            return _coarser_result(rule, leaf)
    return text.result(leaf) if isinstance(rule, _ALSO_NUMBERS) else text.word_result(leaf)


def _coarser_result(
    rule: rules.Bucket | rules.Round | rules.Truncate | rules.DateTruncate | rules.Age | rules.Geo, leaf: Leaf
) -> Leaf | None:
    match rule:
        case rules.Bucket():
            return bucket.result(leaf)
        case rules.Round():
            return rounding.rounded_result(rule.digits, leaf)
        case rules.Truncate():
            return rounding.truncated_result(leaf)
        case rules.DateTruncate():
            return date_truncate.result(rule, leaf)
        case rules.Age():
            return age.result(leaf)
        case rules.Geo():
            return geo.result(rule, leaf)


def reads_value(rule: AnyRule) -> bool:
    """Whether the result depends on the value; a constant's value is not even decoded."""
    return not isinstance(rule, rules.Nullify | rules.Redact | rules.Drop | rules.Keep)


def reads_bytes(rule: AnyRule, leaf: Leaf) -> bool:
    """Whether the operator makes the same of a text's UTF-8 as of the text."""
    return isinstance(rule, rules.Pseudonymize) and pseudonymize.reads_bytes(rule, leaf)


def remembers(rule: AnyRule) -> bool:
    """Whether a result may serve again in a later batch; free text hardly ever does, and takes much room."""
    return not isinstance(rule, rules.Encrypt | rules.ScrubText)


def context(rule: AnyRule, topic: str, path: str, today: date) -> str:
    """What else the results depend on: the place of an encrypted value, the day of an age."""
    match rule:
        case rules.Encrypt() | rules.EncryptDeterministic():
            return envelope.aad(topic, path).hex()
        case rules.Age():
            return today.isoformat()
        case _:
            return ""


def build(rule: AnyRule, leaf: Leaf, keys: Mapping[str, KeyRing], around: str = "") -> Operator:  # noqa: PLR0911 - one for each family
    """The operator as a function of distinct values.

    Args:
        rule: The operator with its parameters.
        leaf: What it takes; it has a `result`.
        keys: Key rings by name.
        around: From `context`.

    Raises:
        ConfigError: a key is missing or can not be read, or a custom operator can not be loaded.
        ValueError: the rule has no code; the plan never asks for it.
    """
    match rule:
        case rules.Nullify():
            return nullify.build()
        case rules.Redact():
            return redact.build(rule, leaf)
        case rules.Pseudonymize() | rules.DateShift() | rules.Encrypt() | rules.EncryptDeterministic():
            return _keyed(rule, leaf, keys, around)
        case rules.Custom():
            return custom.build(rule, leaf)
        case rules.RegexReplace():
            return rewriting.build_regex(rule)
        case rules.Lookup():
            return rewriting.build_lookup(rule)
        case rules.Bucket() | rules.Round() | rules.Truncate() | rules.DateTruncate() | rules.Age() | rules.Geo():
            return _coarser(rule, leaf, around)
    if type(rule) not in _TEXTS:
        raise ValueError(f"{rule.operator} is no operator over values")
    return text.over(partial(_TEXTS[type(rule)], rule))


def _keyed(
    rule: rules.Pseudonymize | rules.DateShift | rules.Encrypt | rules.EncryptDeterministic,
    leaf: Leaf,
    keys: Mapping[str, KeyRing],
    around: str,
) -> Operator:
    match rule:
        case rules.Pseudonymize():
            return pseudonymize.build(rule, leaf, keys)
        case rules.DateShift():
            return date_shift.build(rule, leaf, keys)
        case rules.Encrypt() | rules.EncryptDeterministic():
            return encrypt.build(rule, leaf, keys, bytes.fromhex(around))


def _coarser(
    rule: rules.Bucket | rules.Round | rules.Truncate | rules.DateTruncate | rules.Age | rules.Geo,
    leaf: Leaf,
    around: str,
) -> Operator:
    match rule:
        case rules.Bucket():
            return bucket.build(rule, leaf)
        case rules.Round():
            return rounding.build_rounded(rule.digits, leaf)
        case rules.Truncate():
            return rounding.build_truncated(rule)
        case rules.DateTruncate():
            return date_truncate.build(rule, leaf)
        case rules.Age():
            return age.build(rule, leaf, date.fromisoformat(around))
        case rules.Geo():
            return geo.build(rule, leaf)


def build_raw(rule: AnyRule, leaf: Leaf, keys: Mapping[str, KeyRing]) -> RawOperator | None:
    """The operator once more, with answers that need no encoding; None where there is no such form.

    Raises:
        ConfigError: as `build`.
    """
    return pseudonymize.build_raw(rule, leaf, keys) if isinstance(rule, rules.Pseudonymize) else None
