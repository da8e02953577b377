"""This module settles undecided transactions at central when an epoch opens (the last sentence of rule B).

If Kafka drops a transaction marker (KAFKA-20734), records stay open in a partition, and the next marker of the same id
decides them too. After fencing, no transaction of the hub is under way, so its open records are such leftovers. The
ledger says whether their transaction had committed: records below the flow's position had, records at or above it had
not.

Invariant: open ranges are noted in `H.control` before they are ended by an abort under every id of the hub. Only then
is anything judged by what is visible, because an open transaction hides committed records behind it. A record below its
flow's position that is not visible in the noted range is written again from central's own log. One transaction of the
driver writes these records and removes the note. A partition that is still undecided afterwards is held and named.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, Self

from aggregator.coordinates import Copy, EdgePartition, OffsetRange, Partition, Position
from aggregator.errors import Fenced, TransactionAborted
from aggregator.kafka.readers.open_range import CentralRecord
from aggregator.state.control import ControlEntry, ControlState, Epoch, UndecidedRange
from aggregator.state.dead_letters import letter_copy
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames

_PATIENCE_S = 1.0
_STEP_S = 0.01
# Held partitions are asked about this often: another producer's long transactions must not cause an epoch a second.
_AGAIN_S = 10.0
_Ranges = Mapping[Partition, OffsetRange]


class SettlingCentral(Protocol):
    """The interface to central that settling needs."""

    def read_undecided(self, partitions: Collection[Partition]) -> _Ranges:
        """The range from the last stable offset to the high watermark, by partition that answers."""

    def read_records(self, tp: Partition, offsets: OffsetRange, *, committed: bool) -> list[CentralRecord]:
        """The records in a range, or the visible ones."""

    def read_backfill_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        """Winning records of one backfill, or of the live flows, from every ledger partition read to its end."""

    def publish(self, *entries: ControlEntry) -> None:
        """Commit records to the control topic, all of them or none."""

    def end_undecided(
        self,
        records: Mapping[Partition, CentralRecord],
        slots: Iterable[int],
        *,
        allowed: Callable[[ControlState], None],
    ) -> None:
        """Write one record to each partition and abort, under the ids of these slots and the driver's own.

        Args:
            records: What to write.
            slots: Whose ids to take.
            allowed: Raises what forbids it, by the control topic read to its end when all ids are taken.
        """

    def rewrite_records(self, noted: UndecidedRange, records: Collection[CentralRecord]) -> None:
        """Write records and take the note of their partition back, in one transaction of the driver."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""


class TransactionOwner(NamedTuple):
    """Tells the records of one protocol instance (live flows or backfills) from other records.

    Attributes:
        hub: In `hub.origin`.
        ledger: Where the flows stand.
        requests: Where slots write what a rule decided.
        letters: Where slots write dead letters, and resolutions.
        backfills: Whether these are all backfills of the hub, which share their ids; else the live flows.
    """

    hub: str
    ledger: str
    requests: str
    letters: tuple[str, ...]
    backfills: bool = False

    @classmethod
    def of_live_flows(cls, names: HubNames) -> Self:
        """Describe how records of the live flows of a hub are told from others."""
        return cls(names.hub, names.ledger, names.requests, (names.dead_letters,))

    @classmethod
    def of_backfills(cls, names: HubNames) -> Self:
        """Describe how records of a hub's backfills are told; a live topic's letters may be among them."""
        own = names.backfills()
        return cls(names.hub, own.ledger, own.requests, (names.dead_letters, own.dead_letters), backfills=True)

    def internal(self, epoch: Epoch) -> list[Partition]:
        """The partitions that tell where the flows stand: the requests, and a ledger partition for each id."""
        return [(self.requests, 0), *((self.ledger, slot) for slot in range(epoch.ids))]

    def written(self, tp: Partition, record: CentralRecord) -> Copy | None:
        """The copy that any writer of the hub has made there; a dead letter tells it in its key and value."""
        copy = letter_copy(self.hub, record.key, record.value) if tp[0] in self.letters else record.copy
        return copy if copy is not None and copy.origin.hub == self.hub else None

    def copy(self, tp: Partition, record: CentralRecord) -> Copy | None:
        """What `written` does for records of these flows, and None for others."""
        copy = self.written(tp, record)
        return copy if copy is not None and bool(copy.backfill) == self.backfills else None


class OpenTransactions(NamedTuple):
    """Holds the transactions that were open when an epoch was opened.

    Attributes:
        noted: Ranges of the hub's own, which the control topic knows.
        left: Partitions in which something is undecided still, or that do not answer, with the reason.
    """

    noted: _Ranges
    left: Mapping[Partition, str]


def abort_open_transactions(
    central: SettlingCentral,
    epoch: Epoch,
    partitions: Collection[Partition],
    *,
    notes: _Ranges,
    owner: TransactionOwner,
    unguarded: Collection[Partition] = (),
) -> OpenTransactions:
    """Note the hub's open transactions in the control topic, then end all of them at once.

    An open transaction hides the records behind it.

    Args:
        central: The cluster, all ids of the hub fenced.
        epoch: The epoch that was published.
        partitions: Central's partitions.
        notes: What the control topic says of ranges that were begun and not ended.
        owner: Whose records are the slots' own.
        unguarded: Those of the places that flows of today wrote under former rules. No slot asks about them.

    Raises:
        Fenced: another driver took over.
        RetryError: central did not answer in between; what was begun is noted.
    """
    noted, internal = dict(notes), set(owner.internal(epoch))
    found = central.read_undecided(sorted({*partitions, *notes}))
    undecided = await_decided(central, {at: offsets for at, offsets in found.items() if len(offsets)})
    seen = {at: central.read_records(at, offsets, committed=False) for at, offsets in undecided.items()}
    own = {at: [one for one in seen[at] if at in internal or owner.copy(at, one)] for at in seen}
    samples = {at: records[0] for at, records in own.items() if records}
    _note(central, noted, {at: undecided[at] for at in samples})
    open_still = _ended(central, epoch, undecided, samples, noted)
    # The slots' gates check other silent partitions. A noted range must be settled before anything is written.
    left = {at: _silence(at) for at in {*notes, *unguarded} if at not in found}
    for at, offsets in open_still.items():
        if offsets.start == undecided[at].start:
            first = seen[at][:1]
        else:
            first = central.read_records(at, OffsetRange(offsets.start, offsets.start + 1), committed=False)
        left[at] = _sentence(at, offsets, first[0] if first else None, owner, own=at in internal)
    return OpenTransactions(noted, left)


def await_decided(central: SettlingCentral, ranges: _Ranges) -> dict[Partition, OffsetRange]:
    """What is still undecided of these ranges after transactions under way had time to end."""
    left, deadline = dict(ranges), central.now() + _PATIENCE_S
    while left:
        found = central.read_undecided(left)
        left = {at: OffsetRange(found[at].start if at in found else start, end) for at, (start, end) in left.items()}
        left = {at: offsets for at, offsets in left.items() if len(offsets)}
        if central.now() > deadline:
            break
        central.sleep(_STEP_S)
    return left


def _note(central: SettlingCentral, noted: dict[Partition, OffsetRange], undecided: _Ranges) -> None:
    """Publish the undecided ranges that are not noted yet."""
    fresh = {}
    for at, offsets in undecided.items():
        before = noted.get(at, offsets)
        grown = OffsetRange(min(before.start, offsets.start), max(before.end, offsets.end))
        if noted.get(at) != grown:
            fresh[at] = grown
    if fresh:
        central.publish(*(UndecidedRange(*at, *offsets) for at, offsets in fresh.items()))
        noted |= fresh


def _ended(
    central: SettlingCentral,
    epoch: Epoch,
    undecided: _Ranges,
    samples: Mapping[Partition, CentralRecord],
    noted: _Ranges,
) -> _Ranges:
    """Abort the hub's own undecided transactions, and return what is still undecided."""
    if not samples:
        return undecided

    def allowed(state: ControlState) -> None:
        # No slot of a newer epoch writes there before the note is removed.
        if any(state.undecided.get(at) != noted[at] for at in samples):
            raise Fenced(f"another driver decided what epoch {epoch.epoch} had noted")

    central.end_undecided(samples, range(epoch.ids), allowed=allowed)
    # The record that was written to end it may be undecided itself, and the driver is about to write there.
    found = central.read_undecided(samples)
    silent = {at: undecided[at] for at in samples if at not in found}
    return await_decided(central, {**undecided, **found}) | silent


def rewrite_missing(
    central: SettlingCentral,
    found: OpenTransactions,
    notes: _Ranges,
    *,
    ledger: Mapping[EdgePartition, LedgerRecord],
    owner: TransactionOwner,
) -> dict[Partition, str]:
    """Write again what had been committed in noted ranges of partitions with records of edges.

    Args:
        central: The cluster.
        found: What was open, ended where it could be.
        notes: Of those partitions.
        ledger: Winning records of the live flows; those of backfills are read when they are needed.
        owner: Whose records are the slots' own.

    Returns:
        Partitions that must not be written in this epoch, with the reason.

    Raises:
        Fenced: another driver took over.
        RetryError: central did not answer in between; what was begun is noted.
    """
    held, judge = {at: found.left[at] for at in notes if at in found.left}, _CommitCheck(central, ledger)
    written = set()
    for at, offsets in notes.items():
        if at in held:
            continue
        # Read to the end: an earlier attempt whose tombstone was lost wrote its records behind the range.
        end_now = central.read_undecided([at]).get(at)
        if end_now is None:
            held[at] = _silence(at)
            continue
        whole = OffsetRange(offsets.start, max(offsets.end, end_now.start))
        seen = {owner.copy(at, record) for record in central.read_records(at, whole, committed=True)}
        missing: dict[Copy, CentralRecord] = {}
        for record in central.read_records(at, offsets, committed=False):
            copy = owner.copy(at, record)
            if copy is not None and copy not in seen and judge.passed(copy):
                missing.setdefault(copy, record)
        try:
            central.rewrite_records(UndecidedRange(*at, *offsets), list(missing.values()))
        except TransactionAborted as error:
            held[at] = (
                f"central partition {at[0]}-{at[1]}: what had been committed is refused when it is written again, "
                f"and the flows to it wait until it is taken: {error.message}"
            )
        else:
            written.add(at)
    return held | check_rewritten(central, written)


def check_rewritten(central: SettlingCentral, partitions: Collection[Partition]) -> dict[Partition, str]:
    """What is undecided, or silent, of partitions that the driver has written: its own markers may be dropped, too."""
    found = central.read_undecided(partitions) if partitions else {}
    left = await_decided(central, {at: offsets for at, offsets in found.items() if len(offsets)})
    silent = {at: _silence(at) for at in partitions if at not in found}
    return silent | {
        at: f"central partition {at[0]}-{at[1]}: what the hub wrote again is undecided, too; the next epoch settles it"
        for at in left
    }


class _CommitCheck:
    """Decides whether a record's transaction had committed: the ledger has moved past the record then."""

    def __init__(self, central: SettlingCentral, ledger: Mapping[EdgePartition, LedgerRecord]) -> None:
        self._central = central
        self._ledgers = {"": ledger}

    def passed(self, copy: Copy) -> bool:
        """Whether this copy lies below its flow's position."""
        origin, backfill = copy
        if backfill not in self._ledgers:
            self._ledgers[backfill] = self._central.read_backfill_ledger(backfill)
        entry = self._ledgers[backfill].get(EdgePartition(origin.edge, origin.topic, origin.partition))
        if entry is None:
            return False
        return comparable_position(Position(origin.incarnation, origin.offset), backfill) < comparable_position(
            entry.position, backfill
        )


def comparable_position(position: Position, backfill: str) -> Position:
    """The key by which positions of a flow are compared. A backfill reads a log once, across incarnations, so
    only its offset counts.
    """
    return position._replace(incarnation=0) if backfill else position


def _sentence(
    tp: Partition, undecided: OffsetRange, first: CentralRecord | None, owner: TransactionOwner, *, own: bool
) -> str:
    """Why a partition is not written, and what may be done about it.

    Args:
        tp: The partition.
        undecided: What is not visible of it.
        first: The record that the last stable offset stands at, whose transaction is what holds the rest back.
        owner: Whose records are the slots' own.
        own: Whether nobody else writes there.
    """
    (topic, partition), start = tp, undecided.start
    where = f"central partition {topic}-{partition}: a transaction is undecided from offset {start} on"
    written = owner.written(tp, first) if first is not None else None
    if written is not None and bool(written.backfill) != owner.backfills:
        if owner.backfills:
            return f"{where}, of the hub's live flows; the hub settles it: start it, or let it run"
        return f"{where}, of backfill {written.backfill}; `aggregator backfill settle` ends it"
    if written is None and not own:
        return f"{where}, of another producer than these slots; it goes on when that one is decided"
    return (
        f"{where}, and no abort under the hub's ids ended it; while the hub runs, `kafka-transactions.sh abort "
        f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {start}` may end it: "
        "the hub has noted the range, and writes again what had been committed there"
    )


def _silence(tp: Partition) -> str:
    return (
        f"{tp[0]}-{tp[1]} at central does not answer: has it a leader? If its topic was deleted, create it again, "
        "empty: then nothing of it is left to settle"
    )


class UndecidedWatch:
    """Watches the held partitions while an epoch runs: once one of them is decided, a new epoch is due.

    Args:
        central: The cluster.
        held: The partitions.
    """

    def __init__(self, central: SettlingCentral, held: Collection[Partition]) -> None:
        self._central = central
        self._left: dict[Partition, int | None] = dict.fromkeys(held)  # the end of each partition at its first answer
        self._asked = central.now() if held else 0.0

    def poll_decided(self) -> bool:
        """Whether one of them was decided since; asks every ten seconds."""
        now = self._central.now()
        if not self._left or now - self._asked < _AGAIN_S:
            return False
        self._asked = now
        found = self._central.read_undecided(self._left)
        self._left |= {at: offsets.end for at, offsets in found.items() if self._left[at] is None}
        return any(offsets.start >= (self._left[at] or 0) for at, offsets in found.items())
