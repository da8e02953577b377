"""Reads the state of the lake's tables for `aggregator status`, from the tables and from central, without a Spark
session.

Invariant: this module only reads. A table that cannot be read is reported as such, and hides no other table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.lake_model import CURRENT, QUARANTINE
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import AggregatorError
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds
from aggregator.lake.cycle.report import lag_records
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.quality.verdict_log import AuditTotals, read, totals
from aggregator.lake.tables.formats import open_tables
from aggregator.lake.tables.port import Tables
from aggregator.lake.upkeep.compaction import bins
from aggregator.state.edge_status import read_edge_statuses
from aggregator.state.lake_holds import LakeHold
from aggregator.state.lake_upkeep import TableUpkeep
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames


@dataclass(frozen=True, slots=True)
class TableStatus:
    """Describes the state of one table.

    Attributes:
        table: The table's name.
        version: The newest version; None before the first commit.
        rows: The number of records in it.
        next_offsets: Its position in each central partition.
        end_offsets: Last stable offsets of central.
        committed_ms: Time of the last commit, milliseconds since 1970.
        files: The number of its data files.
        small_files: The number of files that a compaction would rewrite.
        size_bytes: The size of all data files.
        problem: Why the table could not be read, else empty.
        verdict: The quality gate's last one; empty without a gate.
        audited_ms: When that verdict was reached, in milliseconds since 1970.
        gate: Sums over the audits of that day (UTC).
        quarantined: Records in `<table>__quarantine`.
        out_of_range: Records with a number that their column cannot hold; see docs/lake.md.
        held: What keeps it from going on, as whoever runs the lake told.
        upkeep: What was done to it beside the commits, as that one told; None where nothing was.
        complete_ms: When a watcher last saw it have all of central, in milliseconds since 1970; None where none did.
        stood_ms: How long the partition that stands longest has had records and not moved; None where nobody watched.
    """

    table: str
    version: int | None = None
    rows: int = 0
    next_offsets: Mapping[CentralPartition, int] = field(default_factory=dict)
    end_offsets: Mapping[CentralPartition, int] = field(default_factory=dict)
    committed_ms: int | None = None
    files: int = 0
    small_files: int = 0
    size_bytes: int = 0
    problem: str = ""
    verdict: str = ""
    audited_ms: int | None = None
    gate: AuditTotals | None = None
    quarantined: int = 0
    out_of_range: int = 0
    held: tuple[LakeHold, ...] = ()
    upkeep: TableUpkeep | None = None
    complete_ms: int | None = None
    stood_ms: int | None = None

    @property
    def lag_records(self) -> int:
        """Offsets that are committed at central and not in the table; an upper bound of records."""
        return lag_records(self.next_offsets, self.end_offsets)

    def freshness_ms(self, now_ms: int) -> int | None:
        """The age of a reader's view, by its oldest partition, at most; None where nobody knows how old it is.

        The age is 0 while the table has all of central. What is missing came after the last commit, and after the last
        moment at which the table had everything. A held partition ages from the start of its hold.
        """
        if self.lag_records == 0:
            return 0
        seen = [one for one in (self.committed_ms, self.complete_ms) if one is not None]
        return max(0, now_ms - min([max(seen), *(one.since_ms for one in self.held)])) if seen else None

    @property
    def hold_reason(self) -> str:
        """The reason why the table cannot go on, in one line; empty if it can."""
        if self.problem or not self.held:
            return self.problem.partition("\n")[0]
        first, more = self.held[0], len(self.held) - 1
        where = f"{first.topic}-{first.partition} stands at {first.next_offset}: " if first.topic else ""
        also = f" (and {more} more)" if more else ""
        return f"{where}{first.reason.partition(chr(10))[0]}{also}"


def lake_status(config: HubConfig) -> list[TableStatus]:
    """The status of every table that the hub's flows feed; none for a hub without a lake.

    Raises:
        Unreachable: central does not answer.
    """
    if config.lake is None:
        return []
    names = HubNames(config.hub)
    tables, sources = open_tables(config), lake_sources(config, read_ledger(config.central, names))
    told = read_edge_statuses(config.central, names)
    found = [_status(config, tables, name, topics) for name, topics in sorted(sources.items())]
    return [replace(one, held=_standing(one, told.lake), upkeep=_kept_up(one.table, told.upkeep)) for one in found]


def former_tables(config: HubConfig, fed: Iterable[str]) -> list[str]:
    """Tables that were begun, and that no rule names any more; nobody but a person removes one.

    Args:
        config: Of the hub.
        fed: The tables that its flows feed.

    Raises:
        TableUnavailable: the storage or the catalogue does not answer.
    """
    beside = {f"{name}{suffix}" for name in fed for suffix in ("", QUARANTINE, CURRENT)}
    return sorted(set(open_tables(config).names()) - beside) if config.lake else []


def _standing(table: TableStatus, holds: Iterable[LakeHold]) -> tuple[LakeHold, ...]:
    """The holds of a table that still are so."""
    return tuple(one for one in holds if one.table == table.table and one.stands(table.next_offsets, table.end_offsets))


def _kept_up(table: str, told: Mapping[str, TableUpkeep]) -> TableUpkeep | None:
    """The upkeep of a table, with the problem that stops its upkeep or that of a table beside it."""
    beside = (told.get(f"{table}{suffix}") for suffix in ("", QUARANTINE, CURRENT))
    problems = [one.problem for one in beside if one and one.problem]
    done = told.get(table) or (TableUpkeep() if problems else None)
    return replace(done, problem=problems[0]) if done and problems else done


def _status(config: HubConfig, tables: Tables, name: str, topics: frozenset[str]) -> TableStatus:
    limits = offset_bounds(config.central, central_partitions(config.central, topics))
    firsts = {one: first for one, (first, _) in limits.items()}
    ends = {one: end for one, (_, end) in limits.items()}
    try:
        handle = tables.open(name)
        if handle is None:
            return TableStatus(name, next_offsets=firsts, end_offsets=ends)
        positions = firsts | handle.positions(limits)
        live = handle.live_files()
        apart = tables.open(f"{name}{QUARANTINE}")
        audited = read(tables.folder, name, days=1)
        return TableStatus(
            name,
            handle.version,
            handle.rows(),
            positions,
            ends,
            handle.committed_ms(),
            files=len(live),
            small_files=sum(map(len, bins(live))),
            size_bytes=sum(file.size for file in live),
            verdict=audited[-1].verdict.value if audited else "",
            audited_ms=audited[-1].at_ms if audited else None,
            gate=totals(audited) if audited else None,
            quarantined=apart.rows() if apart else 0,
            out_of_range=handle.out_of_range(),
        )
    except AggregatorError as error:
        return TableStatus(name, next_offsets=firsts, end_offsets=ends, problem=error.message)
