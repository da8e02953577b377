"""Validators for places of a policy file that accept only some inputs: paths, patterns, and some rules.

Invariant: a refusal says what is accepted there, and quotes no value.
"""

from collections.abc import Sequence

from aggregator.config.patterns import full_matches
from aggregator.privacy import operators
from aggregator.privacy.fields import paths
from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.policy.rules import AnyRule, privacy_class


def path(value: str) -> str:
    """Refuse a text that is no path of a field.

    Raises:
        ValueError: it is none.
    """
    paths.steps(value)
    return value


def liftable(value: str) -> str:
    """A path without wildcards, whose tags can be lifted.

    Raises:
        ValueError: it is none.
    """
    if not {paths.ANY, paths.ANY_DEPTH}.isdisjoint(paths.steps(value)):
        raise ValueError("a tag is lifted by the name of its field, not by a wildcard")
    return value


def pattern(value: str) -> str:
    """Refuse a text that is no regular expression.

    Raises:
        ValueError: it is none.
    """
    full_matches(value, [])
    return value


def closing(rule: AnyRule) -> AnyRule:
    """Refuse a policy's default that would let values pass.

    Raises:
        ValueError: it is none.
    """
    if isinstance(rule, Keep):
        raise ValueError("`keep` is a default per topic only: write it under the topic")  # noqa: TRY004 - pydantic's way
    if rule.operator not in operators.CONSTANTS:
        raise ValueError(f"a default is {_any_of(operators.CONSTANTS)}; anything else is said per tag or path")
    return rule


def topic_default(rule: AnyRule) -> AnyRule:
    """Refuse a topic's default that is neither `keep` nor one that closes.

    Raises:
        ValueError: it is none.
    """
    return rule if isinstance(rule, Keep) else closing(rule)


def of_tag(rule: AnyRule) -> AnyRule:
    """A tag's rule: what can leave a value whole has a reason.

    Raises:
        ValueError: it is none.
    """
    return _reasoned("a tag", rule)


def of_value(rule: AnyRule) -> AnyRule:
    """A rule for whole values, which may hold anything: the same.

    Raises:
        ValueError: it is none.
    """
    return _reasoned("`value`", rule)


def of_key(rule: AnyRule) -> AnyRule:
    """A record key's rule: it tells keys apart.

    Raises:
        ValueError: it is none.
    """
    names = ("keep", "drop", *operators.OF_KEYS)
    if rule.operator not in names:
        raise ValueError(f"a key takes {_any_of(names)}; anything else could merge all keys into one")
    return rule


def _reasoned(whose: str, rule: AnyRule) -> AnyRule:
    if privacy_class(rule) is PrivacyClass.CLEAR and getattr(rule, "reason", None) is None:
        raise ValueError(
            f"{whose} takes {rule.operator} with these parameters only with `reason`, `owner` and `expires`: "
            "a value can pass it whole"
        )
    return rule


def _any_of(names: Sequence[str]) -> str:
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} or {last}"
