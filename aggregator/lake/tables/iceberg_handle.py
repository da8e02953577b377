"""Reads and commits one version of an Iceberg table. Its positions are table properties, set in the transaction that
adds the files.

Invariant (protocol, rule G): every commit of the hub makes a snapshot, even if it only moves positions or adds columns.
The format's own requirement "the branch is where I saw it" therefore guards all of them. A commit is tried once, from
the handle whose positions were read; positions only grow. A commit that was applied and still refused is recognised by
its mark. A table whose positions and snapshots were separated by hand is refused: a rolled-back table would lose rows,
and a table without positions would get rows twice.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update.snapshot import ExpireSnapshots

from aggregator.coordinates import CentralPartition
from aggregator.errors import HoldError, RetryError
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from aggregator.lake.columns.partitioning import text
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import mark_sent
from aggregator.lake.tables.iceberg_errors import iceberg_errors
from aggregator.lake.tables.iceberg_snapshots import (
    REWRITES,
    SNAPSHOTS,
    STAY,
    added_files,
    appends,
    named_paths,
    replaced_before,
    rewrites,
    sequence_number,
    summary,
    surplus,
)
from aggregator.lake.tables.plain_files import check_plain
from aggregator.lake.tables.port import CommitConflict, Description, LiveFile, TablePoint, check_files, check_growth
from aggregator.machine_clock import utc_now_ms

RETRIES = "commit.retry.num-retries"


@dataclass(frozen=True)
class IcebergHandle:
    """One version of an Iceberg table; used up by the first commit.

    Args:
        owner: `<hub>/<table>`, the first part of every position's property.
        folder: The table's folder.
        table: pyiceberg's handle, which is never refreshed.
    """

    owner: str
    folder: Folder
    table: Table

    @property
    def version(self) -> int:
        """The version that this handle sees: Iceberg's sequence number."""
        return self.table.metadata.next_sequence_number() - 1

    def check(self) -> None:
        """Refuse a table that was altered by hand.

        Raises:
            HoldError: retries are on, the number of snapshots to keep is none, or the snapshot is not the one that
                the positions belong to.
        """
        where = f"table {self.table.location()}"
        if self.table.properties.get(RETRIES) != "0":
            raise HoldError(f"{where}: its property {RETRIES} is not 0", hint="set it back: rows could be doubled")
        stay = self.table.properties.get(STAY, str(SNAPSHOTS))
        if not stay.isdecimal():
            raise HoldError(f"{where}: its property {STAY} is {stay!r}", hint="set it to a number of snapshots")
        known, seen = self.table.properties.get(self._mark), self._marked()
        if seen is not None and known is None:
            raise HoldError(
                f"{where}: the hub's positions were removed from its properties",
                hint="set them back from an older metadata file; without them every record would come again",
            )
        if seen is not None and seen != known:
            raise HoldError(
                f"{where}: it was rolled back behind the hub's last commit, and rows of that are missing",
                hint="roll it forward again, or drop it and let the hub build it anew from central",
            )

    def schema(self) -> pa.Schema:
        """The table's columns, in the Arrow types that records are staged in."""
        arrow = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        return pa.schema([pa.field(one.name, _staged_type(one.type)) for one in arrow])

    def positions(self, partitions: Iterable[CentralPartition]) -> dict[CentralPartition, int]:
        """Next offsets; a partition that was never committed is left out."""
        found = {one: self.table.properties.get(self._property(one)) for one in partitions}
        return {one: int(offset) for one, offset in found.items() if offset is not None}

    def partition_columns(self) -> tuple[str, ...]:
        """Columns that the table is divided by; another tool's transforms keep the name of theirs."""
        return tuple(field.name for field in self.table.spec().fields)

    def live_files(self) -> list[LiveFile]:
        """List the live data files of this version.

        Raises:
            HoldError: a reader of the files alone would see other rows, or other columns, than one of the table.
        """
        with iceberg_errors(self.table.location()):
            tasks = list(self.table.scan().plan_files())
            check_plain(self.table, tasks)
        return [self._live_file(task.file) for task in tasks]

    @property
    def point(self) -> TablePoint:
        """The table's UUID, and the sequence number of its current snapshot."""
        return TablePoint(str(self.table.metadata.table_uuid), sequence_number(self.table.current_snapshot()))

    def appended_since(self, point: TablePoint) -> list[LiveFile] | None:
        """Read what the port says from the snapshots; the hub marks those of its own that change no rows.

        The earlier version has to be one of those that the present one follows: a rollback, or a branch that became
        the main one, follows others.
        """
        found: list[LiveFile] = []
        if point.table != self.point.table:
            return None
        with iceberg_errors(self.table.location()):
            for snapshot in ancestors_of(self.table.current_snapshot(), self.table.metadata):
                if sequence_number(snapshot) == point.version:
                    return found
                if rewrites(snapshot):
                    continue
                added = added_files(snapshot, self.table) if appends(snapshot) else None
                if added is None:
                    return None
                found += map(self._live_file, added)
        return None

    def live_paths(self) -> list[str]:
        """Paths of its live files, relative to the table's folder."""
        with iceberg_errors(self.table.location()):
            return [self._relative(task.file.file_path) for task in self.table.scan().plan_files()]

    def referenced_paths(self) -> set[str]:
        """Paths of every file that a kept snapshot names, data and metadata."""
        with iceberg_errors(self.table.location()):
            return {self._relative(path) for path in named_paths(self.table)}

    def rows(self) -> int:
        """Count the records, by the snapshot's summary."""
        head = self.table.current_snapshot()
        return 0 if head is None else int(summary(head).get("total-records", 0))

    def out_of_range(self) -> int:
        """Count the records with a number that their column cannot hold, by the files' statistics."""
        columns = {one.name: one.field_id for one in self.table.schema().fields}
        if OUT_OF_RANGE_COLUMN not in columns:
            return 0
        with iceberg_errors(self.table.location()):
            files = [task.file for task in self.table.scan().plan_files()]
        nulls = [(one.record_count, (one.null_value_counts or {}).get(columns[OUT_OF_RANGE_COLUMN])) for one in files]
        return sum(rows - null for rows, null in nulls if null is not None)

    def committed_ms(self) -> int:
        """The commit time of this version, in milliseconds since 1970, by the writer's clock."""
        head = self.table.current_snapshot()
        return self.table.metadata.last_updated_ms if head is None else head.timestamp_ms

    def widen(self, schema: pa.Schema) -> None:
        """Add columns and promote types, in place and nested ones too. The handle is used up.

        Raises:
            CommitConflict: another writer was first.
            HoldError: Iceberg cannot merge the types.
        """
        with iceberg_errors(self.table.location()):
            transaction = self.table.transaction()
            with transaction.update_schema() as update:
                update.union_by_name(schema)
            transaction.add_files([])
            transaction.commit_transaction()

    def commit(
        self,
        files: Iterable[StagedFile],
        positions: Mapping[CentralPartition, int],
        replaced: Iterable[LiveFile] = (),
        note: Mapping[str, str] = {},
    ) -> int:
        """Commit as the port says: one snapshot with properties in the same transaction."""
        check_growth(self.owner, self.positions(positions), positions)
        files = check_files(self.owner, self.partition_columns(), files)
        paths = [f"{self.table.location()}/{file.path}" for file in files]
        gone = {f"{self.table.location()}/{file.path}" for file in replaced}
        mark = uuid.uuid4().hex
        moves = {self._mark: mark} | {self._property(one): str(offset) for one, offset in positions.items()}
        marked = {self._mark: mark, **note, **({} if positions else {REWRITES: "true"})}
        with iceberg_errors(self.table.location()):
            try:
                transaction = self._changed(paths, gone, moves, marked)
            except OverflowError:  # a date beyond Python's years: such a column keeps counts and no bounds
                transaction = self._changed(paths, gone, moves | _without_bounds(self.table.io, paths), marked)
        mark_sent(self.folder, [file.path for file in files])
        try:
            with iceberg_errors(self.table.location(), sent=True):
                transaction.commit_transaction()
        except RetryError:
            version = self._version_of(mark)
            if version is None:
                raise
            return version
        return self.version

    def describe(self, description: Description) -> bool:
        """Write columns' docs and properties, in one snapshot that adds no rows."""
        present = {one.name: one.doc or "" for one in self.table.schema().fields}
        comments, properties = description.new_comments(present), description.new_properties(self.table.properties)
        if comments or properties:
            with iceberg_errors(self.table.location()):
                transaction = self.table.transaction()
                with transaction.update_schema() as update:
                    for name, text in comments.items():
                        update.update_column(name, doc=text)
                transaction.set_properties(properties)
                transaction.add_files([])
                transaction.commit_transaction()
        return bool(comments or properties)

    def vacuum(self, keep: timedelta, *, now_s: float) -> int:
        """Expire snapshots and remove the files that only they named; properties, and so positions, stay.

        Raises:
            CommitConflict: another writer was first.
        """
        with iceberg_errors(self.table.location()):
            before = named_paths(self.table)
            forgotten = replaced_before(self.table.metadata, int((now_s - keep.total_seconds()) * 1000))
            self.table.maintenance.expire_snapshots().by_ids(forgotten).commit()
            gone = before - named_paths(self.table)
            for path in gone:
                self.folder.remove(self._relative(path))
        return len(gone)

    def _changed(
        self, added: list[str], gone: set[str], properties: Mapping[str, str], said: Mapping[str, str]
    ) -> Transaction:
        transaction = self.table.transaction()
        transaction.set_properties(dict(properties))
        forgotten = surplus(self.table.metadata, now_ms=utc_now_ms())
        if forgotten:
            with ExpireSnapshots(transaction) as expiry:
                expiry.by_ids(forgotten)
        if not gone:
            transaction.add_files(added, snapshot_properties=dict(said), check_duplicate_files=False)
            return transaction
        old = [task.file for task in self.table.scan().plan_files() if task.file.file_path in gone]
        if len(old) < len(gone):
            raise CommitConflict(f"table {self.table.location()}: another writer removed files that were rewritten")
        new = [parquet_file_to_data_file(self.table.io, transaction.table_metadata, path) for path in added]
        with transaction.update_snapshot(snapshot_properties=dict(said)).overwrite() as change:
            for file in old:
                change.delete_data_file(file)
            for file in new:
                change.append_data_file(file)
        return transaction

    def _version_of(self, mark: str) -> int | None:
        """The version that a commit made, by its mark, whatever the catalogue answered; None where there is none.

        Raises:
            RetryError: the catalogue does not answer.
        """
        with iceberg_errors(self.table.location()):
            snapshots = self.table.catalog.load_table(self.table.name()).metadata.snapshots
        found = [one.sequence_number for one in snapshots if summary(one).get(self._mark) == mark]
        return found[0] if found else None

    @property
    def _mark(self) -> str:
        """Name of what ties the positions to their snapshot: the same value in both."""
        return f"{self.owner}/commit"

    def _property(self, partition: CentralPartition) -> str:
        return f"{self.owner}/{partition}"

    def _marked(self) -> str | None:
        """The mark of the hub's newest commit below the current snapshot; None where that is expired."""
        lineage = ancestors_of(self.table.current_snapshot(), self.table.metadata)
        return next((summary[self._mark] for summary in map(summary, lineage) if self._mark in summary), None)

    def _live_file(self, file: DataFile) -> LiveFile:
        times = next((one.field_id for one in self.table.schema().fields if one.name == "_timestamp"), None)
        return LiveFile(
            self._relative(file.file_path),
            file.file_size_in_bytes,
            file.record_count,
            tuple((name, text(file.partition[at])) for at, name in enumerate(self.partition_columns())),
            _microseconds((file.lower_bounds or {}).get(times)) if times is not None else None,
        )

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self.table.location()}/")


def _microseconds(bound: bytes | None) -> int | None:
    """A timestamp's bound, by Iceberg's single-value serialization: microseconds in eight bytes, little-endian."""
    return None if bound is None else int.from_bytes(bound, "little", signed=True)


def _without_bounds(io: FileIO, paths: Iterable[str]) -> dict[str, str]:
    """Metrics settings for the columns whose bounds Python cannot hold."""
    found: dict[str, str] = {}
    for path in paths:
        with io.new_input(path).open() as stream:
            footer = pq.read_metadata(stream)
        chunks = [
            footer.row_group(group).column(at)
            for group in range(footer.num_row_groups)
            for at in range(footer.num_columns)
        ]
        found |= {
            f"write.metadata.metrics.column.{one.path_in_schema}": "counts"
            for one in chunks
            if not _has_bounds(one.statistics)
        }
    return found


def _has_bounds(statistics: pq.Statistics | None) -> bool:
    try:
        return statistics is None or (statistics.min, statistics.max) is not None
    except (OverflowError, ValueError):
        return False


def _staged_type(kind: pa.DataType) -> pa.DataType:
    """Iceberg's Arrow types without their large offsets."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _staged_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_staged_type(kind.key_type), _staged_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_staged_type(kind.value_type))
    return kind
