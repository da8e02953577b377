"""Schema ids that a registry does not know yet, and how long a topic waits for them before they are dead letters.

Invariants: no id is a dead letter of which the registry has not said, since its record was read, that it does not have
it; and one that it knows is no newcomer again. A few ids of a batch are asked about one by one, the others by one
listing of the topic's schemas. An id is waited for once and for a bounded time, all ids of a batch at the same time.
Waits that end in vain share one allowance, so that a flood of senseless ids costs a topic a small share of its time and
no more. Pure: takes the time as an argument.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from aggregator.budgets import UNKNOWN_IDS
from aggregator.errors import Unreachable
from aggregator.privacy.strip import Unasked
from aggregator.schema.registry import Listing, UnknownSchema

# A wait in vain is paid back in twenty times its length.
_REFILL = 1 / 20
# Less is not worth another read of the batch.
_LEAST_S = 1.0
# How long one batch may ask in vain about ids one by one.
_ASKING_S = 0.1
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
        self._met_s: dict[int, float] = {}
        self._unasked: dict[int, int] = {}
        self._waiting: dict[int, UnknownSchema] = {}
        self._began_s = 0.0
        self._room, self._asking_s = UNKNOWN_IDS.limit, 0.0
        self._listing: Listing | Unreachable | None = None
        self.is_numbered = False

    def begin(self, now_s: float, *, numbered: bool = False) -> None:
        """A new batch; `numbered`: numbers of GUIDs took the places of what named schemas in it."""
        self.is_numbered = numbered
        self._allowance_s = min(self._patience_s, self._allowance_s + (now_s - self._began_s) * _REFILL)
        self._began_s = now_s
        self._room, self._asking_s, self._listing = UNKNOWN_IDS.limit, 0.0, None
        self._waiting, self._unasked = {}, {}

    def in_turn(self, schema_ids: Iterable[int]) -> list[int]:
        """Ids in the order in which to ask about them: new ones, those that wait by their last question, lost ones."""
        return sorted(schema_ids, key=self._turn)

    def _turn(self, schema_id: int) -> float:
        late = self._late.get(schema_id)
        return late.asked_s if late else math.inf if schema_id in self._lost else -math.inf

    def is_asked(self, schema_id: int, ask: Callable[[], Listing]) -> bool:
        """Whether to ask the registry about this id alone: it has it, or is not known to lack it, and there is time.

        Args:
            schema_id: From a record.
            ask: Asks for the topic's schemas; called once a batch at most.

        Raises:
            HoldError: as `ask`.
        """
        if schema_id in self._there:
            return True
        if schema_id not in self._lost and self._room and self._asking_s < _ASKING_S:
            return True
        listing = self._listed(ask)
        return isinstance(listing, Listing) and schema_id in listing.ids

    def _listed(self, ask: Callable[[], Listing]) -> Listing | Unreachable:
        if self._listing is None:
            try:
                self._listing = ask()
            except Unreachable as error:
                self._listing = error
        return self._listing

    def judge(self, schema_id: int, place: int, now_s: float, ids_end: int) -> None:
        """Judge an id by the batch's listing, which does not have it; it is put off if that does not speak of it.

        Args:
            schema_id: From a record.
            place: Of the first record that names it.
            now_s: The time.
            ids_end: Ids are below it; from there on are numbers of GUIDs.
        """
        listing, met_s = self._listing, self._met(schema_id)
        if isinstance(listing, Listing) and listing.asked_s >= met_s and (schema_id < ids_end or listing.has_guids):
            self.miss(UnknownSchema(schema_id, listing.where), schema_id, now_s)
        else:
            self.put_off(schema_id, place)

    def _met(self, schema_id: int) -> float:
        """When a record first named an id that is unknown: a listing that is late has nothing to say of later ones."""
        _forget_oldest(self._met_s)
        return self._met_s.setdefault(schema_id, self._began_s)

    def put_off(self, schema_id: int, place: int) -> None:
        """The registry cannot be asked about an id now, which the record at this place is the first to name."""
        self._met(schema_id)
        self._unasked[schema_id] = min(place, self._unasked.get(schema_id, place))

    def miss(self, error: UnknownSchema, schema_id: int, now_s: float, *, took_s: float = 0.0) -> None:
        """The registry has just said that it does not know an id of this batch; to ask about it alone took so long."""
        self._room, self._asking_s = max(0, self._room - 1), self._asking_s + took_s
        self._met(schema_id)
        self._there.discard(schema_id)
        if schema_id in self._lost:
            return
        late = self._late.get(schema_id)
        if late is None:
            if self._allowance_s < min(_LEAST_S, self._patience_s) or not self._patience_s:
                self._lose(schema_id)
                return
            late = self._late[schema_id] = _Late(now_s, now_s + self._allowance_s, now_s)
        late.asked_s = now_s
        if now_s < late.until_s:
            self._waiting[schema_id] = error
        else:
            self._allowance_s = max(0.0, self._allowance_s - (now_s - late.since_s))
            self._lose(schema_id)

    def find(self, schema_id: int) -> None:
        """The registry knows an id."""
        self._there.add(schema_id)
        for known in (self._late, self._lost, self._met_s):
            known.pop(schema_id, None)

    def settle(self) -> None:
        """Let the batch pass, unless an id of it is waited for, or was not asked about.

        Raises:
            Unreachable: one is; nothing of the batch may be decided.
            Unasked: one was not; the same.
        """
        if self._unasked:
            why = self._listing.message if isinstance(self._listing, Unreachable) else ""
            raise Unasked(min(self._unasked.values()), len(self._unasked), why)
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
        _forget_oldest(self._lost)
        _forget_oldest(self._late)


def _forget_oldest(known: dict[int, Any]) -> None:
    for oldest in list(islice(known, max(0, len(known) - _MOST))):
        del known[oldest]
