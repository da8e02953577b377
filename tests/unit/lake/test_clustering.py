"""Rows in the order of `cluster_by`: the same rows, in runs of bounded size; readers skip what they do not ask for."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.lake_model import LakeConfig
from aggregator.errors import FatalError
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.upkeep import compaction
from aggregator.lake.upkeep.clustering import in_runs
from aggregator.lake.upkeep.compaction import Compacted, compact
from tests.unit.lake.tabling import FIRST, NAME, commit, read, rows, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
ROW = pa.schema([("word", pa.string()), ("number", pa.int64()), ("at", pa.int64()), ("parts", pa.list_(pa.int8()))])


@given(
    st.lists(
        st.lists(
            st.tuples(st.none() | st.sampled_from(["", "a", "b", "\u00e9"]), st.none() | st.integers(-3, 3)), max_size=9
        ),
        max_size=9,
    ),
    st.integers(1, 400),
    st.integers(1, 200),
)
def test_runs_are_in_order_and_hold_the_same_rows(drawn, run_bytes, piece_bytes):
    """A run ends as soon as it is long enough; nulls come last, and rows that are alike as they came."""
    pieces, expected, run, size, at = [], [], [], 0, 0
    for some in drawn:
        made = [
            {"word": word, "number": number, "at": at + place, "parts": [1]}
            for place, (word, number) in enumerate(some)
        ]
        at += len(some)
        pieces.append(pa.Table.from_pylist(made, schema=ROW))
        run, size = run + made, size + pieces[-1].nbytes
        if size >= run_bytes:
            expected, run, size = expected + in_order(run), [], 0
    found = list(in_runs(iter(pieces), ("word", "number"), run_bytes=run_bytes, piece_bytes=piece_bytes))
    assert [row for piece in found for row in piece.to_pylist()] == expected + in_order(run)
    assert all(piece.nbytes <= 2 * piece_bytes or piece.num_rows == 1 for piece in found)


def in_order(run):
    """What `order by word, number` makes of it."""
    return sorted(run, key=lambda row: (*last(row["word"], ""), *last(row["number"], 0)))


def last(value, nothing):
    """A key that puts None behind all else."""
    return (value is None, nothing if value is None else value)


def test_without_columns_rows_stay_as_they_came():
    """Piece by piece, without a wait."""
    pieces = [pa.table({"a": [2, 1]}), pa.table({"a": [0]})]
    assert list(in_runs(iter(pieces), ())) == pieces


def filled(kind, tmp_path):
    """A table of four commits; every customer is in each of them."""
    tables = kind("hub", Folder(str(tmp_path)))
    for number in range(4):
        columns = {
            "customer": pa.array([f"c{(7 * at + number) % 50:02}" for at in range(50)]),
            "parts": pa.array([[{"x": at}] for at in range(50)]),
            "more": pa.array([[("k", at)] for at in range(50)], pa.map_(pa.string(), pa.int64())),
        }
        commit(tables, staged(tables, FIRST, number, number + 1, rows(50, **columns)))
    return tables


@FORMATS
@pytest.mark.slow
def test_a_condition_skips_row_groups_of_other_values(kind, tmp_path, monkeypatch):
    """The same rows as before, in groups whose bounds do not overlap; positions are untouched."""
    monkeypatch.setattr(compaction, "in_runs", partial(in_runs, piece_bytes=2000))
    monkeypatch.setattr(compaction, "StagingWriter", partial(StagingWriter, group_bytes=2000))
    tables = filled(kind, tmp_path)
    before = read(tables, "customer, parts, more::varchar", "all")
    assert compact(tables, tables.folder / NAME, NAME, cluster_by=("customer",)) == Compacted(4, 1)
    assert read(tables, "customer, parts, more::varchar", "all") == before
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 4}
    (path,) = tables.open(NAME).live_paths()
    with pq.ParquetFile(Path(tables.folder) / NAME / path) as file:
        at = file.schema_arrow.get_field_index("customer")
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        bounds = [(group.column(at).statistics.min, group.column(at).statistics.max) for group in groups]
    assert len(bounds) > 4
    assert bounds == sorted(bounds)
    assert sum(low <= "c25" <= high for low, high in bounds) <= 2


@FORMATS
@pytest.mark.parametrize("column", ["nowhere", "parts", "more"])
def test_a_column_that_orders_nothing_is_named(kind, tmp_path, column):
    """One that the table lacks, a list, a map; nothing is rewritten."""
    tables = filled(kind, tmp_path)
    with pytest.raises(FatalError, match=f"column {column} of `cluster_by`"):
        compact(tables, tables.folder / NAME, NAME, cluster_by=("customer", column))
    assert len(tables.open(NAME).live_paths()) == 4


def test_a_table_has_the_columns_that_the_configuration_names():
    """None where nothing is said of it."""
    lake = LakeConfig(path="/l", tables={"orders": {"cluster_by": ["customer", "_timestamp"]}})
    assert (lake.cluster_by("orders"), lake.cluster_by("clicks")) == (("customer", "_timestamp"), ())
