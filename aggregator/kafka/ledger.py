"""The ledger: where each flow stands, committed in the same transaction as the records that it moves past.

Invariant (protocol, rules A and D): a slot writes its own partition only; for one flow the record of the highest
epoch, last in log order, wins; a damaged record is refused by name, never skipped.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Position, Segment
from aggregator.errors import Failed
from aggregator.kafka import topics
from aggregator.kafka.gap import Gap
from aggregator.kafka.log import LogRecord, read_to_end
from aggregator.kafka.names import HubNames

VERSION = 1


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One flow's committed position and its cumulative counters.

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

    def encode(self) -> bytes:
        """JSON with a CRC-32 over itself: against accident, not against malice."""
        body = {"v": VERSION} | asdict(self)
        for optional in ("gap", "leader_epoch", "unread"):
            if not body[optional] and body[optional] != 0:
                del body[optional]
        return _dump(body | {"crc": zlib.crc32(_dump(body))})


def _dump(body: dict[str, object]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode(record: LogRecord, topic: str) -> LedgerRecord:
    """Read one ledger record.

    Raises:
        Failed: not JSON, another version, or a CRC that does not match; names partition, offset and flow.
    """
    try:
        body = json.loads(record.value or b"")
        crc, version = body.pop("crc"), body["v"]
        if crc == zlib.crc32(_dump(body)) and version == VERSION:
            del body["v"]
            lost = body.pop("gap", None)
            unread = tuple(Segment(at, OffsetRange(*offsets)) for at, offsets in body.pop("unread", ()))
            return LedgerRecord(**body, gap=Gap.of(lost) if lost else None, unread=unread)
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
        if flow not in best or entry.epoch >= best[flow].epoch:
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
