"""The operators as a policy names them: their parameters, and the class that decides which one wins.

Invariant: the classes are ordered by how much they take away, and two rules of one class have a fixed order too, so
that the place of a rule in a file never matters. Refuses operators that this version does not have, by name.
"""

from datetime import date
from enum import IntEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Normalize = Literal["none", "trim", "casefold", "email", "e164", "digits"]
Encode = Literal["hex", "base64url", "uuid", "bytes"]


class PrivacyClass(IntEnum):
    """What is left of a value; the highest number is the most restrictive."""

    CLEAR = 0
    REVERSIBLE = 1
    PSEUDONYMOUS = 2
    IRREVERSIBLE = 3
    REMOVED = 4


class Model(BaseModel):
    """Frozen, closed, and silent about the values that it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Drop(Model):
    """Value and schema leave."""

    operator: Literal["drop"] = "drop"


class Nullify(Model):
    """The value becomes null, the type `["null", T]`."""

    operator: Literal["nullify"] = "nullify"


class Redact(Model):
    """The value becomes a constant of its type; `value` where it fits the type."""

    operator: Literal["redact"] = "redact"
    value: Annotated[str, StringConstraints(max_length=1000)] | None = None


class Pseudonymize(Model):
    """The value becomes a keyed token; `key` names an entry of `keys:` in the hub's configuration."""

    operator: Literal["pseudonymize"] = "pseudonymize"
    key: Name
    domain: Name
    normalize: Normalize = "none"
    encode: Encode = "hex"


class Keep(Model):
    """The value stays. A tagged field is kept only with all three: why, who answers for it, until when."""

    operator: Literal["keep"] = "keep"
    reason: Name | None = None
    owner: Name | None = None
    expires: date | None = None

    @model_validator(mode="after")
    def all_or_none(self) -> Self:
        """Half a justification is a slip of the pen."""
        if len({value is None for value in (self.reason, self.owner, self.expires)}) > 1:
            raise ValueError("keep has `reason`, `owner` and `expires` together, or none of them")
        return self

    def justified(self, today: date) -> bool:
        """Whether this may open a tagged field; on the day named by `expires` it is closed again."""
        return self.expires is not None and today < self.expires

    def expired(self, today: date) -> bool:
        """Whether this opens nothing at all any more."""
        return self.expires is not None and today >= self.expires


_KNOWN = ("drop", "keep", "nullify", "redact", "pseudonymize")
_NOT_YET = frozenset(
    {
        "mask",
        "mask_email",
        "mask_phone",
        "mask_ip",
        "mask_card",
        "mask_url",
        "mask_postcode",
        "encrypt",
        "encrypt_deterministic",
        "bucket",
        "round",
        "truncate",
        "date_truncate",
        "date_shift",
        "age",
        "geo",
        "regex_replace",
        "lookup",
        "scrub_text",
        "drop_record",
        "custom",
    }
)


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
    if name in _NOT_YET:
        raise ValueError(f"operator {name} is not supported yet; this version has {', '.join(_KNOWN)}")
    if name not in _KNOWN:
        raise ValueError(f"no operator has this name; this version has {', '.join(_KNOWN)}")
    if "operator" in (parameters or {}):
        raise ValueError("`operator` is no parameter")
    return {**(parameters or {}), "operator": name}


Rule = Annotated[
    Annotated[Drop | Keep | Nullify | Redact | Pseudonymize, Discriminator("operator")], BeforeValidator(_spelled_out)
]
AnyRule = Drop | Keep | Nullify | Redact | Pseudonymize

_CLASSES = {
    "drop": PrivacyClass.REMOVED,
    "nullify": PrivacyClass.IRREVERSIBLE,
    "redact": PrivacyClass.IRREVERSIBLE,
    "pseudonymize": PrivacyClass.PSEUDONYMOUS,
    "keep": PrivacyClass.CLEAR,
}


def privacy_class(rule: AnyRule) -> PrivacyClass:
    """What a rule leaves of a value."""
    return _CLASSES[rule.operator]


def restriction(rule: AnyRule) -> tuple[int, int, str]:
    """A total order: class, then the operator's place in the list (nullify before redact), then its parameters."""
    rank = list(_CLASSES).index(rule.operator)
    return privacy_class(rule), -rank, rule.model_dump_json()


def most_restrictive(rules: list[AnyRule]) -> AnyRule:
    """The winner among rules of one level."""
    return max(rules, key=restriction)
