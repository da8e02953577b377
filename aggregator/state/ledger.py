"""The ledger stores each flow's position, committed in the same transaction as the records that it moves past.

Invariant (protocol, rules A and D): a slot writes its own partition only. For one flow, the record of the highest epoch
wins, and among those the last in log order. A damaged record is refused by name, until a later one of its key in the
same partition takes its place. A tombstone does that only where the key names no flow, because it tells no position.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.json import Decoder, Encoder

from aggregator.coordinates import EdgePartition, IncarnationRange, Position
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import (
    CorruptRecord,
    DamagedRecords,
    UnsupportedVersion,
    check_version,
    is_flow,
    unreadable,
)
from aggregator.state.control import EpochNumber
from aggregator.state.gap import Gap

VERSION = 1


class LedgerRecord(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="v", tag=VERSION):
    """One flow's committed position and cumulative counters; a light object, because an epoch may open with 200,000.

    Always consumed = delivered + dead + suppressed, because the counters commit with the records.
    `stripped` counts field values that an operator removed or changed. `cycles` counts the suppressed records that
    came back through an edge. `forged` counts records that falsely claimed so. `gap` is set if the edge no longer has
    the position and nobody has decided yet. `leader_epoch` is that of the last record that was read; with it the edge
    can tell whether its log was cut since. `unread` lists the parts of the log that were never read here.
    `first_partitions` is the number of partitions that the topic had when its first record was planned. These begin
    where the rule's `start` says, and later partitions begin at their first offset. Records of earlier versions lack
    this number. `schemas` says what the schema ids meant under which the flow has delivered. `copied` is the offset
    below which MirrorMaker 2 had copied everything when the flow began. Those offsets are among the ones never read
    here. `sealed` maps `<key>/<version>` to an upper bound of the values sealed in AES-GCM envelopes under it.
    `resolved` counts the dead letters that a backfill has resolved; a live flow resolves none.
    """

    incarnation: int
    topic_id: str
    next_offset: int
    epoch: EpochNumber
    slot: int
    # Factories, because a plain default would not be written, and a counter of 0 has to be in the record.
    delivered: int = field(default_factory=int)
    dead: int = field(default_factory=int)
    suppressed: int = field(default_factory=int)
    stripped: int = field(default_factory=int)
    gap: Gap | None = None
    leader_epoch: int | None = None
    unread: tuple[IncarnationRange, ...] = ()
    first_partitions: int | None = None
    cycles: int = 0
    forged: int = 0
    schemas: tuple[tuple[str, str], ...] = ()
    sealed: tuple[tuple[str, int], ...] = ()
    copied: int = 0
    resolved: int | None = None

    @property
    def position(self) -> Position:
        """The position from which the flow continues."""
        return Position(self.incarnation, self.next_offset)

    def encode(self) -> bytes:
        """JSON that begins with a CRC-32 over the rest of its text: against accident, not against malice."""
        body = _ENCODER.encode(self)
        return b'{"crc":%d,' % zlib.crc32(body) + body[1:]


_ENCODER = Encoder(order="sorted")
_DECODER = Decoder(LedgerRecord)
_BRACE = zlib.crc32(b"{")


def decode(record: LogRecord, topic: str) -> LedgerRecord:
    """Decode one ledger record.

    Raises:
        FatalError: not JSON, a later version, or a CRC that does not match; names partition, offset and flow.
    """
    text = record.value or b""
    head, _, rest = text.partition(b",")
    # The CRC covers the text as read: encoding the record again would cost as much as decoding it.
    if head == b'{"crc":%d' % zlib.crc32(rest, _BRACE):
        try:
            found = _DECODER.decode(text)
            if found.gap is None or found.gap.is_whole:
                return found
        except (ValueError, RecursionError):
            pass  # the error below names the record and its place, which helps more
        try:
            check_version(text, VERSION)
        except UnsupportedVersion as later:
            raise _damaged(record, topic, later) from None
    raise _damaged(record, topic)


def _damaged(record: LogRecord, topic: str, error: CorruptRecord | None = None) -> FatalError:
    mend = "compare edge and central for this flow, then write a corrected record; nothing was read past it"
    what, hint = unreadable(error or CorruptRecord(), mend)
    return FatalError(
        f"{topic} partition {record.partition} offset {record.offset}: the ledger record of {record.key} is {what}",
        hint=hint,
    )


def _foreign(record: LogRecord, topic: str) -> FatalError:
    return FatalError(
        f"{topic} partition {record.partition} offset {record.offset}: the ledger record of {record.key} is of no flow",
        hint="nobody but the hub writes this topic; find out who did, then write a tombstone of this key there",
    )


def flow_key(source: EdgePartition, backfill: str = "") -> str:
    """Key of a flow's record; each backfill has flows of its own in the ledger of all backfills."""
    return f"{source}/{backfill}" if backfill else str(source)


def backfill_of(key: str) -> str:
    """The backfill that a key names; empty for a live flow's."""
    _, _, tail = key.partition("/")
    return tail.partition("/")[2].partition("/")[2]


def winners(records: Iterable[LogRecord], topic: str, *, backfill: str = "") -> dict[EdgePartition, LedgerRecord]:
    """For each flow the record of the highest epoch, last in log order.

    Args:
        records: In log order within each partition.
        topic: Name of the topic, for the sentence about a damaged record.
        backfill: Whose flows, in the ledger of all backfills; those of others are passed over.

    Raises:
        FatalError: a record is damaged or of no flow, and nothing that came later takes its place.
    """
    damaged = DamagedRecords()
    best = readable_winners(records, topic, damaged, backfill=backfill)
    damaged.require_none()
    return best


def readable_winners(
    records: Iterable[LogRecord], topic: str, damaged: DamagedRecords, *, backfill: str = ""
) -> dict[EdgePartition, LedgerRecord]:
    """The winners among the records that can be read.

    Args:
        records: In log order within each partition.
        topic: Name of the topic.
        damaged: Takes the errors of those that cannot be read, and loses those that are mended.
        backfill: As in `winners`.
    """
    tail = f"/{backfill}" if backfill else ""
    best: dict[EdgePartition, LedgerRecord] = {}
    for record in records:
        at = record.partition, record.key
        if not record.key.endswith(tail):
            continue
        if record.value is None:
            if not is_flow(record.key.removesuffix(tail)):
                damaged.mend(at)
            continue
        try:
            flow = EdgePartition.parse(record.key.removesuffix(tail))
        except ValueError:
            damaged.add(at, _foreign(record, topic))
            continue
        try:
            entry = decode(record, topic)
        except FatalError as error:
            damaged.add(at, error)
            continue
        damaged.mend(at)
        known = best.get(flow)
        if known is None or entry.epoch >= known.epoch:
            best[flow] = entry
    return best


class Positions:
    """Tells where live flows and those of each backfill stand.

    Records are decoded of those backfills alone that are asked for.

    Args:
        live: The winning record of each live flow.
        backfills: The ledger of all backfills, in log order within each partition.
        topic: The name of that ledger, for the sentence about a damaged record.
    """

    def __init__(self, live: Mapping[EdgePartition, LedgerRecord], backfills: Iterable[LogRecord], topic: str) -> None:
        self.live = live
        self._topic = topic
        self._records: dict[str, list[LogRecord]] = {}
        for record in backfills:
            self._records.setdefault(backfill_of(record.key), []).append(record)
        self._known: dict[str, Mapping[EdgePartition, LedgerRecord]] = {"": live}

    def of(self, source: EdgePartition, backfill: str) -> LedgerRecord | None:
        """The winning record of a live flow, if no backfill is named, or of a backfill's flow; None: there is none.

        Raises:
            FatalError: a damaged record of this backfill.
        """
        if backfill not in self._known:
            if backfill not in self._records:
                return None
            self._known[backfill] = winners(self._records[backfill], self._topic, backfill=backfill)
        return self._known[backfill].get(source)


class Totals(NamedTuple):
    """Holds the sums of several flows' counters."""

    delivered: int
    dead: int
    suppressed: int
    stripped: int


def totals(ledger: Mapping[EdgePartition, LedgerRecord], edge: str) -> Totals:
    """The totals of an edge's records since the hub's first start."""
    entries = [entry for source, entry in ledger.items() if source.edge == edge]
    return Totals(*(sum(getattr(entry, name) for entry in entries) for name in Totals._fields))
