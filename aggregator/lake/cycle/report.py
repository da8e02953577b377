"""Reports what a cycle of the lake did, for each table.

Invariant: everything that could not be brought into the lake is named, as held or as failed. A report without such an
entry means that everything is in the lake.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aggregator.coordinates import CentralPartition
from aggregator.count_text import format_first
from aggregator.errors import RetryError, in_one_line
from aggregator.lake.cycle.ranges import TableHold


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one cycle did for one table.

    Attributes:
        table: Its name.
        rows: Committed records.
        files: Committed files.
        version: The new version, None where nothing was committed.
        next_offsets: The table's position in each central partition after the cycle.
        end_offsets: Last stable offsets when the cycle began.
        held: Reasons why partitions of the table cannot go on.
        failed: Error of a system that did not answer; the next cycle tries again.
        verdict: Verdict of the quality gate; empty if nothing was audited.
        diverted: Records that went into the quarantine.
        audit_s: What the gate took, in seconds.
        commit_s: What the commits took beside it.
    """

    table: str
    rows: int = 0
    files: int = 0
    version: int | None = None
    next_offsets: Mapping[CentralPartition, int] = field(default_factory=dict)
    end_offsets: Mapping[CentralPartition, int] = field(default_factory=dict)
    held: tuple[TableHold, ...] = ()
    failed: RetryError | None = None
    verdict: str = ""
    diverted: int = 0
    audit_s: float = 0.0
    commit_s: float = 0.0

    @property
    def lag_records(self) -> int:
        """Offsets between the table and the ends, an upper bound of records."""
        return lag_records(self.next_offsets, self.end_offsets)

    def place_of(self, hold: TableHold) -> str:
        """`central eu.orders-0 at offset 17`; empty for a hold of the whole table."""
        if hold.partition is None:
            return ""
        at = self.next_offsets.get(hold.partition)
        return hold.partition.place if at is None else f"{hold.partition.place} at offset {at}"

    def short_of(self, until: Mapping[tuple[str, int], int]) -> bool:
        """Whether the table is not yet at these ends, and not because it is held.

        Args:
            until: End offset by central topic and partition.
        """
        if self.failed is not None:
            return True
        held = {one.partition for one in self.held}
        return any(
            offset < until.get((one.topic, one.partition), 0) and one not in held
            for one, offset in self.next_offsets.items()
        )

    def added_to(self, before: "TableReport | None") -> "TableReport":
        """This cycle's report with the sums of the ones before it."""
        if before is None:
            return self
        version = before.version if self.version is None else self.version
        return replace(
            self,
            rows=before.rows + self.rows,
            files=before.files + self.files,
            version=version,
            verdict=self.verdict or before.verdict,
            diverted=before.diverted + self.diverted,
            audit_s=before.audit_s + self.audit_s,
            commit_s=before.commit_s + self.commit_s,
        )


@dataclass(frozen=True, slots=True)
class CycleReport:
    """Reports what one cycle did to each table."""

    tables: tuple[TableReport, ...] = ()

    @property
    def rows(self) -> int:
        """Count the committed records of all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def files(self) -> int:
        """Count the committed files of all tables."""
        return sum(table.files for table in self.tables)

    @property
    def held(self) -> tuple[TableHold, ...]:
        """Everything that cannot go on, over all tables."""
        return tuple(one for table in self.tables for one in table.held)

    @property
    def troubles(self) -> dict[str, str]:
        """The problems that stop tables, in sentences by subject."""
        by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
        for table in self.tables:
            for one in table.held:
                by_reason[table.table, one.reason].append(table.place_of(one))
        found = {
            f"{table} {reason}": f"table {table} is held{_at(places)}: {in_one_line(reason)}"
            for (table, reason), places in by_reason.items()
        }
        failed = {one.table: one.failed for one in self.tables if one.failed}
        waits = {table: f"table {table} waits: {in_one_line(str(error))}" for table, error in failed.items()}
        return found | waits

    @property
    def has_backlog(self) -> bool:
        """Whether another cycle would find work that this one left by its bounds."""
        ends = {(one.topic, one.partition): end for table in self.tables for one, end in table.end_offsets.items()}
        return any(table.rows + table.diverted > 0 and table.short_of(ends) for table in self.tables)


def _at(places: list[str]) -> str:
    return f" at {format_first(places, 1)}" if places[0] else ""


def lag_records(next_offsets: Mapping[CentralPartition, int], end_offsets: Mapping[CentralPartition, int]) -> int:
    """Offsets that are committed at central and not in a table; an upper bound of records.

    Args:
        next_offsets: Positions of the table, by partition.
        end_offsets: Ends at central, by partition.
    """
    return sum(max(0, end - next_offsets.get(one, 0)) for one, end in end_offsets.items())
