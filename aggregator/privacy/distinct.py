"""An operator behind a bounded memory: each distinct value is worked out once, over batches too.

Invariant: an operator that raises loses exactly the values that it raises for; what is missing is never the input.
"""

from collections.abc import Iterable, Mapping

from aggregator.privacy.codec import Raw, raw_of, value_of
from aggregator.privacy.leaf import Value
from aggregator.privacy.operators import Operator, reads_value
from aggregator.privacy.plan import Call

# About 10 MB of short identifiers per operator and slot.
CAPACITY = 65_536


class Distinct:
    """One operator call with its memory."""

    def __init__(self, call: Call, operator: Operator, capacity: int = CAPACITY) -> None:
        self._call = call
        self._operator = operator
        self._capacity = capacity
        self._known: dict[Raw, Raw] = {}

    def results(self, wanted: Iterable[Raw]) -> Mapping[Raw, Raw]:
        """Results by raw value; without an entry for those that failed."""
        wanted = set(wanted)
        fresh = [raw for raw in wanted if raw not in self._known]
        if len(self._known) + len(fresh) > self._capacity:
            self._known = {raw: self._known[raw] for raw in wanted if raw in self._known}
        self._known.update(self._worked_out(fresh))
        found = {raw: self._known[raw] for raw in wanted if raw in self._known}
        if len(self._known) > self._capacity:
            self._known = {}
        return found

    def _worked_out(self, fresh: list[Raw]) -> dict[Raw, Raw]:
        try:
            return self._apply(fresh)
        except Exception:  # noqa: BLE001 - whatever an operator raises, only its own values may suffer
            return {raw: result for one in fresh for raw, result in self._alone(one).items()}

    def _alone(self, raw: Raw) -> dict[Raw, Raw]:
        try:
            return self._apply([raw])
        except Exception:  # noqa: BLE001 - as above; the record is rejected
            return {}

    def _apply(self, fresh: list[Raw]) -> dict[Raw, Raw]:
        rule, leaf, result = self._call
        values: list[Value] = [value_of(leaf, raw) for raw in fresh] if reads_value(rule) else [b""] * len(fresh)
        answers = self._operator(values)
        return {raw: raw_of(result, answer) for raw, answer in zip(fresh, answers, strict=True)}
