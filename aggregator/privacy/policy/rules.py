"""The operators as a policy names them, and the order that decides which one wins.

Invariant: the classes are ordered by how much they take away, and two rules of one class have a fixed order too, so
that the place of a rule in a file never matters. Refuses operators that this version does not have, by name.
"""

from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator

from aggregator.privacy.policy.parameters.coarsening import Age, Bucket, DateTruncate, Geo, Round, Truncate
from aggregator.privacy.policy.parameters.custom import Custom
from aggregator.privacy.policy.parameters.keyed import (
    DateShift,
    Encode,
    Encrypt,
    EncryptDeterministic,
    Normalize,
    Pseudonymize,
)
from aggregator.privacy.policy.parameters.masking import (
    Mask,
    MaskCard,
    MaskEmail,
    MaskIp,
    MaskPhone,
    MaskPostcode,
    MaskUrl,
)
from aggregator.privacy.policy.parameters.model import Model
from aggregator.privacy.policy.parameters.opening import Drop, Justified, Keep, Nullify, Redact
from aggregator.privacy.policy.parameters.rewriting import Lookup, RegexReplace, ScrubText
from aggregator.privacy.policy.strength import CLASSES, PrivacyClass, privacy_class

__all__ = [
    "Age",
    "AnyRule",
    "Bucket",
    "Custom",
    "DateShift",
    "DateTruncate",
    "Drop",
    "Encode",
    "Encrypt",
    "EncryptDeterministic",
    "Geo",
    "Justified",
    "Keep",
    "Lookup",
    "Mask",
    "MaskCard",
    "MaskEmail",
    "MaskIp",
    "MaskPhone",
    "MaskPostcode",
    "MaskUrl",
    "Model",
    "Normalize",
    "Nullify",
    "PrivacyClass",
    "Pseudonymize",
    "Redact",
    "RegexReplace",
    "Round",
    "Rule",
    "ScrubText",
    "Truncate",
    "is_steady",
    "most_restrictive",
    "operator_names",
    "privacy_class",
    "restriction",
]


_NAMES = {kind.model_fields["operator"].default: kind for kind in CLASSES}


def operator_names() -> tuple[str, ...]:
    """The operators of this version."""
    return tuple(sorted(_NAMES))


def _spelled_out(value: Any) -> Any:
    """`drop` and `{redact: {value: x}}` as the models want them.

    Raises:
        ValueError: not an operator of this version.
    """
    if isinstance(value, Model):
        return value
    name, parameters = value, None
    if isinstance(value, dict):
        if len(value) != 1:
            raise ValueError("an operator is one name with its parameters: {pseudonymize: {key: …, domain: …}}")
        ((name, parameters),) = value.items()
    if not isinstance(name, str) or not isinstance(parameters, dict | None):
        raise ValueError("an operator is a name, or one name with its parameters as a mapping")  # noqa: TRY004 - pydantic's way
    if name == "drop_record":
        raise ValueError("`drop_record` is about records: it stands under a topic, with its conditions")
    if name not in _NAMES:
        raise ValueError(f"no operator has this name; this version has {', '.join(operator_names())}")
    if "operator" in (parameters or {}):
        raise ValueError("`operator` is no parameter")
    return {**(parameters or {}), "operator": name}


AnyRule = (
    Drop
    | Nullify
    | Redact
    | Age
    | Bucket
    | DateTruncate
    | Geo
    | Round
    | Lookup
    | MaskCard
    | MaskPhone
    | MaskPostcode
    | MaskEmail
    | MaskIp
    | MaskUrl
    | Mask
    | Truncate
    | Pseudonymize
    | DateShift
    | Encrypt
    | EncryptDeterministic
    | Custom
    | RegexReplace
    | ScrubText
    | Keep
)
Rule = Annotated[Annotated[AnyRule, Discriminator("operator")], BeforeValidator(_spelled_out)]


def is_steady(rule: AnyRule) -> bool:
    """Whether a value's result is the same in every batch and on every day."""
    return not isinstance(rule, Encrypt | Age)


def beside(rule: AnyRule) -> str:
    """Path of the other field that the operator looks at; empty for none."""
    return rule.entity if isinstance(rule, DateShift) else ""


def restriction(rule: AnyRule) -> tuple[int, int, int, str]:
    """A total order: class, the operator's place in the list (nullify before redact), its end, its parameters."""
    return privacy_class(rule), -list(CLASSES).index(type(rule)), -_end(rule), rule.model_dump_json()


def _end(rule: AnyRule) -> int:
    """Day on which a rule with a reason is closed again, so that the one that ends first takes most; 0 for no end."""
    if not isinstance(rule, Justified):
        return 0
    return (rule.expires or date.max).toordinal()


def most_restrictive(rules: list[AnyRule]) -> AnyRule:
    """The winner among rules of one level."""
    return max(rules, key=restriction)
