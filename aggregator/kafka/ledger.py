"""The ledger: where each flow stands, committed in the same transaction as the records that it moves past.

Invariant (protocol, rules A and D): a slot writes its own partition only; for one flow the record of the highest
epoch, last in log order, wins; a damaged record is refused by name, never skipped.
"""

import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Position, Segment
from aggregator.errors import Failed
from aggregator.kafka import topics
from aggregator.kafka.gap import Gap
from aggregator.kafka.log import LogRecord, read_to_end
from aggregator.kafka.names import HubNames

VERSION = 1
_ALWAYS_THERE = itemgetter(
    "incarnation", "topic_id", "next_offset", "epoch", "slot", "delivered", "dead", "suppressed", "stripped"
)


class LedgerRecord(NamedTuple):
    """One flow's committed position and its cumulative counters; a tuple, because an epoch may open with 200,000.

    Always consumed = delivered + dead + suppressed, because the counters commit with the records.
    `stripped` counts field values that an operator removed or changed. `gap` is why the flow stands still, if the edge
    no longer has its position and nobody has decided yet. `leader_epoch` is that of the last record that was read: with
    it the edge can tell whether its log was cut since.
    """

    incarnation: int
    topic_id: str
    next_offset: int
    epoch: int
    slot: int
    delivered: int = 0
    dead: int = 0
    suppressed: int = 0
    stripped: int = 0
    gap: Gap | None = None
    leader_epoch: int | None = None
    unread: tuple[Segment, ...] = ()

    @property
    def position(self) -> Position:
        """Where the flow goes on."""
        return Position(self.incarnation, self.next_offset)

    def under(self, epoch: int, slot: int) -> "LedgerRecord":
        """The same position in another epoch; three times as fast as `_replace`, for 200,000 of them."""
        return LedgerRecord._make((*self[:3], epoch, slot, *self[5:]))

    def encode(self) -> bytes:
        """JSON that begins with a CRC-32 over the rest of its text: against accident, not against malice."""
        body: dict[str, Any] = {"v": VERSION} | self._asdict() | {"gap": asdict(self.gap) if self.gap else None}
        for optional in ("gap", "leader_epoch", "unread"):
            if not body[optional] and body[optional] != 0:
                del body[optional]
        rest = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()[1:]
        return _checked(rest) + rest


def _checked(rest: bytes) -> bytes:
    """What stands before the rest of a record's text; of the text itself: writing it anew costs as much as reading."""
    return b'{"crc":%d,' % zlib.crc32(b"{" + rest)


def decode(record: LogRecord, topic: str) -> LedgerRecord:
    """Read one ledger record.

    Raises:
        Failed: not JSON, another version, or a CRC that does not match; names partition, offset and flow.
    """
    try:
        text = record.value or b""
        head, _, rest = text.partition(b",")
        body = from_json(text)  # a quarter of the time that the standard library takes
        if head + b"," == _checked(rest) and body["v"] == VERSION:
            incarnation, topic_id, *numbers = _ALWAYS_THERE(body)
            lost, leader_epoch, passed = body.get("gap"), body.get("leader_epoch"), body.get("unread")
            unread = tuple(Segment(at, OffsetRange(*offsets)) for at, offsets in passed) if passed else ()
            gap = Gap.of(lost) if lost else None
            return LedgerRecord._make((incarnation, sys.intern(topic_id), *numbers, gap, leader_epoch, unread))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Failed(
        f"{topic} partition {record.partition} offset {record.offset}: the ledger record of {record.key} is damaged",
        hint="compare edge and central for this flow, then write a corrected record; nothing was read past it",
    )


def flow_key(source: EdgePartition, backfill: str = "") -> str:
    """Key of a flow's record; each backfill has flows of its own in the ledger of all backfills."""
    return f"{source}/{backfill}" if backfill else str(source)


def winners(records: Iterable[LogRecord], topic: str, *, backfill: str = "") -> dict[EdgePartition, LedgerRecord]:
    """For each flow the record of the highest epoch, last in log order.

    Args:
        records: In log order within each partition.
        topic: For the sentence about a damaged one.
        backfill: Whose flows, in the ledger of all backfills; those of others are passed over.

    Raises:
        Failed: a damaged record.
    """
    tail = f"/{backfill}" if backfill else ""
    best: dict[EdgePartition, LedgerRecord] = {}
    for record in records:
        if record.value is None or not record.key.endswith(tail):
            continue
        flow, entry = EdgePartition.parse(record.key.removesuffix(tail)), decode(record, topic)
        known = best.get(flow)
        if known is None or entry.epoch >= known.epoch:
            best[flow] = entry
    return best


class Totals(NamedTuple):
    """Counters of several flows, added up."""

    delivered: int
    dead: int
    suppressed: int
    stripped: int


def totals(ledger: Mapping[EdgePartition, LedgerRecord], edge: str) -> Totals:
    """What became of an edge's records since the hub's first start."""
    entries = [entry for source, entry in ledger.items() if source.edge == edge]
    return Totals(*(sum(getattr(entry, name) for entry in entries) for name in Totals._fields))


def read_ledger(
    cluster: ClusterConfig, names: HubNames, *, partitions: int = 0, backfill: str = ""
) -> dict[EdgePartition, LedgerRecord]:
    """Every flow's winning record, from *every* ledger partition read to its end; empty before the first run.

    Args:
        cluster: Central.
        names: The hub's names.
        partitions: How many are known to exist: stale metadata that shows fewer is an error, not an empty ledger.
        backfill: Whose flows, in the ledger of all backfills.

    Raises:
        Failed: a damaged record, or an end that stays stuck.
        Unreachable: central does not answer.
    """
    return winners(ledger_log(cluster, names, partitions=partitions), names.ledger, backfill=backfill)


def ledger_log(cluster: ClusterConfig, names: HubNames, *, partitions: int = 0) -> list[LogRecord]:
    """Every record of every ledger partition, read to its end; arguments and errors as `read_ledger`."""
    count = max(partitions, topics.partition_count(cluster, names.ledger))
    return read_to_end(cluster, names.ledger, range(count)) if count else []
