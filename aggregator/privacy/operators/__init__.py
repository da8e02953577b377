"""What operators do to values: one module per operator, all over lists of distinct values of one leaf.

Invariant: an operator's result type is known before any value is seen. An operator that does not take a leaf's type
has no result, and the leaf is dropped instead: the more restrictive answer. `keep` and `drop` need no code.
"""

from collections.abc import Callable, Mapping, Sequence

from aggregator.config.secrets import KeyRing
from aggregator.privacy.leaf import Leaf, Value
from aggregator.privacy.operators import nullify, pseudonymize, redact
from aggregator.privacy.rules import AnyRule, Nullify, Pseudonymize, Redact

Operator = Callable[[Sequence[Value]], list[Value | None]]
# The same with texts as UTF-8 in its answers.
RawOperator = Callable[[Sequence[Value]], list[bytes]]


def result(rule: AnyRule, leaf: Leaf) -> Leaf | None:
    """The type that an operator makes of a leaf's; None when it does not take it."""
    match rule:
        case Nullify():
            return nullify.result(leaf)
        case Redact():
            return redact.result(leaf)
        case Pseudonymize():
            return pseudonymize.result(rule, leaf)
        case _:
            return None


def reads_value(rule: AnyRule) -> bool:
    """Whether the result depends on the value; a constant's value is not even decoded."""
    return isinstance(rule, Pseudonymize)


def reads_bytes(rule: AnyRule, leaf: Leaf) -> bool:
    """Whether the operator makes the same of a text's UTF-8 as of the text."""
    return isinstance(rule, Pseudonymize) and pseudonymize.reads_bytes(rule, leaf)


def build(rule: AnyRule, leaf: Leaf, keys: Mapping[str, KeyRing]) -> Operator:
    """The operator as a function of distinct values.

    Raises:
        ConfigError: a key is missing or can not be read.
        ValueError: the rule has no code; the plan never asks for it.
    """
    match rule:
        case Nullify():
            return nullify.build()
        case Redact():
            return redact.build(rule, leaf)
        case Pseudonymize():
            return pseudonymize.build(rule, leaf, keys)
        case _:
            raise ValueError(f"{rule.operator} is no operator over values")


def build_raw(rule: AnyRule, leaf: Leaf, keys: Mapping[str, KeyRing]) -> RawOperator | None:
    """The operator once more, with answers that need no encoding; None where there is no such form.

    Raises:
        ConfigError: as `build`.
    """
    return pseudonymize.build_raw(rule, leaf, keys) if isinstance(rule, Pseudonymize) else None
