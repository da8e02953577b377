"""Schema ids that a registry does not know yet, and the time that a topic waits for them before they are dead letters.

Invariants:

D. An id becomes a dead letter only by an answer that was asked for at its deadline or later. The deadline is the time
   when its record was read, plus what is left of the topic's patience. Until then, each try is judged by an answer that
   was asked for since the previous try. An answer, however late, judges only the records that had been read when it was
   asked for.
L. An id that the registry knows is never new again. A listing that lacks an id that the topic is known to have says
   nothing.
A. Waits that end in vain share one allowance, so that a flood of senseless ids costs a topic a small share of its time.
F. A partition makes progress: a few ids of a batch are asked about alone, many by one listing of the topic's schemas.
   Where no listing judges, ids are asked about alone, a limited number at a time, those of the oldest records first.
B. The memory of ids is bounded. The oldest id is forgotten first, and a forgotten id is asked about anew.

Pure: takes the time as an argument.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.budgets import UNKNOWN_IDS
from aggregator.coordinates import SchemaName
from aggregator.errors import HoldError, Unreachable
from aggregator.privacy.batch.strip import SchemaIdsPending, SchemaIdsUnasked
from aggregator.privacy.ids.read_times import ReadTimes
from aggregator.schema.registry import AnswerPending, Listing, UnknownSchema

# The allowance for a wait in vain returns within twenty times the length of the wait.
_REFILL = 1 / 20
# A shorter wait is not worth another read of the batch.
_LEAST_S = 1.0
# This number of unknown ids of a batch are asked about alone, whatever a listing says.
_FEW = 8
# More ids than all batches of a slot name, so that a flood of senseless ids displaces senseless ids only.
_MOST = 65_536


@dataclass(slots=True)
class _Pending:
    """An id that is waited for: since when, until when, and when the newest answer was asked for that lacks it."""

    since_s: float
    until_s: float
    asked_s: float = -math.inf


class PendingIds:
    """The ids of one topic, of its keys and values together.

    Args:
        patience_s: Longest time that an id is waited for; 0: not at all.
        name: What errors call an id.

    Attributes:
        is_numbered: Whether ids beyond the registry's own may be numbers of GUIDs, in this batch.
        source_partition: The partition that this batch was read from.
    """

    def __init__(self, patience_s: float, name: Callable[[int], SchemaName | None]) -> None:
        self._patience_s = self._allowance_s = patience_s
        self._name = name
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        # Each id, with the time of the question whose answer was the newest to lack the id.
        self._lost: OrderedDict[int, float] = OrderedDict()
        self._there: set[int] = set()
        self._own: set[int] = set()
        self._reads = ReadTimes()
        self._newest: Listing | None = None
        self._newest_s = -math.inf
        self._began_s = 0.0
        self.begin(0.0)

    def begin(
        self, now_s: float, *, numbered: bool = False, source_partition: Hashable = None, offsets: Sequence[int] = ()
    ) -> None:
        """Begin a new batch.

        Args:
            now_s: The present, in seconds.
            numbered: Numbers of GUIDs took the places of what named schemas in it.
            source_partition: The partition that it was read from; None: none.
            offsets: Offsets of its records in that partition.
        """
        self.is_numbered, self.source_partition = numbered, source_partition
        self._allowance_s = min(self._patience_s, self._allowance_s + (now_s - self._began_s) * _REFILL)
        self._began_s = now_s
        self._reads.begin(source_partition, offsets, now_s)
        self._room, self._is_few = UNKNOWN_IDS.limit, True
        # The first record whose id, or schema, a registry could say nothing about; those before it are asked about.
        self._away_at = math.inf
        # A listing that is kept here lacks numbers that GUIDs got later; the registry's own listing has them.
        self._is_numbered_anew = False
        self._error: Unreachable | None = None
        self._listing_error: Unreachable | HoldError | None = None
        self._waiting: dict[int, tuple[int, str]] = {}
        self._unasked: dict[int, int] = {}

    def expect(self, schema_ids: Iterable[int]) -> None:
        """Take note of the ids that are asked about next."""
        self._is_few = sum(one not in self._there for one in schema_ids) <= _FEW

    def since_s(self, schema_id: int, place: int) -> float:
        """The earliest request time from which a registry's answer about the id is valid for this record."""
        read_s, pending = self._reads.at_s(place), self._pending.get(schema_id)
        if schema_id in self._there:
            return self._began_s
        if schema_id in self._lost:
            return read_s
        until_s = self._until_s(read_s) if pending is None else pending.until_s
        if self._began_s >= until_s:
            return max(read_s, until_s)
        return read_s if pending is None else max(read_s, math.nextafter(pending.asked_s, math.inf))

    def _until_s(self, read_s: float) -> float:
        """Until when a newcomer is waited for."""
        is_worth = self._allowance_s >= min(_LEAST_S, self._patience_s)
        return read_s + self._allowance_s if is_worth else read_s

    def should_ask(self, schema_id: int, place: int, ids_end: int, ask: Callable[[float], Listing]) -> bool:
        """Whether to ask the registry about this id alone; if not, the id is judged here, or put off.

        Args:
            schema_id: From a record.
            place: Of the first record that names it.
            ids_end: Ids are below it; from there on are numbers of GUIDs.
            ask: Asks for the topic's schemas, as listed since a time.
        """
        if schema_id in self._there:
            return True
        since_s = self.since_s(schema_id, place)
        known_s = self._lost.get(schema_id, -math.inf)
        if known_s >= since_s:
            self._judge(schema_id, place, known_s)
            return False
        if schema_id >= ids_end and not self._is_numbered_anew:
            self._is_numbered_anew, self._newest_s = True, -math.inf
        listing = None if self._is_few else self._listed(ask, since_s, ids_end)
        is_listed = listing is not None and (schema_id in listing.ids or schema_id in listing.known)
        if listing is not None and not is_listed and (schema_id < ids_end or listing.has_guids):
            self.mark_missing(schema_id, place, self._newest_s, listing.where)
            return False
        if place >= self._away_at or not (self._room or is_listed):
            self.put_off(schema_id, place)
            return False
        self._room -= not is_listed
        return True

    def _listed(self, ask: Callable[[float], Listing], since_s: float, ids_end: int) -> Listing | None:
        """What judges ids by what was asked for since a time, if anything does now."""
        if self._newest_s < since_s and self._listing_error is None:
            try:
                found = ask(since_s)
            except (Unreachable, HoldError) as error:
                self._listing_error = error
                if isinstance(error, AnswerPending):  # it will judge all of them
                    self._room = min(self._room, _FEW)
                return None
            if not self._is_complete(found, ids_end):
                self._listing_error = Unreachable(
                    f"{found.where} lists less than the topic is known to have",
                    hint="see whether the registry, or a proxy before it, hides subjects from the hub",
                )
                return None
            self._newest, self._newest_s = found, self._began_s if found.asked_s is None else found.asked_s
            if self._newest_s < since_s:
                self._listing_error = AnswerPending(found.where)
        return self._newest if self._newest_s >= since_s else None

    def _is_complete(self, listing: Listing, ids_end: int) -> bool:
        """Whether it says something: a registry or proxy that lists nothing, or less than there is, does not."""
        known = self._own if listing.has_guids else {one for one in self._own if one < ids_end}
        return bool(listing.ids or listing.versions) and known <= listing.ids

    def put_off(self, schema_id: int, place: int, why: Unreachable | None = None) -> None:
        """Nothing is known yet about an id that the record at this place is the first to name, or about its schema.

        Args:
            schema_id: From a record.
            place: Its record's.
            why: What the registry met with; where it is away, it is asked nothing more about this record or later ones.
        """
        self._unasked[schema_id] = min(place, self._unasked.get(schema_id, place))
        if why is not None and not isinstance(why, AnswerPending) and place < self._away_at:
            self._away_at, self._error = place, why
        self._error = self._error or why

    def mark_missing(self, schema_id: int, place: int, asked_s: float | None, where: str) -> None:
        """Note that a registry does not know an id.

        Args:
            schema_id: The id from a record.
            place: Of the first record that names it.
            asked_s: When it was asked; None: just now.
            where: The registry, as errors name it.
        """
        asked_s = self._began_s if asked_s is None else asked_s
        self._there.discard(schema_id)
        if schema_id not in self._lost:
            pending = self._pending.get(schema_id) or self._newcomer(schema_id, place)
            pending.asked_s = max(asked_s, pending.asked_s)
            if asked_s < pending.until_s:
                self._waiting[schema_id] = place, where
                return
            if pending.until_s > pending.since_s:
                self._allowance_s = max(0.0, self._allowance_s - (asked_s - pending.since_s))
            del self._pending[schema_id]
        self._judge(schema_id, place, asked_s)

    def _newcomer(self, schema_id: int, place: int) -> _Pending:
        read_s = self._reads.at_s(place)
        pending = self._pending[schema_id] = _Pending(read_s, self._until_s(read_s))
        _forget_oldest(self._pending)
        return pending

    def _judge(self, schema_id: int, place: int, asked_s: float) -> None:
        """Reject an id in the records that were read before the registry was asked; postpone it in later ones."""
        self._lost[schema_id] = max(asked_s, self._lost.get(schema_id, asked_s))
        _forget_oldest(self._lost)
        newer = self._reads.newer(asked_s)
        if newer is not None:
            self.put_off(schema_id, max(place, newer))

    def mark_known(self, schema_id: int) -> None:
        """Note that the registry knows an id now."""
        self._there.add(schema_id)
        self._pending.pop(schema_id, None)
        self._lost.pop(schema_id, None)

    def mark_own(self, schema_id: int) -> None:
        """Note that an id is of one of the topic's subjects."""
        self._own.add(schema_id)

    def raise_if_waiting(self) -> None:
        """Let the batch pass, unless an id of it is waited for, or nothing is known of it.

        Raises:
            SchemaIdsPending: one is; nothing of the batch may be decided.
            SchemaIdsUnasked: nothing is known of one; the same.
        """
        if not self._unasked and not self._waiting:
            self._reads.passed()
            return
        first = min((*self._unasked.values(), *(place for place, _ in self._waiting.values())))
        if self._unasked:
            is_away = self._away_at <= first
            why = self._error if is_away else self._listing_error or self._error
            raise SchemaIdsUnasked(first, len(self._unasked), why, is_away=is_away)
        schema_id, (_, where) = next(iter(self._waiting.items()))
        unknown = UnknownSchema(self._name(schema_id), where).message
        others = f", nor are {len(self._waiting) - 1} more" if len(self._waiting) > 1 else ""
        raise SchemaIdsPending(
            f"{unknown} yet{others}: waited for up to {self._patience_s:g} s, then it is a dead letter",
            first,
            is_soon=False,
            hint="register the writer's schema at this edge's registry; the flow goes on by itself",
        )


def _forget_oldest(known: OrderedDict[int, Any]) -> None:
    while len(known) > _MOST:
        known.popitem(last=False)
