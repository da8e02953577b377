"""Schema ids that a registry does not know yet, and how long a topic waits for them before they are dead letters.

Invariants: no id is a dead letter of which the registry has not said, since its record was read, that it does not have
it; and one that it knows is no newcomer again. A few ids of a batch are asked about one by one, the others by one
listing of the topic's schemas. A listing that comes late judges the records that had been read when it was asked for,
and no others; one that lacks what the topic is known to have says nothing. An id is waited for once and for a bounded
time, all ids of a batch at the same time. Waits that end in vain share one allowance, so that a flood of senseless ids
costs a topic a small share of its time and no more. Pure: takes the time as an argument.
"""

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.budgets import UNKNOWN_IDS
from aggregator.errors import HoldError, Unreachable
from aggregator.privacy.strip import Unasked
from aggregator.schema.registry import Listing, UnknownSchema

# A wait in vain is paid back in twenty times its length.
_REFILL = 1 / 20
# Less is not worth another read of the batch.
_LEAST_S = 1.0
# How long one batch may ask about ids one by one: in vain, and in all.
_VAIN_S, _ASKING_S = 0.1, 1.0
# So many unknown ids of a batch are asked about alone, also those that were missing before.
_FEW = 8
# More than all batches of a slot name, so that a flood of senseless ids forgets senseless ids only.
_MOST = 65_536


@dataclass(slots=True)
class _Late:
    since_s: float
    until_s: float
    asked_s: float


@dataclass(slots=True)
class _Read:
    """Of one partition, records that had been read and were put off: those before `end`, by then."""

    end: int
    at_s: float


class Latecomers:
    """The ids of one topic, of its keys and values together.

    Args:
        patience_s: Longest time that an id is waited for; 0: not at all.

    Attributes:
        is_numbered: Whether ids beyond the registry's own may be numbers of GUIDs, in this batch.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = self._allowance_s = patience_s
        self._late: OrderedDict[int, _Late] = OrderedDict()
        self._lost: OrderedDict[int, None] = OrderedDict()
        self._there: set[int] = set()
        self._own: set[int] = set()
        self._put_off: dict[Hashable, _Read] = {}
        self._newest: Listing | None = None
        self._newest_s = -math.inf
        self._began_s = 0.0
        self.begin(0.0)

    def begin(self, now_s: float, *, numbered: bool = False, log: Hashable = None, offsets: Sequence[int] = ()) -> None:
        """A new batch.

        Args:
            now_s: The time.
            numbered: Numbers of GUIDs took the places of what named schemas in it.
            log: The partition that it was read from; None: none.
            offsets: Of its records there.
        """
        self.is_numbered = numbered
        self._allowance_s = min(self._patience_s, self._allowance_s + (now_s - self._began_s) * _REFILL)
        self._began_s = now_s
        self._room, self._vain_s, self._asking_s, self._is_few = UNKNOWN_IDS.limit, 0.0, 0.0, True
        self._listing: Listing | Unreachable | HoldError | None = None
        self._waiting: dict[int, UnknownSchema] = {}
        self._unasked: dict[int, int] = {}
        self._log, self._offsets = log, offsets
        # Records from this place on were read after that time.
        self._read_s, self._newer = now_s, len(offsets)
        read = self._put_off.get(log)
        if read is not None and len(offsets) and offsets[0] < read.end:
            self._read_s, self._newer = read.at_s, bisect_left(offsets, read.end)

    def in_turn(self, schema_ids: Iterable[int]) -> list[int]:
        """Ids in the order in which to ask about them: new ones, those that wait by their last question, lost ones."""
        found = sorted(schema_ids, key=self._turn)
        self._is_few = sum(one not in self._there for one in found) <= _FEW
        return found

    def _turn(self, schema_id: int) -> float:
        late = self._late.get(schema_id)
        return late.asked_s if late else math.inf if schema_id in self._lost else -math.inf

    def asks(self, schema_id: int, place: int, now_s: float, ids_end: int, ask: Callable[[], Listing]) -> bool:
        """Whether to ask the registry about this id alone; if not, it is judged, or put off.

        Args:
            schema_id: From a record.
            place: Of the first record that names it.
            now_s: The time.
            ids_end: Ids are below it; from there on are numbers of GUIDs.
            ask: Asks for the topic's schemas; called once a batch at most.
        """
        if schema_id in self._there:
            return True
        if self._asking_s >= _ASKING_S:
            self.put_off(schema_id, place)
            return False
        alone = self._room > 0 and self._vain_s < _VAIN_S
        if alone and self._at_hand is None and (self._is_few or schema_id not in self._lost):
            return True
        listing = self._listed(ask, ids_end)
        if isinstance(listing, Listing) and schema_id in listing.ids:
            return True
        if isinstance(listing, Listing) and (schema_id < ids_end or listing.has_guids):
            self._judge(listing, schema_id, now_s)
            return False
        if not alone:
            self.put_off(schema_id, place)
        return alone

    def _judge(self, listing: Listing, schema_id: int, now_s: float) -> None:
        """By a listing that does not have it: all records of the batch, or those that had been read before."""
        if self._newer < len(self._offsets) and self._newest_s < self._began_s:
            self.put_off(schema_id, self._newer)
        else:
            self.miss(UnknownSchema(schema_id, listing.where), schema_id, now_s)

    def _listed(self, ask: Callable[[], Listing], ids_end: int) -> Listing | Unreachable | HoldError:
        """What judges this batch; an error: nothing does now."""
        if self._listing is None:
            self._listing = self._at_hand or self._asked(ask, ids_end)
        return self._listing

    def _asked(self, ask: Callable[[], Listing], ids_end: int) -> Listing | Unreachable | HoldError:
        try:
            found = ask()
        except (Unreachable, HoldError) as error:
            return error
        self._newest_s = self._began_s if found.asked_s is None else found.asked_s
        self._newest = found if self._is_whole(found, ids_end) else None
        if self._newest is None:
            return Unreachable(
                f"{found.where} lists less than the topic is known to have",
                hint="see whether the registry, or a proxy before it, hides subjects from the hub",
            )
        return self._at_hand or Unreachable(
            "what is listed was asked for before the records were read", hint="nothing to do: it is asked again"
        )

    @property
    def _at_hand(self) -> Listing | None:
        """The newest listing, if it was asked for after records of the batch were read."""
        return self._newest if self._newest_s >= self._read_s else None

    def _is_whole(self, listing: Listing, ids_end: int) -> bool:
        """Whether it says something: a registry or proxy that lists nothing, or less than there is, does not."""
        known = self._own if listing.has_guids else {one for one in self._own if one < ids_end}
        return bool(listing.ids) and known <= listing.ids

    def put_off(self, schema_id: int, place: int) -> None:
        """The registry cannot be asked about an id now, which the record at this place is the first to name."""
        self._unasked[schema_id] = min(place, self._unasked.get(schema_id, place))

    def miss(self, error: UnknownSchema, schema_id: int, now_s: float, *, took_s: float = 0.0) -> None:
        """The registry has just said that it does not know an id of this batch; to ask about it alone took so long."""
        self._room, self._vain_s = max(0, self._room - 1), self._vain_s + took_s
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

    def find(self, schema_id: int, *, took_s: float) -> None:
        """The registry knows an id; to ask about it took so long."""
        self._asking_s += took_s
        self._there.add(schema_id)
        self._late.pop(schema_id, None)
        self._lost.pop(schema_id, None)

    def own(self, schema_id: int) -> None:
        """An id is one of the topic's subjects."""
        self._own.add(schema_id)

    def settle(self) -> None:
        """Let the batch pass, unless an id of it is waited for, or was not asked about.

        Raises:
            Unreachable: one is; nothing of the batch may be decided.
            Unasked: one was not; the same.
        """
        read = self._put_off.get(self._log)
        if self._unasked:
            if len(self._offsets) and (read is None or self._offsets[0] >= read.end):
                self._put_off[self._log] = _Read(self._offsets[-1] + 1, self._began_s)
            why = self._listing.message if isinstance(self._listing, Unreachable | HoldError) else ""
            raise Unasked(min(self._unasked.values()), len(self._unasked), why)
        if self._waiting:
            first = next(iter(self._waiting.values()))
            others = f", nor are {len(self._waiting) - 1} more" if len(self._waiting) > 1 else ""
            raise Unreachable(
                f"{first.message} yet{others}: waited for up to {self._patience_s:g} s, then it is a dead letter",
                hint="register the writer's schema at this edge's registry; the flow goes on by itself",
            )
        if read is not None and len(self._offsets) and self._offsets[-1] >= read.end - 1:
            del self._put_off[self._log]

    def _lose(self, schema_id: int) -> None:
        self._late.pop(schema_id, None)
        self._lost[schema_id] = None
        for known in (self._lost, self._late):
            _forget_oldest(known)


def _forget_oldest(known: OrderedDict[int, Any]) -> None:
    while len(known) > _MOST:
        known.popitem(last=False)
