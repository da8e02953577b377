"""Maintains the current state of a table: the latest row for each key of its edge partition, without deleted keys.

Invariant: `<table>__current` is derived from one version of the table, and its commit carries that version's positions.
Each refresh reads the whole table, because a backfilled row may be older than a tombstone that came before it. Memory
holds the keys and one batch of rows. Rows without a key or an origin have no current state.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from aggregator.config.lake_model import CURRENT, LakeConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import HoldError, RetryError
from aggregator.lake.columns.columns import conform_to_schema, merge_schemas
from aggregator.lake.cycle.report import CycleReport
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder, without_views
from aggregator.lake.storage.staging import StagingLease
from aggregator.lake.tables.live_rows import live_rows, with_partition_columns
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables
from aggregator.lake.tables.storage_errors import storage_errors

_KEY = ["_edge", "_topic", "_partition", "_key"]
_ORDER = ["_incarnation", "_offset"]
log = logging.getLogger(__name__)
_SHARE = 10  # a refresh takes at most a tenth of the time


@dataclass
class CurrentState:
    """Keeps one table's current state up to date.

    Args:
        tables: The format.
        folder: The lake's.
        name: The table whose state it is.
    """

    tables: Tables
    folder: Folder
    name: str
    _rested_at: float = field(default=0.0)

    @property
    def table(self) -> str:
        """The name of the table that holds the current state."""
        return f"{self.name}{CURRENT}"

    def refresh(self, partitions: Iterable[CentralPartition], *, force: bool = False) -> int | None:
        """Bring the current state to the table's newest version, unless the last refresh was costly and not long ago.

        Args:
            partitions: Partitions of the central topics that feed the table.
            force: Whether to refresh now, whatever it costs.

        Returns:
            The new version; None if there was nothing to do.

        Raises:
            CommitConflict: another driver was first.
            RetryError: the storage does not answer, or a file was vacuumed meanwhile.
            HoldError: one of the two tables was altered by hand.
        """
        began = time.monotonic()
        source = self.tables.open(self.name)
        if source is None or (began < self._rested_at and not force):
            return None
        target = self._opened(source.schema())
        wanted, have = source.positions(partitions), target.positions(partitions)
        moved = {one: offset for one, offset in wanted.items() if offset > have.get(one, -1)}
        if not moved or any(offset < have.get(one, -1) for one, offset in wanted.items()):
            return None  # up to date, or another driver has seen a newer version
        lease = StagingLease(self.folder / self.table)
        try:
            version = target.commit(self._staged(source, target, lease), moved, replaced=target.live_files())
        finally:
            lease.end()
        ended = time.monotonic()
        self._rested_at = ended + (ended - began) * (_SHARE - 1)
        return version

    def _opened(self, schema: pa.Schema) -> TableHandle:
        """The state's table with at least the source's columns."""
        while True:
            target = self.tables.open(self.table)
            if target is None:
                self.tables.create(self.table, schema)
                continue
            wider = merge_schemas(target.schema(), schema, self.tables.promotes)
            if wider == target.schema():
                return target
            target.widen(wider)

    def _staged(self, source: TableHandle, target: TableHandle, lease: StagingLease) -> tuple[StagedFile, ...]:
        schema, folder = target.schema(), self.folder / self.name
        stage = StagingWriter(
            self.folder / self.table, schema, partition_columns=target.partition_columns(), lease=lease
        )
        hint = "was the table vacuumed meanwhile, or is the disk full? the next cycle tries again"
        try:
            with storage_errors(f"table {self.table}: its files or those of {folder}", hint=hint):
                for rows in latest_rows(folder, source.live_files()):
                    stage.add(conform_to_schema(rows, schema))
                return stage.close()
        except BaseException:
            stage.abandon()
            raise


class CurrentStates:
    """The current states of all tables that are configured to have one.

    Args:
        lake: The configuration.
        tables: The format.
    """

    def __init__(self, lake: LakeConfig, tables: Tables) -> None:
        named = (name for name, table in lake.tables.items() if table.current_state)
        self._states = {name: CurrentState(tables, tables.folder, name) for name in named}

    def refresh(self, report: CycleReport, *, force: bool = False) -> None:
        """Refresh those of the tables that a cycle brought up to date; trouble is logged and tried again.

        Args:
            report: The cycle's.
            force: Now, whatever it costs.
        """
        for table in report.tables:
            state = self._states.get(table.table)
            if state is None or table.failed is not None:
                continue
            try:
                with storage_errors(f"table {state.table}: its files"):
                    state.refresh(table.next_offsets, force=force)
            except (HoldError, RetryError) as error:
                log.warning("the current state of table %s waits: %s", table.table, error)


def latest_rows(folder: Folder, live: Iterable[LiveFile]) -> Iterator[pa.Table]:
    """The latest row of every key that was not deleted, row group by row group.

    Args:
        folder: The table's.
        live: Its files.

    Raises:
        OSError: a file cannot be read.
    """
    files = list(live)
    latest: pl.DataFrame | None = None
    for number, file in enumerate(files):
        columns = pl.from_arrow(live_rows(folder, file, [*_KEY, *_ORDER, "_deleted"]))
        assert isinstance(columns, pl.DataFrame)
        rows = columns.with_row_index("row").with_columns(pl.lit(number, pl.UInt32).alias("file"))
        rows = rows.filter(pl.col("_key").is_not_null() & pl.col("_offset").is_not_null())
        both = rows if latest is None else pl.concat([latest, rows])
        latest = both.sort(_ORDER).unique(_KEY, keep="last", maintain_order=False)
    if latest is None:
        return
    kept = latest.filter(~pl.col("_deleted")).sort("file", "row")
    for (number,), rows in kept.group_by(["file"], maintain_order=True):
        yield from _picked(folder, files[int(str(number))], rows["row"])


def _picked(folder: Folder, live: LiveFile, rows: pl.Series) -> Iterator[pa.Table]:
    """Rows of one file by their ascending numbers."""
    with folder.parquet(live.path) as file:
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            wanted = rows.filter((rows >= start) & (rows < end)).cast(pl.Int64) - start
            if len(wanted):
                read = without_views(file.read_row_group(group))
                yield with_partition_columns(read.take(wanted.to_arrow()), live)
            start = end
