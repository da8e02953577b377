"""This module settles undecided transactions in the ledger and the requests, before any flow's position can be trusted.

A slot's transaction writes its ledger record and its records at central. Kafka dropped either the marker of the ledger
record alone, or the markers of both. The transaction had committed if anything of it is visible: a record, a dead
letter or a resolution of one of its flows, at or above the position in the visible ledger. If nothing is visible, the
transaction is treated as aborted, because no reader has seen it. The requests are settled after the ledger. A decision
that a slot wrote there had committed if the ledger stands behind the decision's gap. Decisions of backfills move no
flow.

Invariant: as in `settlement`, a range is noted, it is ended by an abort, and committed records are written again
together with the removal of the note. An absence of visible records proves something only where nothing is hidden.
While another producer's open transaction may hide records, no epoch opens.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from aggregator.coordinates import EdgePartition, OffsetRange, Partition, Position
from aggregator.errors import Unreachable
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.open_range import CentralRecord
from aggregator.kafka.readers.typed_decoder import key_text
from aggregator.replicate.flow.gaps import position_after
from aggregator.replicate.leadership.settlement import (
    OpenTransactions,
    SettlingCentral,
    TransactionOwner,
    check_rewritten,
    comparable_position,
)
from aggregator.state.control import Epoch, UndecidedRange
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord, backfill_of, winners
from aggregator.state.requests import fold_requests

HINT = "the epoch is opened again"


class LedgerCentral(SettlingCentral, Protocol):
    """The interface to central that settling the ledger needs."""

    def visible_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        """Winning records of one backfill, or of the live flows, as far as they are visible; waits for nothing."""

    def destinations(self, source: EdgePartition, backfill: str) -> Collection[Partition]:
        """Partitions of central that records of this flow may be in, its letters apart."""

    def partitions(self, topics: Collection[str]) -> Collection[Partition]:
        """Partitions of topics, of those that exist."""

    def find_newest_position(
        self, partitions: Collection[Partition], position_of: Callable[[Partition, CentralRecord], Position | None]
    ) -> Position | None:
        """The highest position of a visible record in these partitions."""


class _Flow(NamedTuple):
    """A flow, live or of a backfill."""

    source: EdgePartition
    backfill: str


def settle_ledger(central: LedgerCentral, found: OpenTransactions, epoch: Epoch, owner: TransactionOwner) -> None:
    """Settle what was undecided in the ledger and the requests; no epoch opens over what cannot be settled now.

    Args:
        central: The cluster, all ids of the hub fenced.
        found: What was open anywhere, ended where it could be.
        epoch: The epoch that was published.
        owner: Their names.

    Raises:
        Fenced: another driver took over.
        RetryError: central did not answer, or something else hides what had been committed; what was begun is noted.
    """
    internal = owner.internal(epoch)
    for at in internal:
        if at in found.left:
            # It may have been aborted already. Then its committed records would read as if they had not been committed.
            raise Unreachable(found.left[at], hint=HINT)
    noted = sorted((at for at in internal if at in found.noted), key=lambda at: at[0] == owner.requests)
    for at in noted:
        offsets = found.noted[at]
        central.rewrite_records(UndecidedRange(*at, *offsets), _committed(central, at, offsets, found, owner))
    if again := check_rewritten(central, noted):
        raise Unreachable("; ".join(again.values()), hint=HINT)


def _committed(
    central: LedgerCentral, tp: Partition, offsets: OffsetRange, found: OpenTransactions, owner: TransactionOwner
) -> list[CentralRecord]:
    """Records of a range that nobody sees, the last of each key, if their transaction had committed."""
    seen = {(one.key, one.value) for one in central.read_records(tp, offsets, committed=True)}
    unseen = [one for one in central.read_records(tp, offsets, committed=False) if (one.key, one.value) not in seen]
    last = {one.key: one for one in unseen}
    logged = [LogRecord(tp[1], offsets.start, key_text(key), one.value) for key, one in last.items()]
    if tp[0] == owner.requests:
        if owner.backfills:
            return []
        visible = central.visible_ledger("")
        held = fold_requests(logged, tp[0]).decisions
        passed = {one.key for one in held if _has_passed_gap(visible.get(one.source), one)}
        return [record for record, log in zip(last.values(), logged, strict=True) if log.key in passed]
    evidence = _Evidence(central, found, owner)
    if any(evidence.is_visible(flow, entry) for flow, entry in _moved(logged, tp[0]).items()):
        return list(last.values())
    if evidence.hiding:
        reasons = "; ".join(evidence.hiding.values())
        raise Unreachable(f"{tp[0]}-{tp[1]} at central holds what may have been committed, and {reasons}", hint=HINT)
    return []


def _has_passed_gap(entry: LedgerRecord | None, decision: GapDecision) -> bool:
    """Whether the flow stands behind what was decided about."""
    return entry is not None and entry.position >= position_after(decision.gap, decision.position)


def _moved(logged: Collection[LogRecord], topic: str) -> dict[_Flow, LedgerRecord]:
    """The ledger records by flow, for live flows and backfills alike."""
    by_backfill = defaultdict(list)
    for record in logged:
        by_backfill[backfill_of(record.key)].append(record)
    return {
        _Flow(source, backfill): entry
        for backfill, some in by_backfill.items()
        for source, entry in winners(some, topic, backfill=backfill).items()
    }


class _Evidence:
    """Looks for visible records of a transaction whose ledger record was undecided.

    Args:
        central: The cluster.
        found: What was open anywhere, and is.
        owner: Whose transaction it is.
    """

    def __init__(self, central: LedgerCentral, found: OpenTransactions, owner: TransactionOwner) -> None:
        self._central = central
        self._found = found
        self._owner = owner
        self.hiding: dict[Partition, str] = {}  # partitions that may hide something, with the reason
        self._ledgers: dict[str, Mapping[EdgePartition, LedgerRecord]] = {}

    def is_visible(self, flow: _Flow, entry: LedgerRecord) -> bool:
        """Whether something is visible that only the transaction of this ledger record can have written."""
        if flow.backfill not in self._ledgers:
            self._ledgers[flow.backfill] = self._central.visible_ledger(flow.backfill)
        known = self._ledgers[flow.backfill].get(flow.source)
        partitions = list(self._central.destinations(*flow))
        # All letters take long to search. A live flow without one in this transaction skips that; a backfill resolves.
        if flow.backfill or entry.dead > (known.dead if known else 0):
            partitions += self._central.partitions(self._owner.letters)
        end = comparable_position(entry.position, flow.backfill)
        newest = self._central.find_newest_position(partitions, partial(self._position, flow, end))
        begin = comparable_position(known.position, flow.backfill) if known else Position(-1, 0)
        if newest is not None and newest >= begin:
            return True
        answers = self._central.read_undecided(partitions)
        for at in partitions:
            if at not in answers or len(answers[at]):
                self.hiding[at] = self._found.left.get(at, f"{at[0]}-{at[1]} may hide it: it is undecided, or silent")
        return False

    def _position(self, flow: _Flow, end: Position, tp: Partition, record: CentralRecord) -> Position | None:
        """Where a record of this flow stands; None of any other, and of what no transaction so far can have written."""
        copy = self._owner.copy(tp, record)
        if copy is None or copy.backfill != flow.backfill or copy.origin[1:4] != flow.source:
            return None
        position = comparable_position(Position(copy.origin.incarnation, copy.origin.offset), flow.backfill)
        return position if position < end else None
