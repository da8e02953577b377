"""The operators as a policy names them, and the order that decides between two rules.

Invariant: the classes are ordered by how much they take away. Two rules of one class have a fixed order too, so that
the place of a rule in a file never matters. An operator that this version does not have is refused by name.
"""

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator, Discriminator

from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.operators.parameters import Justified, Parameters
from aggregator.privacy.operators.registry import BY_NAME, DESCRIPTORS, descriptor, place

# An operator with its parameters, for code that need not know which operator it is.
AnyRule = Parameters


def operator_names() -> tuple[str, ...]:
    """The names of the operators of this version."""
    return tuple(sorted(BY_NAME))


def _spelled_out(value: Any) -> Any:
    """`drop` and `{redact: {value: x}}` as the models want them.

    Raises:
        ValueError: not an operator of this version.
    """
    if isinstance(value, Parameters):
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
    if name not in BY_NAME:
        raise ValueError(f"no operator has this name; this version has {', '.join(operator_names())}")
    if "operator" in (parameters or {}):
        raise ValueError("`operator` is no parameter")
    return {**(parameters or {}), "operator": name}


if TYPE_CHECKING:
    Rule = AnyRule
else:
    _ANY = Union[tuple(one.parameters for one in DESCRIPTORS)]  # noqa: UP007 - made from the registry
    Rule = Annotated[Annotated[_ANY, Discriminator("operator")], BeforeValidator(_spelled_out)]


def privacy_class(rule: AnyRule) -> PrivacyClass:
    """The class of the most that a rule leaves of a value."""
    known = descriptor(rule)
    return known.strongest if known.privacy_class is None else known.privacy_class(rule)


def is_deterministic(rule: AnyRule) -> bool:
    """Whether a value's result is the same in every batch and on every day."""
    return descriptor(rule).is_deterministic


def other_field(rule: AnyRule) -> str:
    """Path of the other field that the operator looks at; empty for none."""
    return descriptor(rule).other_field(rule)


def key_name(rule: AnyRule) -> str:
    """Name of the key that the operator works with; empty for none."""
    return getattr(rule, "key", "")


def bare(rule: AnyRule) -> AnyRule:
    """The rule without its reason, which says nothing of what is left."""
    if not isinstance(rule, Justified):
        return rule
    return rule.model_copy(update={"reason": None, "owner": None, "expires": None})


def restriction(rule: AnyRule) -> tuple[int, int]:
    """How much a rule takes away: its class, and the operator's place in the list (nullify before redact)."""
    return privacy_class(rule), -place(rule)


def end_of(rule: AnyRule | None) -> date | None:
    """The day from which on a rule with a reason opens nothing any more; None for no end."""
    return rule.expires if isinstance(rule, Justified) else None


def has_ended(rule: AnyRule | None, today: date) -> bool:
    """Whether a rule has ended."""
    return isinstance(rule, Justified) and rule.expired(today)


def most_restrictive(rules: Sequence[AnyRule]) -> AnyRule:
    """The most restrictive of the rules of one level.

    Of one operator it is the one whose result is coarser, then the one that ends first, then an order of parameters.
    What somebody gives as a reason decides nothing.
    """
    if len(rules) == 1:
        return rules[0]
    by_restriction: dict[tuple[int, int], list[AnyRule]] = {}
    for rule in dict.fromkeys(rules):
        by_restriction.setdefault(restriction(rule), []).append(rule)
    rivals = sorted(by_restriction[max(by_restriction)], key=_order, reverse=True)
    return next(rule for rule in rivals if not any(_is_coarser(other, rule) for other in rivals))


@lru_cache(maxsize=4096)
def _order(rule: AnyRule) -> tuple[int, str, str]:
    return -(end_of(rule) or date.max).toordinal(), bare(rule).model_dump_json(), rule.model_dump_json()


def _is_coarser(rule: AnyRule, other: AnyRule) -> bool:
    """Whether a rule of the same operator leaves less, and not as much."""
    coarser = descriptor(rule).is_coarser
    return coarser(rule, other) and not coarser(other, rule)
