"""Schema ids that a registry does not know yet, and how long a topic waits for them before they are dead letters.

Invariants: no id is a dead letter that the registry was never asked about, and one that it knows is no newcomer again.
An id is waited for once and for a bounded time, all ids of a batch at the same time. Waits that end in vain share one
allowance, so that a flood of senseless ids costs a topic a small share of its time and no more. Pure: takes the time as
an argument.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from aggregator.errors import Unreachable
from aggregator.privacy.strip import Unasked
from aggregator.schema.registry import UnknownSchema

# A wait in vain is paid back in twenty times its length.
_REFILL = 1 / 20
# Less is not worth another read of the batch.
_LEAST_S = 1.0
# How long one batch may ask again about ids that were missing before.
_ASKING_S = 0.5
# More than all batches of a slot name, so that a flood of senseless ids forgets senseless ids only.
_MOST = 65_536


@dataclass(slots=True)
class _Late:
    since_s: float
    until_s: float
    asked_s: float


class Latecomers:
    """The ids of one topic, of its keys and values together.

    Args:
        patience_s: Longest time that an id is waited for; 0: not at all.

    Attributes:
        is_numbered: Whether ids beyond the registry's own may be numbers of GUIDs, in this batch.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = self._allowance_s = patience_s
        self._late: dict[int, _Late] = {}
        self._lost: dict[int, None] = {}
        self._there: set[int] = set()
        self._unasked: dict[int, int] = {}
        self._waiting: dict[int, UnknownSchema] = {}
        self._began_s = 0.0
        self.is_numbered = False

    def begin(self, now_s: float, *, numbered: bool = False) -> None:
        """A new batch; `numbered`: numbers of GUIDs took the places of what named schemas in it."""
        self.is_numbered = numbered
        self._allowance_s = min(self._patience_s, self._allowance_s + (now_s - self._began_s) * _REFILL)
        self._began_s = now_s
        self._waiting, self._unasked = {}, {}

    def in_turn(self, schema_ids: Iterable[int]) -> list[int]:
        """Ids in the order in which to ask about them: new ones, those that wait by their last question, lost ones."""
        return sorted(schema_ids, key=self._turn)

    def _turn(self, schema_id: int) -> float:
        late = self._late.get(schema_id)
        return late.asked_s if late else math.inf if schema_id in self._lost else -math.inf

    def is_new(self, schema_id: int) -> bool:
        """Whether nothing is known of an id: it was neither there before nor missing."""
        return schema_id not in self._there and schema_id not in self._late and schema_id not in self._lost

    def is_due(self, schema_id: int, now_s: float) -> bool:
        """Whether to ask again about an id, because it is waited for."""
        return schema_id in self._late and self._has_time(now_s)

    def may_ask(self, schema_id: int, now_s: float) -> bool:
        """Whether an id that is not new may cost this batch another look."""
        return schema_id not in self._lost or self._has_time(now_s)

    def put_off(self, schema_id: int, place: int) -> None:
        """The registry cannot be asked about an id now, which the record at this place is the first to name.

        One that was asked about in vain need not be asked about again.
        """
        if schema_id not in self._lost:
            self._unasked[schema_id] = min(place, self._unasked.get(schema_id, place))

    def _has_time(self, now_s: float) -> bool:
        return now_s - self._began_s < _ASKING_S

    def miss(self, error: UnknownSchema, schema_id: int, now_s: float, *, asked: bool) -> None:
        """The registry does not know an id of this batch; `asked`: it was asked just now."""
        self._there.discard(schema_id)
        if schema_id in self._lost:
            return
        late = self._late.get(schema_id)
        if late is None:
            if self._allowance_s < min(_LEAST_S, self._patience_s) or not self._patience_s:
                self._lose(schema_id)
                return
            late = self._late[schema_id] = _Late(now_s, now_s + self._allowance_s, now_s)
        late.asked_s = now_s if asked else late.asked_s
        if now_s < late.until_s:
            self._waiting[schema_id] = error
        else:
            self._allowance_s = max(0.0, self._allowance_s - (now_s - late.since_s))
            self._lose(schema_id)

    def find(self, schema_id: int) -> None:
        """The registry knows an id."""
        self._there.add(schema_id)
        self._late.pop(schema_id, None)
        self._lost.pop(schema_id, None)

    def settle(self) -> None:
        """Let the batch pass, unless an id of it is waited for, or was not asked about.

        Raises:
            Unreachable: one is; nothing of the batch may be decided.
            Unasked: one was not; the same.
        """
        if self._unasked:
            raise Unasked(min(self._unasked.values()), len(self._unasked))
        if self._waiting:
            first = next(iter(self._waiting.values()))
            others = f", nor are {len(self._waiting) - 1} more" if len(self._waiting) > 1 else ""
            raise Unreachable(
                f"{first.message} yet{others}: waited for up to {self._patience_s:g} s, then it is a dead letter",
                hint="register the writer's schema at this edge's registry; the flow goes on by itself",
            )

    def _lose(self, schema_id: int) -> None:
        self._late.pop(schema_id, None)
        self._lost[schema_id] = None
        for known in (self._lost, self._late):
            for oldest in list(islice(known, max(0, len(known) - _MOST))):
                del known[oldest]
