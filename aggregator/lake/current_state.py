"""Maintains the current state of a table: the latest row for each key of its edge partition, without deleted keys.

Invariant: `<table>__current` is derived from one version of the table, and its commit carries that version's positions.
A refresh reads the rows that the table got since the last one, and rewrites the files that hold an older row of their
keys. It reads the whole table where that might be wrong: at a process's first refresh, after rows were changed or
removed, and where a row is not newer than all rows of its edge partition before it, because its key may have been
deleted since. Memory holds the keys of the rows that are read, and one batch of rows. Rows without a key or an origin
have no current state.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from aggregator.config.lake_model import CURRENT, LakeConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import AggregatorError, HoldError, RetryError, kind_and_place
from aggregator.lake.columns.columns import FIXED_COLUMNS, conform_to_schema, merge_schemas
from aggregator.lake.cycle.report import CycleReport
from aggregator.lake.latest_rows import RECORD_KEY, Latest, Marks, latest, superseded
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import StagingLease
from aggregator.lake.tables.port import LiveFile, TableHandle, TablePoint, Tables
from aggregator.lake.tables.storage_errors import storage_errors

log = logging.getLogger(__name__)
_FILE_BYTES = 32 * 1024 * 1024  # a file is rewritten for a single row of it
_SHARE = 10  # a refresh takes at most a tenth of the time


class _Reflected(NamedTuple):
    """What the last refresh of this process left.

    Attributes:
        source: What it read of the table.
        target: The version of the current state that it made.
        marks: Newest row of each edge partition that it has read.
    """

    source: TablePoint
    target: TablePoint
    marks: Marks


class _Change(NamedTuple):
    """Files of the current state that a refresh replaces, those that stand in their place, and the marks after it."""

    replaced: list[LiveFile]
    staged: tuple[StagedFile, ...]
    marks: Marks


@dataclass
class CurrentState:
    """Keeps one table's current state up to date.

    Args:
        tables: The format.
        folder: The lake's.
        name: The table whose state it is.
        key: Columns of the value that are its key; none: the record's key is.
    """

    tables: Tables
    folder: Folder
    name: str
    key: tuple[str, ...] = ()
    _rested_at: float = field(default=0.0)
    _reflected: _Reflected | None = field(default=None)

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
            HoldError: one of the two tables was altered by hand, or has no such key.
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
        known, self._reflected = self._reflected, None
        seen, made = source.point, target.point.table
        try:
            change = self._change(source, target, lease, known)
            version = target.commit(change.staged, moved, replaced=change.replaced)
        finally:
            lease.end()
        self._reflected = _Reflected(seen, TablePoint(made, version), change.marks)
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

    def _change(
        self, source: TableHandle, target: TableHandle, lease: StagingLease, known: _Reflected | None
    ) -> _Change:
        """The change that brings the state to the source's version, by its new rows or by all of them."""
        schema, live, key = target.schema(), target.live_files(), self._key_of(source.schema())
        stage = StagingWriter(
            self.folder / self.table,
            schema,
            partition_columns=target.partition_columns(),
            file_bytes=_FILE_BYTES,
            lease=lease,
        )
        hint = "was the table vacuumed meanwhile, or is the disk full? the next cycle tries again"
        try:
            with storage_errors(f"table {self.table}: its files or those of {self.folder / self.name}", hint=hint):
                found = self._new_rows(source, target, known, key)
                if found is None or known is None:
                    found, replaced = latest(self.folder / self.name, source.live_files(), key), live
                    marks = found.marks({})
                else:
                    marks = found.marks(known.marks)
                    replaced = []
                    for file, kept in superseded(self.folder / self.table, live, found):
                        replaced.append(file)
                        for rows in kept:
                            stage.add(conform_to_schema(rows, schema))
                for rows in found.rows():
                    stage.add(conform_to_schema(rows, schema))
                return _Change(replaced, stage.close(), marks)
        except BaseException:
            stage.abandon()
            raise

    def _key_of(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the key as a table has them."""
        for name in self.key:
            at, own = schema.get_field_index(name), name in FIXED_COLUMNS.names and name not in RECORD_KEY.names
            if own or at < 0 or pa.types.is_nested(schema.field(at).type):
                why = "is no field of its records" if own else "is not there" if at < 0 else "has parts"
                raise HoldError(
                    f"table {self.name}: column {name} of its `key` {why}",
                    hint="name columns that are one value, as the table spells them; the policy may drop the field",
                )
        return pa.schema([schema.field(name) for name in self.key]) if self.key else RECORD_KEY

    def _new_rows(
        self, source: TableHandle, target: TableHandle, known: _Reflected | None, key: pa.Schema
    ) -> Latest | None:
        """The source's rows since the last refresh; None where the state does not follow from these and itself."""
        if known is None or target.appended_since(known.target) != []:
            return None
        files = source.appended_since(known.source)
        if files is None:
            return None
        found = latest(self.folder / self.name, files, key)
        return None if found.is_late(known.marks) else found


class CurrentStates:
    """The current states of all tables that are configured to have one.

    Args:
        lake: The configuration.
        tables: The format.
    """

    def __init__(self, lake: LakeConfig, tables: Tables) -> None:
        self._states = {
            name: CurrentState(tables, tables.folder, name, table.key)
            for name, table in lake.tables.items()
            if table.current_state
        }

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
            except AggregatorError:  # such an error ends the lake
                raise
            except Exception as error:  # noqa: BLE001 - rows or metadata of other writers raise anything; the table goes on
                log.warning("the current state of table %s waits: %s", table.table, kind_and_place(error))
