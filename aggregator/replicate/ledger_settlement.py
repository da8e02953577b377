"""Settling what is undecided in the ledger and the requests: before anybody can say where the flows stand.

A slot's transaction writes its ledger record and its records at central; only the first's marker was dropped, or both.
The transaction had committed if anything of it is visible: a record or a dead letter of one of its flows, at or above
the position that the visible ledger names. If nothing is visible, it is aborted, whatever it was: nobody has seen it. A
decision that a slot wrote to the requests had committed if the ledger, which is settled before, stands behind its gap.

Invariant: as in `settlement`: noted, ended by an abort, and what had been committed is written again with the note.
"""

from collections.abc import Mapping
from typing import Protocol

from aggregator.coordinates import EdgePartition, OffsetRange, Partition, Position
from aggregator.errors import Unreachable
from aggregator.kafka.log_record import LogRecord
from aggregator.kafka.open_range import CentralRecord
from aggregator.replicate.gaps import after
from aggregator.replicate.settlement import SettlingCentral, Whose, after_a_moment, end, note
from aggregator.state.control import Epoch, Undecided
from aggregator.state.gap import Decision
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.requests import fold_requests


class LedgerCentral(SettlingCentral, Protocol):
    """Central, as settling the ledger sees it."""

    def visible_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """Winning records as far as they are visible; waits for nothing."""

    def newest(self, source: EdgePartition, *, letters: bool) -> Position | None:
        """The newest record of a flow that is visible at central, or its letter: incarnation and offset at its edge."""


def settle_ledger(central: LedgerCentral, epoch: Epoch, notes: Mapping[Partition, OffsetRange], whose: Whose) -> None:
    """Settle what is undecided in the ledger and the requests; no epoch opens over what can not be settled now.

    Args:
        central: The cluster, all ids of the hub fenced.
        epoch: The epoch that was published.
        notes: What the control topic says of their partitions.
        whose: Their names.

    Raises:
        Fenced: another driver took over.
        RetryError: central did not answer; what was begun is noted.
    """
    noted = dict(notes)
    found = central.undecided([(whose.requests, 0), *((whose.ledger, slot) for slot in range(epoch.ids))])
    undecided = after_a_moment(central, {at: offsets for at, offsets in found.items() if len(offsets)})
    own = {at: central.records(at, offsets, committed=False) for at, offsets in undecided.items()}
    left = end(central, epoch, undecided, note(central, noted, own, undecided), noted)
    for at, offsets in sorted(noted.items(), key=lambda one: one[0][0] == whose.requests):
        if at not in found or at in left:
            # It may be ended already, and then reads as if what had been committed there had not.
            raise Unreachable(
                f"{at[0]}-{at[1]} at central does not answer, or is undecided from {offsets.start} on",
                hint="look at its leader; the epoch is opened again",
            )
        central.write_again(Undecided(*at, *offsets), _committed(central, at, offsets, whose))


def _went_on(entry: LedgerRecord | None, decision: Decision) -> bool:
    """Whether the flow stands behind what was decided about."""
    return entry is not None and entry.position >= after(decision.gap, decision.position)


def _committed(central: LedgerCentral, at: Partition, offsets: OffsetRange, whose: Whose) -> list[CentralRecord]:
    """Records of a range that nobody sees, the last of each key, if their transaction had committed."""
    seen = {(one.key, one.value) for one in central.records(at, offsets, committed=True)}
    unseen = [one for one in central.records(at, offsets, committed=False) if (one.key, one.value) not in seen]
    last = {one.key: one for one in unseen}
    logged = [LogRecord(at[1], offsets.start, (key or b"").decode(), one.value) for key, one in last.items()]
    visible = central.visible_ledger()
    if at[0] == whose.requests:
        held = fold_requests(logged, at[0]).decisions
        passed = {one.key for one in held if _went_on(visible.get(one.source), one)}
        return [record for record, log in zip(last.values(), logged, strict=True) if log.key in passed]
    for flow, entry in winners(logged, at[0]).items():
        known = visible.get(flow)
        newest = central.newest(flow, letters=entry.dead > (known.dead if known else 0))
        if newest is not None and newest < entry.position and (known is None or newest >= known.position):
            return list(last.values())
    return []
