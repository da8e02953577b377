"""Calls an operator with a bounded memory: each distinct value is computed once, also across batches.

Invariant: an operator that raises loses exactly the values for which it raises. A missing result is never replaced by
the input.
"""

from collections.abc import Callable, Mapping, Sequence

from aggregator.config.secrets import KeyRing
from aggregator.privacy import operators
from aggregator.privacy.batch.column import TooMuch
from aggregator.privacy.fields.leaf import Paired, Value
from aggregator.privacy.fields.raw_values import Raw, raws_of, value_of
from aggregator.privacy.operators import may_grow, reads_bytes, reads_value
from aggregator.privacy.operators.descriptor import Operator, RawOperator
from aggregator.privacy.plan.plan import Call
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.schema.avro import Kind

# About 10 MB of short identifiers per operator and slot. A longer value is computed anew each time, so that free text
# under an operator cannot fill a slot's memory.
CAPACITY = 65_536
LONGEST_BYTES = 256
# Remembering costs a fifth of computing. One value in this number is enough to notice that values repeat.
_SAMPLE = 16
# The number of values per call of an operator whose results may be far longer than its values.
_AT_ONCE = 512


class OperatorCache:
    """One operator call with its memory.

    Attributes:
        token_spec: What its results are made of, where they are tokens that need no operator.
    """

    def __init__(
        self,
        call: Call,
        operator: Operator,
        raw_operator: RawOperator | None = None,
        capacity: int = CAPACITY,
        token_spec: HmacTokenSpec | None = None,
    ) -> None:
        self.token_spec = token_spec
        self._call = call
        self._operator = operator
        self._raw_operator = raw_operator
        self._capacity = capacity
        self._may_grow = bool(call.other_field) or call.leaf.kind in (Kind.STRING, Kind.BYTES)
        self._length: Callable[[Raw], int] = _pair_length if call.other_field else len
        self._known: dict[Raw, Raw] = {}

    @classmethod
    def of(cls, call: Call, key_rings: Mapping[str, KeyRing]) -> "OperatorCache":
        """The operator of a call behind its memory.

        Args:
            call: The call.
            key_rings: Key rings by name.

        Raises:
            ConfigError: a key cannot be read.
        """
        named = call.rule, call.leaf, key_rings
        made, raw = operators.build(*named, call.context), operators.build_raw(*named)
        return cls(call, made, raw, CAPACITY if operators.is_cacheable(call.rule) else 0, operators.token_spec(*named))

    def answers(self, raws: Sequence[Raw]) -> list[Raw]:
        """Results of distinct raw values, in their order; None for one that failed."""
        answers = list(map(self._known.get, raws))
        fresh = [raw for raw, answer in zip(raws, answers, strict=True) if answer is None]
        made = self.compute(fresh) if fresh else []
        self._remember(raws, answers, fresh, made)
        if len(fresh) == len(raws):
            return made
        coming = iter(made)
        return [next(coming) if answer is None else answer for answer in answers]

    def _remember(self, raws: Sequence[Raw], answers: Sequence[Raw], fresh: Sequence[Raw], made: Sequence[Raw]) -> None:
        """Keep what was made; of a field in which nothing comes again only samples, which show when something does."""
        repeats = (len(raws) - len(fresh)) * _SAMPLE * 2 >= len(raws) or not self._known
        step = 1 if repeats else _SAMPLE
        pairs = zip(fresh[::step], made[::step], strict=True)
        longest, length = LONGEST_BYTES if self._may_grow else None, self._length
        kept = {raw: made for raw, made in pairs if made is not None and (longest is None or length(raw) <= longest)}
        if len(self._known) + len(kept) > self._capacity:
            self._known = {raw: answer for raw, answer in zip(raws, answers, strict=True) if answer is not None}
        self._known.update(kept)
        if len(self._known) > self._capacity:
            self._known = {}

    @property
    def may_grow(self) -> bool:
        """Whether results may be far longer than their values."""
        return may_grow(self._call.rule)

    @property
    def is_cacheable(self) -> bool:
        """Whether a raw value's result may serve again: it is kept at all, and nothing beside the value decides it."""
        return self._capacity > 0 and not self._call.other_field

    def compute(self, fresh: Sequence[Raw]) -> list[Raw]:
        """Results of raw values, whatever is remembered; None for one that failed."""
        try:
            return self._apply(fresh)
        except Exception:  # noqa: BLE001 - whatever an operator raises, only its own values may suffer
            return [self._alone(raw) for raw in fresh]

    def _alone(self, raw: Raw) -> Raw:
        try:
            return self._apply([raw])[0]
        except Exception:  # noqa: BLE001 - as above; the record is rejected
            return None

    def _apply(self, fresh: Sequence[Raw]) -> list[Raw]:
        rule, leaf, result, _, other_field = self._call
        values: Sequence[Value] | Sequence[Paired] = fresh
        if other_field:
            values = [Paired(value_of(leaf, raw), other) for raw, other in fresh]
        elif not reads_value(rule):
            values = [b""] * len(fresh)
        elif not (leaf.kind is Kind.STRING and reads_bytes(rule, leaf)):
            values = [value_of(leaf, raw) for raw in fresh]
        raw_operator = self._raw_operator
        made = raws_of(result, self._operator(values)) if raw_operator is None else raw_operator(values)
        if len(made) != len(fresh):
            raise ValueError("an operator answers every value once")
        return made


def by_value(asked: Sequence[Raw], answers: Sequence[Raw]) -> dict[Raw, Raw]:
    """Results by raw value; without an entry for those that failed."""
    return {raw: answer for raw, answer in zip(asked, answers, strict=True) if answer is not None}


def in_parts(ask: Callable[[Sequence[Raw]], Sequence[Raw]], raws: Sequence[Raw], room: int) -> list[Raw]:
    """What an operator makes of values, some at a time: each may become as long as its budget allows.

    Args:
        ask: What is asked of the operator, of some values; as in `OperatorCache`.
        raws: The values.
        room: Bytes that it may make of all of them.

    Raises:
        TooMuch: it would be more.
    """
    answers: list[Raw] = []
    for start in range(0, len(raws), _AT_ONCE):
        made = ask(raws[start : start + _AT_ONCE])
        room -= sum(len(answer) for answer in made if isinstance(answer, bytes))
        if room < 0:
            raise TooMuch
        answers += made
    return answers


def _pair_length(pair: tuple[Raw, Value | None]) -> int:
    """Roughly how many bytes a value and its result take."""
    return sum(len(part) for part in pair if isinstance(part, bytes | str))
