"""The descriptor of an operator: its fields answer every question that the rest of the hub asks about the operator.

Invariant: an operator that can leave a value unchanged counts as clear, whatever its name. Examples are a text shorter
than `truncate` cuts, a table that names itself, a pattern, foreign code, and text in which no detector finds anything.
An operator counts as irreversible only if the type or the parameters bound its results. Long numbers that are rounded,
for example, nearly all stay distinct, like tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Any, Generic, TypeVar

from aggregator.config.secrets import KeyRing
from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.tokens.tokens import HmacTokenSpec, Tokenizer

KeyRings = Mapping[str, KeyRing]
# A function of distinct values, or of pairs if the rule also looks at another field of the record.
Operator = Callable[[Sequence[Any]], list[Value | None]]
# The same function, whose results hold texts as UTF-8.
RawOperator = Callable[[Sequence[Any]], list[bytes]]
P = TypeVar("P", bound=Parameters)


class PrivacyClass(IntEnum):
    """The information that is left of a value; the highest number is the most restrictive."""

    CLEAR = 0
    REVERSIBLE = 1
    PSEUDONYMOUS = 2
    IRREVERSIBLE = 3
    REMOVED = 4


def clear_if(whole: bool) -> PrivacyClass:
    """The class of what bounds a value, unless its parameters let it pass whole."""
    return PrivacyClass.CLEAR if whole else PrivacyClass.IRREVERSIBLE


def _no_type(_rule: Parameters, _leaf: Leaf) -> None:
    """No type, because the operator takes no value."""


def _none(_rule: Parameters, _leaf: Leaf, _key_rings: KeyRings) -> None:
    """None: the operator has no such form."""


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object) -> str:
    return ""


def _no_boundary_values(_rule: Parameters) -> Sequence[str | float]:
    return ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Descriptor(Generic[P]):
    """Describes one operator to the rest of the hub.

    Attributes:
        parameters: What a policy writes, and with it the name.
        strongest: The class of the result where the parameters are at their strictest.
        privacy_class: The class of the most that is left of a value, where the parameters decide it; None: `strongest`.
        result: The type that it makes of a leaf's; None for one that it does not take.
        build: The function of distinct values, from rule, type, key rings and `context`; None: it has no code, because
            the plan keeps or drops the value itself. Raises ConfigError where a key, or foreign code, is missing.
        build_raw: The function once more, with answers that need no encoding, where that is quicker.
        token_spec: What its tokens are made of, where the machine can make them itself; `build` has to make the same.
        reads_bytes: Whether it makes the same of a text's UTF-8 as of the text.
        context: What else its results depend on, from topic, path and day.
        other_field: Path of the other field of the record that it looks at.
        is_coarser: Whether its result follows from that of a rule with other parameters, for every value.
        is_constant: It makes the same of every value, which is not even decoded; among the constants, the earlier one
            in the registry leaves less.
        is_deterministic: A value's result is the same in every batch and on every day.
        is_cacheable: A result may serve again in a later batch; free text hardly ever does, and takes much room.
        is_sampled: Whether running it on sample values shows how much it keeps. False for keyed operators and custom
            code.
        boundary_values: Values that its parameters set apart from others; a sample without them shows too little.
        may_grow: A policy's constant decides how much longer than a value its result may be.
        is_injective: Different values have different results, so that names (map keys, names in JSON) can take it.
        tokenizer: What makes tokens of whole record keys, from rule and key rings; None: record keys do not take it.
        key_bytes: Length of its key, where it takes exactly one.
        uses_gcm: Its random nonces wear a key out, so that values under it are counted.
    """

    parameters: type[P]
    strongest: PrivacyClass
    privacy_class: Callable[[P], PrivacyClass] | None = None
    result: Callable[[P, Leaf], Leaf | None] = _no_type
    build: Callable[[P, Leaf, KeyRings, str], Operator] | None = None
    build_raw: Callable[[P, Leaf, KeyRings], RawOperator | None] = _none
    token_spec: Callable[[P, Leaf, KeyRings], HmacTokenSpec | None] = _none
    reads_bytes: Callable[[P, Leaf], bool] = _never
    context: Callable[[P, str, str, date], str] = _nothing
    other_field: Callable[[P], str] = _nothing
    is_coarser: Callable[[P, P], bool] = _never
    is_constant: bool = False
    is_deterministic: bool = True
    is_cacheable: bool = True
    is_sampled: bool = True
    boundary_values: Callable[[P], Sequence[str | float]] = _no_boundary_values
    may_grow: bool = False
    is_injective: bool = False
    tokenizer: Callable[[P, KeyRings], Tokenizer] | None = None
    key_bytes: int | None = None
    uses_gcm: bool = False

    @property
    def name(self) -> str:
        """The operator's name, as a policy writes it."""
        name: str = self.parameters.model_fields["operator"].default
        return name
