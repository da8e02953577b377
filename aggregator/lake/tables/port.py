"""The port of lake tables: what every format can do for the driver.

Invariant (protocol, rule G): the handle from which positions were read is the one that commits; it is never refreshed.
After a conflict the caller opens another handle, reads its positions, and decides anew.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import pyarrow as pa

from aggregator.errors import RetryError
from aggregator.kafka.committed import CentralPartition
from aggregator.lake.files import StagedFile


class CommitConflict(RetryError):
    """Another writer committed since this handle was opened; nothing of ours is in the table."""


class TableUnavailable(RetryError):
    """The table's storage or catalogue does not answer, or its disk is full."""


class TableHandle(Protocol):
    """One version of one table."""

    @property
    def version(self) -> int:
        """The version that this handle sees."""

    def schema(self) -> pa.Schema:
        """Its columns."""

    def positions(self, partitions: Iterable[CentralPartition]) -> dict[CentralPartition, int]:
        """Next offsets; a partition that was never committed is left out."""

    def files(self) -> list[str]:
        """Paths of its live files, relative to the table's folder."""

    def rows(self) -> int:
        """Its records, by the files' statistics."""

    def committed_ms(self) -> int:
        """When this version was committed, in milliseconds since 1970."""

    def widen(self, schema: pa.Schema) -> None:
        """Add the columns that `schema` has beyond the table's, in a commit of its own; the handle is used up.

        Raises:
            CommitConflict: another writer was first.
            HoldError: the table can not hold them.
        """

    def commit(self, files: Iterable[StagedFile], positions: Mapping[CentralPartition, int]) -> int:
        """Make staged files and positions visible at once; the handle is used up. Returns the new version.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the storage refused.
        """


class Tables(Protocol):
    """The tables of one hub in one format."""

    def open(self, name: str) -> TableHandle | None:
        """The newest version of a table; None where there is none yet."""

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table.

        Raises:
            CommitConflict: another writer was first.
        """

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """The schema in the types that this format has."""
