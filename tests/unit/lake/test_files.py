"""Staged files: complete, of one schema each, with statistics that never prune a row that is there."""

import datetime as dt
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.parquet.encoding import dictionary_columns
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder


def table(**columns: pa.Array) -> pa.Table:
    count = len(next(iter(columns.values())))
    rows = pa.Table.from_arrays([pa.nulls(count, field.type) for field in FIXED_COLUMNS], schema=FIXED_COLUMNS)
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return rows


def test_statistics_are_of_all_row_groups(tmp_path):
    """Bounds over all of them; none where a value of one has none."""
    stage = StagingWriter(Folder(str(tmp_path)), None, group_bytes=1)
    for number in (3, 1):
        stage.add(
            table(
                n=pa.array([number, None], pa.int64()),
                day=pa.array([dt.date(2013, 1, number)] * 2),
                far=pa.array([2**62] * 2, pa.timestamp("us", "UTC")),
                real=pa.array([float("nan") if number == 1 else 0.5, 1.0]),
            )
        )
    (file,) = stage.close()
    stats = json.loads(file.stats)
    assert stats["numRecords"] == file.rows == 4
    assert stats["minValues"] == {"n": 1, "day": "2013-01-01"}
    assert stats["maxValues"] == {"n": 3, "day": "2013-01-03"}
    assert stats["nullCount"]["n"] == 2
    assert stats["nullCount"]["_edge"] == 4
    assert file.size == (tmp_path / file.path).stat().st_size


def test_a_wider_schema_begins_another_file(tmp_path):
    """Each file has one schema; rows stay in order; a later, narrower piece takes the wider columns."""
    stage = StagingWriter(Folder(str(tmp_path)), None)
    stage.add(table(a=pa.array([1])))
    stage.add(table(a=pa.array([2]), b=pa.array(["x"])))
    stage.add(table(a=pa.array([3])))
    first, second = stage.close()
    assert pq.read_table(tmp_path / first.path).column("a").to_pylist() == [1]
    assert pq.read_table(tmp_path / second.path).select(["a", "b"]).to_pylist() == [
        {"a": 2, "b": "x"},
        {"a": 3, "b": None},
    ]


def test_a_file_is_ended_by_its_size(tmp_path):
    """Long tasks write several files."""
    stage = StagingWriter(Folder(str(tmp_path)), None, file_bytes=1, group_bytes=1)
    for number in range(3):
        stage.add(table(a=pa.array([number])))
    assert [file.rows for file in stage.close()] == [1, 1, 1]


def test_an_abandoned_stage_leaves_nothing(tmp_path):
    """Finished and open files are removed."""
    stage = StagingWriter(Folder(str(tmp_path)), None, file_bytes=1, group_bytes=1)
    stage.add(table(a=pa.array([1])))
    stage.add(table(a=pa.array([2])))
    stage.abandon()
    assert list(tmp_path.iterdir()) == []


def test_small_pieces_share_a_row_group(tmp_path):
    """Pieces of many small partitions do not become a row group each."""
    stage = StagingWriter(Folder(str(tmp_path)), None)
    for number in range(3):
        stage.add(table(a=pa.array([number])))
    (file,) = stage.close()
    assert pq.read_metadata(tmp_path / file.path).num_row_groups == 1


def test_a_stage_without_rows_writes_nothing(tmp_path):
    """No rows, no file and no folder."""
    assert StagingWriter(Folder(str(tmp_path / "none")), None).close() == ()
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    """The task translates it; nothing is half staged."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        StagingWriter(Folder(str(tmp_path / "file")), None, group_bytes=1).add(table(a=pa.array([1])))


def test_values_that_do_not_repeat_get_no_dictionary(tmp_path):
    """Tokens are written plain, words by a dictionary, nested ones too; a small file is left to pyarrow."""
    count = 30_000
    token = [f"{number:032x}" for number in range(count)]
    words = random.Random(1).choices(["RETURNED", "CANCELLED", "DELIVERED"], k=count)
    nested = pa.array([[{"word": word}] for word in words])
    stage = StagingWriter(Folder(str(tmp_path)), None)
    stage.add(table(a=pa.array(token), b=pa.array(words), c=nested))
    (file,) = stage.close()
    group = pq.read_metadata(tmp_path / file.path).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    dictionaries = {column.path_in_schema: column.has_dictionary_page for column in columns}
    assert not dictionaries["a"]
    assert dictionaries["b"]
    assert dictionaries["c.list.element.word"]
    assert dictionary_columns(table(a=pa.array(["x"]))) is True


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=200), st.integers(1, 5000))
def test_a_row_group_is_bounded_by_the_bytes_of_its_values(tmp_path_factory, sizes, most):
    """Values that are alike cost a file next to nothing, and whoever reads a row group pays for all of them."""
    folder = Folder(str(tmp_path_factory.mktemp("t")))
    stage = StagingWriter(folder, None, group_bytes=most)
    text = table(text=pa.array(["x" * size for size in sizes]))
    stage.add(text)
    (file,) = stage.close()
    with folder.parquet(file.path) as source:
        for number in range(source.num_row_groups):
            group = source.read_row_group(number)
            assert group.nbytes <= 3 * most + max(text.slice(at, 1).nbytes for at in range(len(text)))
    assert pa.concat_tables(folder.batches(file.path))["text"].to_pylist() == text["text"].to_pylist()
