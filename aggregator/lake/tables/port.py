"""The port of lake tables: the operations that every table format offers to the driver.

Invariant (protocol, rule G): positions are read from the handle that commits, and a handle is never refreshed. After a
conflict the caller opens another handle, reads its positions, and decides anew.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol

import pyarrow as pa

from aggregator.coordinates import CentralPartition
from aggregator.errors import FatalError, HoldError, RetryError
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder


class CommitConflict(RetryError):
    """Another writer committed after this handle was opened. The versions since then do not include this handle's
    commit.
    """

    def __init__(
        self, message: str, *, hint: str = "nothing is lost: the next attempt reads the table's positions anew"
    ) -> None:
        super().__init__(message, hint=hint)


class TableUnavailable(RetryError):
    """The table's storage or catalogue does not answer, or its disk is full."""


class TablePoint(NamedTuple):
    """A version of one table; a table that was dropped and made again under its name is another one.

    Attributes:
        table: The id that the format gives a table.
        version: The version that its readers see: of Iceberg, the sequence number of the current snapshot.
    """

    table: str
    version: int


class LiveFile(NamedTuple):
    """A data file of one version.

    Attributes:
        path: Relative to the table's folder.
        size: Bytes.
        rows: Records in it.
        partition: Columns that the table is divided by, and their value in this file as text.
        begins_us: Its earliest record's own time, in microseconds since 1970; None where no statistics say it.
    """

    path: str
    size: int
    rows: int
    partition: tuple[tuple[str, str | None], ...] = ()
    begins_us: int | None = None


class Description(NamedTuple):
    """What is said of a table.

    Attributes:
        columns: Comment by column, of those that were stripped.
        properties: Of the table.
        begins: The first words of every comment of this hub; others are somebody else's, and another hub's.
    """

    columns: Mapping[str, str]
    properties: Mapping[str, str]
    begins: str

    def new_comments(self, present: Mapping[str, str]) -> dict[str, str]:
        """The comments that a table lacks, empty ones for what the hub said and is no longer so.

        Args:
            present: Comment by column, for all columns; empty for one without.
        """
        wanted = {name: self.columns.get(name, "") for name in present}
        ours = {name for name, text in present.items() if not text or text.startswith(self.begins)}
        return {name: text for name, text in wanted.items() if name in ours and text != present[name]}

    def new_properties(self, present: Mapping[str, str]) -> dict[str, str]:
        """The properties that a table lacks."""
        return {name: text for name, text in self.properties.items() if present.get(name) != text}


class TableHandle(Protocol):
    """Reads and writes one table, as it was at one version."""

    @property
    def version(self) -> int:
        """The version that this handle sees."""

    def schema(self) -> pa.Schema:
        """The table's Arrow schema."""

    def positions(self, partitions: Iterable[CentralPartition]) -> dict[CentralPartition, int]:
        """Next offsets; a partition that was never committed is left out."""

    def partition_columns(self) -> tuple[str, ...]:
        """Columns that the table is divided by."""

    def live_files(self) -> list[LiveFile]:
        """List the live data files of this version.

        Raises:
            HoldError: a reader of the files alone would see other rows, or other columns, than one of the table.
        """

    def live_paths(self) -> list[str]:
        """Paths of its live files, relative to the table's folder."""

    def referenced_paths(self) -> set[str]:
        """Paths of every file that a version which is still kept names, live or not."""

    @property
    def point(self) -> TablePoint:
        """What `appended_since` of a later handle is asked by."""

    def appended_since(self, point: TablePoint) -> list[LiveFile] | None:
        """The files with the rows that came after an earlier version, live or since replaced by others.

        Args:
            point: The earlier version.

        Returns:
            None where rows were changed or removed as well, where the table is another one or was rolled back behind
            that version, or where nothing tells any more.
        """

    def rows(self) -> int:
        """Count the records, by the files' statistics."""

    def out_of_range(self) -> int:
        """Count the records with a number that their column cannot hold, by the files' statistics."""

    def committed_ms(self) -> int:
        """When this version was committed, in milliseconds since 1970."""

    def widen(self, schema: pa.Schema) -> None:
        """Make the table's columns those of `schema`, in a commit of its own; the handle is used up.

        Raises:
            CommitConflict: another writer was first.
            HoldError: the table cannot hold them.
        """

    def commit(
        self,
        files: Iterable[StagedFile],
        positions: Mapping[CentralPartition, int],
        replaced: Iterable[LiveFile] = (),
        note: Mapping[str, str] = {},
    ) -> int:
        """Make staged files and positions visible at once; the handle is used up. Returns the new version.

        Args:
            files: What to add.
            positions: Next offsets; a commit without any changes no rows, only the files that they lie in.
            replaced: What the added files stand for from now on.
            note: Kept with the version, for whoever reads the table's history.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the storage or the catalogue refused, or its answer was lost. A commit that took effect
                despite an error counts as done.
            HoldError: the files do not fit the table, which was altered meanwhile.
            FatalError: a position would not grow; this is a fault in the hub, and nothing was written.
        """

    def describe(self, description: Description) -> bool:
        """Write what is said of the table into its metadata, if it is news; the handle is used up.

        Returns:
            Whether anything was written.

        Raises:
            CommitConflict: another writer was first.
        """

    def vacuum(self, keep: timedelta, *, now_s: float) -> int:
        """Forget versions that were replaced longer than `keep` ago, and remove the files that only they name.

        Positions stay, whatever their age. The handle is used up.

        Args:
            keep: How long a reader of an older version is served.
            now_s: Time, seconds since 1970.

        Returns:
            How many files were removed.

        Raises:
            CommitConflict: another writer was first.
        """


class Tables(Protocol):
    """The tables of one hub in one format."""

    @property
    def folder(self) -> Folder:
        """The folder in which tables lie at `<folder>/<name>`."""

    @property
    def partition_columns_by_table(self) -> Mapping[str, tuple[str, ...]]:
        """By table the columns that a new table is divided by."""

    def names(self) -> list[str]:
        """The names of all tables."""

    def open(self, name: str) -> TableHandle | None:
        """The newest version of a table; None where there is none yet."""

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table.

        Raises:
            CommitConflict: another writer was first.
        """

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """The schema in the types that this format has."""

    def promotes(self, narrow: pa.DataType, wide: pa.DataType) -> bool:
        """Whether a column of the narrow type can become one of the wide type in place."""


def check_growth(owner: str, before: Mapping[CentralPartition, int], positions: Mapping[CentralPartition, int]) -> None:
    """Positions only grow, whatever the format would accept.

    Args:
        owner: `<hub>/<table>`.
        before: Next offsets of the version that is committed upon.
        positions: Next offsets of the commit.

    Raises:
        FatalError: one would not grow; this is a fault in the hub.
    """
    for partition, offset in positions.items():
        if offset <= before.get(partition, -1):
            raise FatalError(
                f"{owner}: position {partition} would go from {before.get(partition)} to {offset}",
                hint="nothing was committed; this is a fault in the hub: report it with the hub's log",
            )


def check_partitioning(name: str, partition_columns: Iterable[str], schema: pa.Schema) -> None:
    """A table is divided by columns that it has, of types whose values every format writes as the same text.

    Raises:
        HoldError: a column is missing, or holds something else than text, whole numbers, flags or dates.
    """
    for column in partition_columns:
        if column not in schema.names:
            raise HoldError(
                f"table {name}: `partition_by` names {column}, which its first records do not have",
                hint=f"the table has {', '.join(schema.names)}",
            )
        kind = schema.field(column).type
        plain = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        if not plain and not pa.types.is_date(kind):
            raise HoldError(
                f"table {name}: `partition_by` names {column}, which holds {kind}",
                hint="divide by text, whole numbers, flags or dates, or by `day`",
            )


def check_files(owner: str, partition_columns: tuple[str, ...], files: Iterable[StagedFile]) -> list[StagedFile]:
    """Staged files are divided as the table is.

    Raises:
        HoldError: the table was created or divided anew, in another way, since they were staged.
    """
    staged = list(files)
    if any(tuple(name for name, _ in file.partition) != partition_columns for file in staged):
        raise HoldError(
            f"{owner}: the table is divided by {', '.join(partition_columns) or 'nothing'}, its staged files are not",
            hint="the next cycle stages them as the table is",
        )
    return staged
