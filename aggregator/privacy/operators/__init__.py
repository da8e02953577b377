"""The operators, which change single values: one module for each, with its parameters, its code and its descriptor.

Invariant: an operator's result type is known before any value is read. A leaf whose type an operator does not accept
has no result and is dropped, because that is the more restrictive choice. `keep` and `drop` need no code.
"""

from datetime import date

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.descriptor import KeyRings, Operator, RawOperator
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.registry import DESCRIPTORS, descriptor
from aggregator.privacy.tokens.tokens import HmacTokenSpec, Tokenizer
from aggregator.schema.avro import Kind

# Names of the operators with a constant result, of those that record keys accept, and of those whose keys wear out.
CONSTANTS = tuple(one.name for one in DESCRIPTORS if one.is_constant)
OF_KEYS = tuple(one.name for one in DESCRIPTORS if one.tokenizer is not None)
GCM_OPERATORS = frozenset(one.name for one in DESCRIPTORS if one.uses_gcm)


def result(rule: Parameters, leaf: Leaf) -> Leaf | None:
    """The type that an operator makes of a leaf's; None when it does not take it."""
    return descriptor(rule).result(rule, leaf)


def reads_value(rule: Parameters) -> bool:
    """Whether the result depends on the value; a constant's value is not even decoded."""
    known = descriptor(rule)
    return known.build is not None and not known.is_constant


def reads_bytes(rule: Parameters, leaf: Leaf) -> bool:
    """Whether the operator makes the same of a text's UTF-8 as of the text."""
    return descriptor(rule).reads_bytes(rule, leaf)


def is_cacheable(rule: Parameters) -> bool:
    """Whether a result may serve again in a later batch."""
    return descriptor(rule).is_cacheable


def may_grow(rule: Parameters) -> bool:
    """Whether a policy's constant decides how much longer than a value its result may be."""
    return descriptor(rule).may_grow


def is_injective(rule: Parameters, made: Leaf) -> bool:
    """Whether names can take the operator, which makes this type of them: they stay text, and no two become one."""
    return descriptor(rule).is_injective and made.kind is Kind.STRING


def tokenizer(rule: Parameters, key_rings: KeyRings) -> Tokenizer | None:
    """The tokenizer of whole record keys; None where the operator makes no tokens of them.

    Raises:
        ConfigError: as `build`.
    """
    made = descriptor(rule).tokenizer
    return None if made is None else made(rule, key_rings)


def key_bytes(rule: Parameters) -> int | None:
    """Length of the rule's key, where the operator takes exactly one."""
    return descriptor(rule).key_bytes


def context(rule: Parameters, topic: str, path: str, today: date) -> str:
    """What else the results depend on: the place of an encrypted value, the day of an age."""
    return descriptor(rule).context(rule, topic, path, today)


def build(rule: Parameters, leaf: Leaf, key_rings: KeyRings, around: str = "") -> Operator:
    """The operator as a function of distinct values.

    Args:
        rule: The operator with its parameters.
        leaf: The leaf that the operator takes; it has a `result`.
        key_rings: Key rings by name.
        around: From `context`.

    Raises:
        ConfigError: a key is missing or cannot be read, or a custom operator cannot be loaded.
        ValueError: the rule has no code; the plan never asks for it.
    """
    made = descriptor(rule).build
    if made is None:
        raise ValueError(f"{rule.operator} is no operator over values")
    return made(rule, leaf, key_rings, around)


def build_raw(rule: Parameters, leaf: Leaf, key_rings: KeyRings) -> RawOperator | None:
    """The operator once more, with answers that need no encoding; None where there is no such form.

    Raises:
        ConfigError: as `build`.
    """
    return descriptor(rule).build_raw(rule, leaf, key_rings)


def token_spec(rule: Parameters, leaf: Leaf, key_rings: KeyRings) -> HmacTokenSpec | None:
    """What the operator's tokens are made of, where the machine can make them; None where it cannot, or there are none.

    Raises:
        ConfigError: as `build`.
    """
    return descriptor(rule).token_spec(rule, leaf, key_rings)
