"""Tells whether a lake table has what its edges had before a time, for schedulers of jobs that read the table.

Invariant: this module only reads. The edges are asked first how far the hub must have read; that target stays fixed.
When the ledger has passed it, all of these records are at central. Central's ends are asked for then. When the table
has passed those ends, it has the records. Offsets that only hold markers are not waited for, because a table's position
may stand before them for long.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from aggregator.audit.missing_flows import wanted_topics
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds, read_committed
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.tables.formats import open_tables
from aggregator.state.edge_status import read_edge_statuses
from aggregator.state.lake_holds import LakeHold
from aggregator.state.ledger import LedgerRecord
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames


class TargetPosition(NamedTuple):
    """How far an edge partition must have been read: the topic's id, and the next offset."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class PendingPartition:
    """A partition that the table still waits for.

    Attributes:
        place: `eu/orders/0`, or `central eu.orders-0`.
        next_offset: Position of the hub, or of the table.
        wanted: Position that it must reach.
        why: Reason why it stays there, if that is known; else empty.
    """

    place: str
    next_offset: int
    wanted: int
    why: str = ""

    def __str__(self) -> str:
        return f"{self.place} stands at {self.next_offset} of {self.wanted}{self.why and f' ({self.why})'}"


class Arrived(NamedTuple):
    """The table has the records. `version` is the table's version, or None if nothing was ever written to the table."""

    version: int | None


def poll_arrival(config: HubConfig, table: str, before: datetime) -> Iterator[list[PendingPartition] | Arrived]:
    """Look again and again, without a pause: what is lacking, and at last that nothing is.

    Args:
        config: The hub.
        table: Its name.
        before: Records of earlier timestamps count, as far as the edges have them at the first look.

    Raises:
        FatalError: no topic feeds such a table.
        RetryError: a cluster or the table's storage does not answer.
    """
    names = HubNames(config.hub)
    wanted, feeds = _wanted(config, table, before)
    while lacking := not_read(wanted, read_ledger(config.central, names)):
        yield lacking
    bounds = offset_bounds(config.central, central_partitions(config.central, feeds))
    while True:
        handle = open_tables(config).open(table)
        positions = handle.positions(bounds) if handle else {}
        behind = {
            one: OffsetRange(max(first, positions.get(one, first)), end)
            for one, (first, end) in bounds.items()
            if positions.get(one, first) < end
        }
        if not (behind and _has_records(config, behind)):
            break
        held = [one for one in read_edge_statuses(config.central, names).lake if one.table == table]
        yield [_lacking(one, offsets, held) for one, offsets in sorted(behind.items())]
    yield Arrived(handle.version if handle else None)


def not_read(
    wanted: Mapping[EdgePartition, TargetPosition], ledger: Mapping[EdgePartition, LedgerRecord]
) -> list[PendingPartition]:
    """The edge partitions that the hub has not yet read up to their target positions.

    Args:
        wanted: Target position of each edge partition.
        ledger: The ledger record of each flow.
    """
    found = []
    for source, (topic_id, offset) in sorted(wanted.items()):
        entry = ledger.get(source)
        reached = entry.next_offset if entry is not None and entry.topic_id == topic_id else 0
        if reached < offset:
            gap = entry.gap if entry is not None else None
            why = f"{gap.kind} at {gap.start}: it waits for a decision" if gap is not None else ""
            found.append(PendingPartition(str(source), reached, offset, why))
    return found


def _wanted(
    config: HubConfig, table: str, before: datetime
) -> tuple[dict[EdgePartition, TargetPosition], frozenset[str]]:
    """The target position of each edge partition that feeds the table, and the table's central topics."""
    wanted: dict[EdgePartition, TargetPosition] = {}
    feeds, tables = frozenset[str](), set[str]()
    for edge, cluster in config.edges.items():
        sources = {name: lake_sources(config, [EdgePartition(edge, name, 0)]) for name in wanted_topics(config, edge)}
        tables.update(*sources.values())
        feeds = feeds.union(*(found.get(table, ()) for found in sources.values()))
        shown = topics.described(cluster, [name for name, found in sources.items() if table in found])
        places = [(name, number) for name, one in shown.items() for number in range(one.partitions)]
        logs, offsets = ends.log_offsets(cluster, places), ends.offsets_at(cluster, places, before)
        wanted |= {
            EdgePartition(edge, *at): TargetPosition(shown[at[0]].topic_id, offsets[at])
            for at in places
            if offsets[at] > logs[at].start
        }
    if not feeds:
        raise FatalError(
            f"no topic of an edge feeds a table {table}",
            hint=f"tables that some feed: {', '.join(sorted(tables)[:20]) or 'none; see `lake:` of the topic rules'}",
        )
    return wanted, feeds


def _has_records(config: HubConfig, behind: Mapping[CentralPartition, OffsetRange]) -> bool:
    """Whether a committed record lies in one of the ranges."""
    ranges = {(one.topic, one.partition): offsets for one, offsets in behind.items()}
    return any(True for _ in read_committed(config.central, ranges, max_bytes=1))


def _lacking(one: CentralPartition, offsets: OffsetRange, held: list[LakeHold]) -> PendingPartition:
    at = (one.topic, one.partition, offsets.start)
    why = next((it.reason for it in held if not it.topic or (it.topic, it.partition, it.next_offset) == at), "")
    return PendingPartition(one.place, *offsets, why.partition("\n")[0])
