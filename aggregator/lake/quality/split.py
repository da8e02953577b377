"""Cuts a staged file in two: the rows that stay for the table, and the rows that go into its quarantine with the names
of their rules.

Invariant: every row of the file is in exactly one of the two halves, unchanged. The quarantine's rows hold the id of
their central topic. The id tells them apart from rows of a topic that was recreated under the same name. The original
file stays where it is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aggregator.errors import HoldError
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder

RULES, TOPIC_ID = "_quarantine_rules", "_central_topic_id"
_MARKS = pa.schema([(RULES, pa.list_(pa.string())), (TOPIC_ID, pa.string())])
_PLACE = ["_central_topic", "_central_partition", "_central_offset"]
Files = tuple[StagedFile, ...]


@dataclass(frozen=True)
class Split:
    """Describes how the files of one commit are cut. It is pickled into the Spark job.

    Args:
        folder: The table's folder.
        quarantine: The quarantine's folder.
        columns: The quarantine's Arrow schema, serialised.
        topic_ids: Ids of the central topics in this commit.
    """

    folder: Folder
    quarantine: Folder
    columns: bytes
    topic_ids: Mapping[str, str]

    def cut(self, file: StagedFile, failing: Mapping[int, Sequence[str]]) -> tuple[Files, Files]:
        """Stage both halves of a file.

        Args:
            file: In the table's folder.
            failing: Names of the rules by row of the file.

        Returns:
            The files of the rows that stay, and of the rows that go into the quarantine.

        Raises:
            HoldError: the rows do not fit the quarantine's columns.
            OSError: a folder cannot be written.
        """
        with _again(self.folder, file) as stays, _stage(self.quarantine, self.columns) as goes:
            for first, rows in _groups(self.folder, file.path):
                here = _within(failing, first, rows)
                _keep(rows, here, stays)
                if here:
                    goes.add(self._marked(rows.take(pa.array(here)), [failing[first + at] for at in here]))
            return stays.close(), goes.close()

    def _marked(self, rows: pa.Table, names: Sequence[Sequence[str]]) -> pa.Table:
        ids = [self.topic_ids[topic] for topic in rows.column("_central_topic").to_pylist()]
        marks = (pa.array(list(map(list, names)), _MARKS.field(RULES).type), pa.array(ids, pa.string()))
        for field, mark in zip(_MARKS, marks, strict=True):
            rows = rows.append_column(field, mark)
        return rows


def restage_without(folder: Folder, file: StagedFile, rows: Collection[int]) -> Files:
    """Stage a file again without some of its rows.

    Raises:
        OSError: the folder cannot be written.
    """
    with _again(folder, file) as stays:
        for first, group in _groups(folder, file.path):
            _keep(group, _within(rows, first, group), stays)
        return stays.close()


def marked(columns: pa.Schema) -> pa.Schema:
    """A table's columns as its quarantine has them.

    Raises:
        HoldError: a field of the records has one of the names.
    """
    taken = sorted(set(_MARKS.names) & set(columns.names))
    if taken:
        raise HoldError(f"the quarantine has a column {taken[0]} of its own", hint="drop that field in the policy")
    return pa.schema([*columns, *_MARKS])


def rows_at(folder: Folder, name: str, places: Collection[tuple[str, int, int]]) -> list[int]:
    """Rows of a staged file that lie at these places of central: topic, partition, offset.

    Raises:
        OSError: the file cannot be read.
    """
    columns = folder.rows(name, _PLACE).to_pydict()
    return [at for at, place in enumerate(zip(*(columns[name] for name in _PLACE), strict=True)) if place in places]


def _again(folder: Folder, file: StagedFile) -> AbstractContextManager[StagingWriter]:
    """A writer with the columns and the partition columns of a file that is already staged."""
    return _stage(folder, file.schema, partition_columns=tuple(name for name, _ in file.partition))


@contextmanager
def _stage(folder: Folder, columns: bytes, *, partition_columns: tuple[str, ...] = ()) -> Iterator[StagingWriter]:
    stage = StagingWriter(folder, pa.ipc.read_schema(pa.py_buffer(columns)), partition_columns=partition_columns)
    try:
        yield stage
    except BaseException:
        stage.abandon()
        raise


def _groups(folder: Folder, name: str) -> Iterator[tuple[int, pa.Table]]:
    """Row groups, each with the number of its first row."""
    first = 0
    with folder.parquet(name) as source:
        for group in range(source.num_row_groups):
            rows = source.read_row_group(group)
            yield first, rows
            first += rows.num_rows


def _within(rows: Collection[int], first: int, group: pa.Table) -> list[int]:
    return sorted(at - first for at in rows if first <= at < first + group.num_rows)


def _keep(group: pa.Table, cut: Sequence[int], stays: StagingWriter) -> None:
    keep = np.ones(group.num_rows, np.bool_)
    keep[cut] = False
    if keep.any():
        stays.add(group.filter(pa.array(keep)))
