"""Reads and writes Delta Lake tables through delta-rs. Positions are `txn` actions in the commit that adds the files.

Invariant (protocol, rule G): a commit is tried once, as the version right after the one that its positions came from.
Two writers that read the same positions therefore cannot both commit; positions only grow. Without this delta-rs would
rebase, accept a smaller position, and let two concurrent creations both succeed. Every commit carries an id of its own,
by which a commit that was applied and still refused is recognised.
"""

import contextlib
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from aggregator.coordinates import CentralPartition
from aggregator.errors import HoldError
from aggregator.lake.columns.columns import merge_schemas
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from aggregator.lake.columns.partitioning import text
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import mark_sent
from aggregator.lake.tables.delta_description import ONCE, describe
from aggregator.lake.tables.delta_errors import delta_errors, unavailable
from aggregator.lake.tables.delta_log import appended, commit_name, named_paths, path_as_written, says
from aggregator.lake.tables.delta_types import narrow
from aggregator.lake.tables.plain_files import check_plain_delta
from aggregator.lake.tables.port import (
    CommitConflict,
    Description,
    LiveFile,
    TablePoint,
    TableUnavailable,
    check_files,
    check_growth,
    check_partitioning,
)
from aggregator.machine_clock import utc_now_ms

_ATTEMPT = "hub.attempt"  # key in a commit's information
# Statistics of every column, not only of the first 32: the hub writes them itself, and counts by them.
_PROPERTIES: dict[str, str | None] = {"delta.dataSkippingNumIndexedCols": "-1"}
_EXPIRY = "delta.setTransactionRetentionDuration"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK_BACK = 10  # versions that every cycle searches for a restored one


@dataclass(frozen=True)
class DeltaTables:
    """Delta tables below one folder.

    Args:
        hub: The hub's name; positions of several hubs in one table stay apart.
        folder: Tables lie at `<folder>/<name>`.
        partition_columns_by_table: By table, the columns that a new one is divided by.
    """

    hub: str
    folder: Folder
    partition_columns_by_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The names of all tables below the folder.

        Raises:
            TableUnavailable: it does not answer.
        """
        with delta_errors(self.folder):
            return [name for name in self.folder.folders() if "_delta_log" in (self.folder / name).folders()]

    def open(self, name: str) -> "DeltaHandle | None":
        """The newest version of a table; None where there is none yet.

        Raises:
            TableUnavailable: its log cannot be read.
            HoldError: the table was altered in a way that would lose or double rows.
        """
        place = self.folder / name
        try:
            handle = DeltaHandle(f"{self.hub}/{name}", place, DeltaTable(place.root, storage_options=place.resolved()))
            handle.check()
            return handle  # noqa: TRY300 - short
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise unavailable(place, error) from None

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the folder cannot be written.
            HoldError: a column to divide by is missing.
        """
        place, partition_columns = self.folder / name, self.partition_columns_by_table.get(name, ())
        check_partitioning(name, partition_columns, schema)
        options = place.resolved()
        try:
            place.make()
            DeltaTable.create(
                place.root,
                Schema.from_arrow(schema),
                mode="error",
                name=name,
                partition_by=list(partition_columns),
                configuration=_PROPERTIES,
                storage_options=options,
                commit_properties=ONCE,
            )
        except (DeltaError, OSError) as error:
            if DeltaTable.is_deltatable(place.root, options):
                raise CommitConflict(f"table {place}: another writer created it first") from None
            raise unavailable(place, error) from None

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """The schema in Delta's types: fixed bytes become bytes."""
        return pa.schema([pa.field(one.name, narrow(one.type)) for one in schema])

    def promotes(self, narrow: pa.DataType, wide: pa.DataType) -> bool:  # noqa: ARG002 - the port's names
        """Never: delta-rs does not write tables with Delta's type widening."""
        return False


@dataclass(frozen=True)
class DeltaHandle:
    """One version of a Delta table; used up by the first commit.

    Args:
        owner: `<hub>/<table>`, the first part of every position's application id.
        folder: The table's folder.
        table: delta-rs's handle, which is never refreshed.
    """

    owner: str
    folder: Folder
    table: DeltaTable

    @property
    def version(self) -> int:
        """The version that this handle sees."""
        return int(self.table.version())

    def check(self) -> None:
        """Refuse a table that was altered by hand.

        Raises:
            HoldError: positions expire, or an older version was restored after the hub's last commit.
        """
        if _EXPIRY in self.table.metadata().configuration:
            raise HoldError(
                f"table {self.folder}: its property {_EXPIRY} lets the hub's positions expire",
                hint="unset it: without positions every record would come again",
            )
        restored: int | None = None
        for entry in self.table.history(_LOOK_BACK):
            if entry.get("operation") == "RESTORE" and restored is None:
                restored = int(entry.get("operationParameters", {}).get("version") or 0)  # by time, so it may be any
            if _ATTEMPT in entry:  # the hub's own commit; other writers' commits say nothing of its rows
                if restored is not None and restored < entry["version"]:
                    raise HoldError(
                        f"table {self.folder}: version {restored} was restored; rows that came later are missing",
                        hint=f"restore version {entry['version']}, or drop the table: the hub builds it from central",
                    )
                return

    def schema(self) -> pa.Schema:
        """The table's columns, in the Arrow types that `narrowed` gives."""
        arrow = pa.schema(self.table.schema())
        return pa.schema([pa.field(one.name, narrow(one.type)) for one in arrow])

    def positions(self, partitions: Iterable[CentralPartition]) -> dict[CentralPartition, int]:
        """Next offsets; a partition that was never committed is left out."""
        with delta_errors(self.folder):
            found = {one: self.table.transaction_version(self._application(one)) for one in partitions}
        return {one: offset for one, offset in found.items() if offset is not None}

    def partition_columns(self) -> tuple[str, ...]:
        """Columns that the table is divided by."""
        return tuple(self.table.metadata().partition_columns)

    def live_files(self) -> list[LiveFile]:
        """List the live data files of this version.

        Raises:
            HoldError: a reader of the files alone would see other rows, or other columns, than one of the table.
        """
        check_plain_delta(self.table, self.folder)
        names = self.partition_columns()
        return [
            LiveFile(
                unquote(one["path"]),
                one["size_bytes"],
                one["num_records"] or 0,
                tuple((name, text(one[f"partition.{name}"])) for name in names),
                _microseconds(one.get("min._timestamp")),
            )
            for one in self._adds().to_pylist()
        ]

    def live_paths(self) -> list[str]:
        """Paths of its live files, relative to the table's folder."""
        return [unquote(path) for path in self._adds().column("path").to_pylist()]

    def referenced_paths(self) -> set[str]:
        """Paths of every file that the log names, added or removed; checkpoints may have replaced its older part."""
        with delta_errors(self.folder):
            commits = [self._log.read(file.name) for file in self._log.entries() if file.name.endswith(".json")]
        return {*self.live_paths()} | named_paths(commits)

    @property
    def point(self) -> TablePoint:
        """The id in the table's metadata, and the version."""
        return TablePoint(str(self.table.metadata().id), self.version)

    def appended_since(self, point: TablePoint) -> list[LiveFile] | None:
        """Read what the port says from the log."""
        if point.table != self.point.table or point.version > self.version:
            return None
        later = (commit_name(one) for one in range(point.version + 1, self.version + 1))
        with delta_errors(self.folder), contextlib.suppress(FileNotFoundError):
            return appended(map(self._log.read, later))
        return None

    def rows(self) -> int:
        """Count the records, by the files' statistics."""
        counts = self._adds().column("num_records").to_pylist()
        return sum(count or 0 for count in counts)

    def out_of_range(self) -> int:
        """Count the records with a number that their column cannot hold, by the files' statistics."""
        adds = self._adds()
        name = f"null_count.{OUT_OF_RANGE_COLUMN}"
        if name not in adds.column_names:
            return 0
        pairs = zip(adds.column("num_records").to_pylist(), adds.column(name).to_pylist(), strict=True)
        return sum(rows - nulls for rows, nulls in pairs if rows is not None and nulls is not None)

    def committed_ms(self) -> int:
        """The commit time of this version, in milliseconds since 1970, by the writer's clock."""
        with delta_errors(self.folder):
            return int(self.table.history(1)[0]["timestamp"])

    def widen(self, schema: pa.Schema) -> None:
        """Add columns; nested fields are added inside of theirs. The handle is used up.

        Raises:
            CommitConflict: another writer was first.
            HoldError: Delta cannot merge the types.
        """
        have = self.schema()
        wider = [
            one for one in merge_schemas(have, schema) if one.name not in have.names or one != have.field(one.name)
        ]
        try:
            self.table.alter.add_columns(Schema.from_arrow(pa.schema(wider)).fields, commit_properties=ONCE)
        except CommitFailedError:
            raise self._conflict() from None
        except SchemaMismatchError:
            names = ", ".join(one.name for one in wider)
            raise HoldError(
                f"table {self.table.table_uri} cannot take the new columns {names}",
                hint="was the table altered by hand? send the topic to another table (`lake:`)",
            ) from None
        except (DeltaError, OSError) as error:
            raise unavailable(self.folder, error) from None

    def commit(
        self,
        files: Iterable[StagedFile],
        positions: Mapping[CentralPartition, int],
        replaced: Iterable[LiveFile] = (),
        note: Mapping[str, str] = {},
    ) -> int:
        """Commit as the port says: one version with `txn` actions beside the files."""
        check_growth(self.owner, self.positions(positions), positions)
        files = check_files(self.owner, self.partition_columns(), files)
        self._check_staged(files)
        replaced = list(replaced)
        self._check_removable(replaced)
        now_ms, news = utc_now_ms(), bool(positions)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, dict(file.partition), now_ms, news, file.stats) for file in files
        ]
        actions += [RemoveAction(file.path, news, now_ms, file.size, dict(file.partition)) for file in replaced]
        moves = [Transaction(self._application(one), offset, now_ms) for one, offset in positions.items()]
        properties = CommitProperties(app_transactions=moves, max_commit_retries=0)
        attempt = uuid.uuid4().hex
        properties.custom_metadata = {**note, _ATTEMPT: attempt}
        mark_sent(self.folder, [file.path for file in files])
        try:
            self.table.create_write_transaction(
                actions,
                "append",
                self.table.schema(),
                partition_by=list(self.partition_columns()),
                commit_properties=properties,
            )
        except (DeltaError, OSError) as error:
            if not self._took_effect(attempt):
                refused = isinstance(error, CommitFailedError)
                raise self._conflict() if refused else unavailable(self.folder, error) from None
        return self.version + 1

    def describe(self, description: Description) -> bool:
        """Write columns' comments and properties, each in a commit of its own."""
        with delta_errors(self.folder):
            try:
                return describe(self.table, description)
            except CommitFailedError:
                raise self._conflict() from None

    def vacuum(self, keep: timedelta, *, now_s: float) -> int:  # noqa: ARG002 - delta-rs asks the clock itself
        """Remove the files that were replaced longer than `keep` ago, and the log that a checkpoint stands for.

        Positions are part of every checkpoint.

        Raises:
            CommitConflict: another writer was first.
        """
        with delta_errors(self.folder):
            try:
                hours = math.ceil(keep / timedelta(hours=1))
                removed = self.table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
                kept = DeltaTable(self.folder.root, storage_options=self.folder.resolved())
                kept.create_checkpoint()
                kept.cleanup_metadata()
            except CommitFailedError:
                raise self._conflict() from None
        return len(removed)

    def _check_staged(self, files: Iterable[StagedFile]) -> None:
        """Delta names whatever it is told to, and one file that is gone makes the whole table unreadable.

        Raises:
            TableUnavailable: somebody removed what was staged.
        """
        with delta_errors(self.folder):
            gone = self.folder.missing([file.path for file in files])
        if gone:
            raise TableUnavailable(
                f"table {self.folder}: {len(gone)} staged files are gone before their commit",
                hint="does another tool remove what no version names (`VACUUM` without an age), or is a clock wrong?"
                " the next cycle stages them again",
            )

    def _check_removable(self, replaced: Sequence[LiveFile]) -> None:
        """delta-rs removes a file by the path as it writes it itself; under another one both would be in the table.

        Raises:
            HoldError: another tool wrote a path in another way.
        """
        said = {unquote(path): path for path in self._adds().column("path").to_pylist()} if replaced else {}
        odd = [one.path for one in replaced if said.get(one.path) != path_as_written(one.path)]
        if odd:
            raise HoldError(
                f"table {self.folder}: another tool wrote {len(odd)} of its files under paths that delta-rs"
                " cannot remove",
                hint="let that tool rewrite them without special characters in their paths, or drop the table: the hub"
                " builds it from central",
            )

    def _took_effect(self, attempt: str) -> bool:
        """Whether the next version is this attempt's: a store may apply a commit and refuse it all the same."""
        with delta_errors(self.folder):
            try:
                commit = self._log.read(commit_name(self.version + 1))
            except FileNotFoundError:  # never written, or vacuumed since: then the positions decide
                return False
        return says(commit, _ATTEMPT, attempt)

    def _adds(self) -> pa.Table:
        """The table's add actions, with a row for each data file."""
        with delta_errors(self.folder):
            return pa.table(self.table.get_add_actions(flatten=True))

    @property
    def _log(self) -> Folder:
        return self.folder / "_delta_log"

    def _application(self, partition: CentralPartition) -> str:
        return f"{self.owner}/{partition}"

    def _conflict(self) -> CommitConflict:
        other = "another writer, or this hub's own upkeep,"
        return CommitConflict(f"table {self.table.table_uri}: {other} committed after version {self.version}")


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
