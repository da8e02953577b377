"""An operator behind a bounded memory: each distinct value is worked out once, over batches too.

Invariant: an operator that raises loses exactly the values that it raises for; what is missing is never the input.
"""

from collections.abc import Collection, Mapping, Sequence

from aggregator.privacy.codec import Raw, raws_of, value_of
from aggregator.privacy.leaf import Value
from aggregator.privacy.operators import Operator, RawOperator, reads_bytes, reads_value
from aggregator.privacy.plan import Call
from aggregator.schema.avro import Kind

# About 10 MB of short identifiers per operator and slot; a longer value is worked out anew each time, so that free
# text under an operator can not fill a slot's memory.
CAPACITY = 65_536
LONGEST_BYTES = 256


class Distinct:
    """One operator call with its memory."""

    def __init__(
        self, call: Call, operator: Operator, raw_operator: RawOperator | None = None, capacity: int = CAPACITY
    ) -> None:
        self._call = call
        self._operator = operator
        self._raw_operator = raw_operator
        self._capacity = capacity
        self._grows = call.leaf.kind in (Kind.STRING, Kind.BYTES)
        self._known: dict[Raw, Raw] = {}

    def results(self, wanted: Collection[Raw]) -> Mapping[Raw, Raw]:
        """Results by raw value; without an entry for those that failed."""
        answers = zip(wanted, self.answers(list(wanted)), strict=True)
        return {raw: answer for raw, answer in answers if answer is not None}

    def answers(self, raws: Sequence[Raw]) -> list[Raw]:
        """Results of distinct raw values, in their order; None for one that failed."""
        known = self._known
        answers = list(map(known.get, raws))
        fresh = [raw for raw, answer in zip(raws, answers, strict=True) if answer is None]
        if len(known) + len(fresh) > self._capacity:
            self._known = known = _without_none(raws, answers)
        if fresh:
            made = self._worked_out(fresh)
            found = _without_none(fresh, made) if None in made else dict(zip(fresh, made, strict=True))
            answers = (
                made
                if len(fresh) == len(raws)
                else [found.get(raw, answer) for raw, answer in zip(raws, answers, strict=True)]
            )
            if self._grows and max(map(len, fresh)) > LONGEST_BYTES:
                found = {raw: answer for raw, answer in found.items() if len(raw) <= LONGEST_BYTES}
            known.update(found)
        if len(known) > self._capacity:
            self._known = {}
        return answers

    def _worked_out(self, fresh: Sequence[Raw]) -> list[Raw]:
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
        rule, leaf, result, _ = self._call
        values: Sequence[Value] = fresh
        if not reads_value(rule):
            values = [b""] * len(fresh)
        elif not (leaf.kind is Kind.STRING and reads_bytes(rule, leaf)):
            values = [value_of(leaf, raw) for raw in fresh]
        raw_operator = self._raw_operator
        made = raws_of(result, self._operator(values)) if raw_operator is None else raw_operator(values)
        if len(made) != len(fresh):
            raise ValueError("an operator answers every value once")
        return made


def _without_none(raws: Sequence[Raw], answers: Sequence[Raw]) -> dict[Raw, Raw]:
    return {raw: answer for raw, answer in zip(raws, answers, strict=True) if answer is not None}
