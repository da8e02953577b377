"""Settling undecided transactions at central when an epoch opens (the last sentence of rule B).

A marker that Kafka dropped (KAFKA-20734) leaves records open in a partition, and the next marker of the same id there
decides them too. After fencing nothing of the hub is under way, so what is open of it is such a leftover. Whether its
transaction had committed stands in the ledger: below the flow's position it had, at or above it had not.

Invariant: what is open is noted in `H.control` before it is ended, by an abort under every id of the hub; then every
record below its flow's position that is not visible in the noted range is written again from central's own log, in one
transaction of the driver that also takes the note back. A partition that is not decided then is held, and named.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from aggregator.coordinates import EdgePartition, OffsetRange, Origin, Partition, Position
from aggregator.errors import Fenced
from aggregator.kafka.open_range import CentralRecord
from aggregator.state.control import ControlState, Epoch, Undecided
from aggregator.state.dead_letters import letter_origin
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames

_PATIENCE_S = 1.0
_STEP_S = 0.01
# A partition of another producer's long transactions is not worth an epoch every second.
_AGAIN_S = 10.0


class SettlingCentral(Protocol):
    """Central, as settling sees it."""

    def undecided(self, places: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """From the last stable offset to the high watermark of each partition that answers."""

    def records(self, at: Partition, offsets: OffsetRange, *, committed: bool) -> list[CentralRecord]:
        """What lies in a range, or what is visible of it."""

    def ledger_of(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        """Winning records of one backfill, from every ledger partition read to its end."""

    def publish(self, entry: Undecided) -> None:
        """Commit a note about a range to the control topic."""

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

    def write_again(self, noted: Undecided, records: Collection[CentralRecord]) -> None:
        """Write records and take the note of their partition back, in one transaction of the driver."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Whose(NamedTuple):
    """How records of one protocol instance are told from others.

    Attributes:
        hub: In `hub.origin`.
        backfill: Who settles; the live flows have none. All backfills share their ids, so each settles for all.
        letters: The hub's dead letters, where live flows write them.
        ledger: The live flows' ledger.
        requests: Where slots write what a rule decided.
    """

    hub: str
    backfill: str = ""
    letters: str = ""
    ledger: str = ""
    requests: str = ""

    @classmethod
    def live(cls, names: HubNames) -> Self:
        """Of the live flows of a hub."""
        return cls(names.hub, letters=names.dead_letters, ledger=names.ledger, requests=names.requests)


def settle(
    central: SettlingCentral,
    epoch: Epoch,
    places: Collection[Partition],
    *,
    notes: Mapping[Partition, OffsetRange],
    ledger: Mapping[EdgePartition, LedgerRecord],
    whose: Whose,
) -> dict[Partition, str]:
    """Settle what is undecided in the partitions that an epoch is about to write.

    Args:
        central: The cluster, all ids of the hub fenced.
        epoch: The epoch that was published.
        places: Central's partitions.
        notes: What the control topic says of ranges that were begun and not ended.
        ledger: Winning records.
        whose: Whose records are the slots' own.

    Returns:
        Partitions that must not be written in this epoch, with the reason.

    Raises:
        Fenced: another driver took over.
        RetryError: central did not answer in between; what was begun is noted.
    """
    noted, asked = dict(notes), sorted({*places, *notes})
    found = central.undecided(asked)
    # Of the others the slots' own gates take care; a note is to be settled before anything more is written there.
    held = {at: _silence(at) for at in notes if at not in found}
    undecided = after_a_moment(central, {at: offsets for at, offsets in found.items() if len(offsets)})
    samples = note(central, noted, {at: _own(central, at, one, whose) for at, one in undecided.items()}, undecided)
    left = end(central, epoch, undecided, samples, noted)
    held |= {at: _sentence(at, offsets, own=at in noted) for at, offsets in left.items()}
    for at, offsets in noted.items():
        if at in held:
            continue
        # To the end: what an attempt before this one wrote again, whose tombstone was lost, lies behind the range.
        end_now = central.undecided([at]).get(at)
        if end_now is None:
            held[at] = _silence(at)
            continue
        whole = OffsetRange(offsets.start, max(offsets.end, end_now.start))
        central.write_again(Undecided(*at, *offsets), _missing(central, at, offsets, whole, ledger=ledger, whose=whose))
    return held


def after_a_moment(central: SettlingCentral, ranges: Mapping[Partition, OffsetRange]) -> dict[Partition, OffsetRange]:
    """What is still undecided of these ranges when all that is merely under way had its time."""
    left, deadline = dict(ranges), central.now() + _PATIENCE_S
    while left:
        found = central.undecided(left)
        left = {at: OffsetRange(found[at].start if at in found else start, end) for at, (start, end) in left.items()}
        left = {at: offsets for at, offsets in left.items() if len(offsets)}
        if central.now() > deadline:
            break
        central.sleep(_STEP_S)
    return left


def note(
    central: SettlingCentral,
    noted: dict[Partition, OffsetRange],
    own: Mapping[Partition, Sequence[CentralRecord]],
    undecided: Mapping[Partition, OffsetRange],
) -> dict[Partition, CentralRecord]:
    """Note the ranges that hold records of our own, if they are not noted yet; one record of each."""
    samples = {at: records[0] for at, records in own.items() if records}
    for at in samples:
        offsets = undecided[at]
        before = noted.get(at, offsets)
        grown = OffsetRange(min(before.start, offsets.start), max(before.end, offsets.end))
        if noted.get(at) != grown:
            central.publish(Undecided(*at, *grown))
            noted[at] = grown
    return samples


def end(
    central: SettlingCentral,
    epoch: Epoch,
    undecided: Mapping[Partition, OffsetRange],
    samples: Mapping[Partition, CentralRecord],
    noted: Mapping[Partition, OffsetRange],
) -> dict[Partition, OffsetRange]:
    """End what is undecided of our own, by aborts; what is undecided then."""
    if not samples:
        return dict(undecided)

    def allowed(state: ControlState) -> None:
        # No slot of a newer epoch writes there before the note is taken back.
        if any(state.undecided.get(at) != noted[at] for at in samples):
            raise Fenced(f"another driver decided what epoch {epoch.epoch} had noted")

    central.end_undecided(samples, range(epoch.ids), allowed=allowed)
    # What was written to end it may be left undecided itself, and the driver is about to write there.
    found = central.undecided(samples)
    silent = {at: undecided[at] for at in samples if at not in found}
    return after_a_moment(central, {**undecided, **found}) | silent


def _sentence(at: Partition, undecided: OffsetRange, *, own: bool) -> str:
    """Why a partition is not written, and what may be done about it."""
    (topic, partition), start = at, undecided.start
    where = f"central partition {topic}-{partition}: a transaction is undecided from offset {start} on"
    if not own:
        return f"{where}, of another producer than these slots; it goes on when that one is decided"
    return (
        f"{where}, and no abort under the hub's ids ended it; while the hub runs, `kafka-transactions.sh abort "
        f"--topic {topic} --partition {partition} --start-offset {start}` may end it: "
        "the hub has noted the range, and writes again what had been committed there"
    )


def _silence(at: Partition) -> str:
    return f"{at[0]}-{at[1]} at central does not answer: has it a leader?"


def _own(central: SettlingCentral, at: Partition, offsets: OffsetRange, whose: Whose) -> list[CentralRecord]:
    return [one for one in central.records(at, offsets, committed=False) if _origin(at, one, whose)]


def _missing(
    central: SettlingCentral,
    at: Partition,
    offsets: OffsetRange,
    whole: OffsetRange,
    *,
    ledger: Mapping[EdgePartition, LedgerRecord],
    whose: Whose,
) -> list[CentralRecord]:
    """What of a range the ledger has moved past and nobody can see in the whole, once each and in order."""
    seen = {_origin(at, record, whose) for record in central.records(at, whole, committed=True)}
    missing: dict[Origin, CentralRecord] = {}
    ledgers = {whose.backfill: ledger}
    for record in central.records(at, offsets, committed=False):
        origin = _origin(at, record, whose)
        if origin is None:
            continue
        if record.backfill not in ledgers:
            ledgers[record.backfill] = central.ledger_of(record.backfill)
        if origin not in seen and _passed(ledgers[record.backfill], origin):
            missing.setdefault(origin, record)
    return list(missing.values())


def _passed(ledger: Mapping[EdgePartition, LedgerRecord], origin: Origin) -> bool:
    entry = ledger.get(EdgePartition(origin.edge, origin.topic, origin.partition))
    return entry is not None and Position(origin.incarnation, origin.offset) < entry.position


def _origin(at: Partition, record: CentralRecord, whose: Whose) -> Origin | None:
    """Where a record of our own came from; None of anybody else's. A dead letter says so in its key."""
    if at[0] == whose.letters:
        return letter_origin(whose.hub, record.key, record.value)
    origin = record.origin
    same = bool(record.backfill) == bool(whose.backfill)
    return origin if origin and origin.hub == whose.hub and same else None


class Unsettled:
    """Looks at the held partitions while an epoch runs: what was undecided then, and is not now, is worth another one.

    Args:
        central: The cluster.
        held: The partitions.
    """

    def __init__(self, central: SettlingCentral, held: Collection[Partition]) -> None:
        self._central = central
        self._left: dict[Partition, int | None] = dict.fromkeys(held)  # the end that each had when it answered first
        self._asked = central.now() if held else 0.0

    def moved(self) -> bool:
        """Whether one of them was decided since; asks every ten seconds."""
        now = self._central.now()
        if not self._left or now - self._asked < _AGAIN_S:
            return False
        self._asked = now
        found = self._central.undecided(self._left)
        self._left |= {at: offsets.end for at, offsets in found.items() if self._left[at] is None}
        return any(offsets.start >= (self._left[at] or 0) for at, offsets in found.items())
