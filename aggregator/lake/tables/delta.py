"""Delta Lake tables through delta-rs: positions are `txn` actions in the commit that adds the files.

Invariant (protocol, rule G): a commit is tried once, at the version after the one whose positions were read, so two
writers that read the same positions can not both commit; positions only grow. delta-rs would otherwise rebase, accept a
smaller position, and let two concurrent creations both succeed.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError, TableNotFoundError
from deltalake.transaction import AddAction

from aggregator.errors import Failed, HoldError
from aggregator.kafka.committed import CentralPartition
from aggregator.lake.columns import merged
from aggregator.lake.files import StagedFile
from aggregator.lake.tables.port import CommitConflict, TableUnavailable

_ONCE = CommitProperties(max_commit_retries=0)


@dataclass(frozen=True)
class DeltaTables:
    """Delta tables below one folder.

    Args:
        hub: The hub's name; positions of several hubs in one table stay apart.
        folder: Tables lie at `<folder>/<name>`.
    """

    hub: str
    folder: Path

    def open(self, name: str) -> "DeltaHandle | None":
        """The newest version of a table; None where there is none yet.

        Raises:
            TableUnavailable: its log can not be read.
        """
        try:
            return DeltaHandle(f"{self.hub}/{name}", DeltaTable(self.folder / name))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise _unavailable(f"{self.folder / name}", error) from None

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the folder can not be written.
        """
        path = self.folder / name
        try:
            path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(path, Schema.from_arrow(schema), mode="error", name=name, commit_properties=_ONCE)
        except (DeltaError, OSError) as error:
            if DeltaTable.is_deltatable(str(path)):
                raise CommitConflict(f"table {path}: another writer created it first") from None
            raise _unavailable(str(path), error) from None

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """The schema in Delta's types: a time of day becomes its microseconds, fixed bytes become bytes."""
        return pa.schema([pa.field(field.name, _narrow(field.type)) for field in schema])


@dataclass(frozen=True)
class DeltaHandle:
    """One version of a Delta table; used up by the first commit.

    Args:
        owner: `<hub>/<table>`, the first part of every position's application id.
        table: delta-rs's handle, which is never refreshed.
    """

    owner: str
    table: DeltaTable

    @property
    def version(self) -> int:
        """The version that this handle sees."""
        return int(self.table.version())

    def schema(self) -> pa.Schema:
        """Its columns, in the Arrow types that `narrowed` gives."""
        arrow = pa.schema(self.table.schema())
        return pa.schema([pa.field(field.name, _narrow(field.type)) for field in arrow])

    def positions(self, partitions: Iterable[CentralPartition]) -> dict[CentralPartition, int]:
        """Next offsets; a partition that was never committed is left out."""
        found = {one: self.table.transaction_version(self._application(one)) for one in partitions}
        return {one: offset for one, offset in found.items() if offset is not None}

    def files(self) -> list[str]:
        """Paths of its live files, relative to the table's folder."""
        return [str(path) for path in pa.table(self.table.get_add_actions(flatten=True)).column("path").to_pylist()]

    def rows(self) -> int:
        """Its records, by the files' statistics."""
        counts = pa.table(self.table.get_add_actions(flatten=True)).column("num_records").to_pylist()
        return sum(count or 0 for count in counts)

    def committed_ms(self) -> int:
        """When this version was committed, in milliseconds since 1970, by the writer's clock."""
        return int(self.table.history(1)[0]["timestamp"])

    def widen(self, schema: pa.Schema) -> None:
        """Add columns; nested fields are added inside of theirs. The handle is used up.

        Raises:
            CommitConflict: another writer was first.
            HoldError: Delta can not merge the types.
        """
        have = self.schema()
        wider = [
            field for field in merged(have, schema) if field.name not in have.names or field != have.field(field.name)
        ]
        try:
            self.table.alter.add_columns(Schema.from_arrow(pa.schema(wider)).fields, commit_properties=_ONCE)
        except CommitFailedError:
            raise self._conflict() from None
        except SchemaMismatchError:
            names = ", ".join(field.name for field in wider)
            raise HoldError(
                f"table {self.table.table_uri} can not take the new columns {names}",
                hint="was the table altered by hand? send the topic to another table (`lake:`)",
            ) from None
        except (DeltaError, OSError) as error:
            raise _unavailable(str(self.table.table_uri), error) from None

    def commit(self, files: Iterable[StagedFile], positions: Mapping[CentralPartition, int]) -> int:
        """Add files and positions in one version. The handle is used up.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the storage refused.
            Failed: a position would not grow; this is a fault in the hub, and nothing was written.
        """
        before = self.positions(positions)
        for partition, offset in positions.items():
            if offset <= before.get(partition, -1):
                raise Failed(f"{self.owner}: position {partition} would go from {before.get(partition)} to {offset}")
        now_ms = int(time.time() * 1000)
        actions = [AddAction(file.path, file.size, {}, now_ms, True, file.stats) for file in files]
        moves = [Transaction(self._application(one), offset, now_ms) for one, offset in positions.items()]
        try:
            self.table.create_write_transaction(
                actions,
                "append",
                self.table.schema(),
                commit_properties=CommitProperties(app_transactions=moves, max_commit_retries=0),
            )
        except CommitFailedError:
            raise self._conflict() from None
        except (DeltaError, OSError) as error:
            raise _unavailable(str(self.table.table_uri), error) from None
        return self.version + 1

    def _application(self, partition: CentralPartition) -> str:
        return f"{self.owner}/{partition}"

    def _conflict(self) -> CommitConflict:
        return CommitConflict(f"table {self.table.table_uri}: another writer committed after version {self.version}")


def _unavailable(path: str, error: Exception) -> TableUnavailable:
    # delta-rs's texts name files and system errors, never rows: rows do not pass through it here.
    return TableUnavailable(f"table {path}: {error}", hint="check the disk, its space and the rights on the folder")


def _narrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _narrow(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _narrow(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_narrow(kind.value_type))
    return kind
