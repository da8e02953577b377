"""What Delta adds to rule G: application transactions, compaction by other tools, types."""

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aggregator.lake.cycle.commit import Commit
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, read_ids, rows, staged

WIDENING = {"delta.enableTypeWidening": "true"}


@pytest.fixture
def tables(tmp_path) -> DeltaTables:
    return DeltaTables("hub", Folder(str(tmp_path)))


def test_positions_are_application_transactions(tables):
    """Every Delta reader can tell how far a table is, by the documented name."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    assert DeltaTable(tables.folder / NAME).transaction_version(f"hub/{NAME}/eu.orders@AAA-0") == 3


def test_compaction_beside_a_commit_costs_a_retry_only(tables):
    """A rewrite of the files by another tool conflicts, and the retry from a fresh read goes in."""
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    stale = tables.open(NAME)
    DeltaTable(tables.folder / NAME).optimize.compact()
    assert Commit(tables, NAME, [staged(tables, FIRST, 3, 4, ids(3))]).run(stale).version == stale.version + 2
    assert read_ids(tables) == [0, 1, 2, 3]


def test_delta_types_are_narrowed(tables):
    """Delta has no fixed bytes; everything else stays, whatever it lies in."""
    wide = pa.schema([("l", pa.list_(pa.binary(3))), ("m", pa.map_(pa.string(), pa.binary(12))), ("d", pa.date32())])
    narrow = pa.schema([("l", pa.list_(pa.binary())), ("m", pa.map_(pa.string(), pa.binary())), ("d", pa.date32())])
    assert tables.narrowed(wide) == narrow
    tables.create(NAME, narrow)
    assert tables.open(NAME).schema() == narrow


def test_types_are_not_widened(tables):
    """delta-rs does not know Delta's type widening: a wider type is held, with the difference and that reason."""
    with pytest.raises(DeltaError, match="enableTypeWidening"):
        DeltaTable.create(f"{tables.folder}/t", pa.schema([("i", pa.int32())]), configuration=WIDENING)
    commit(tables, staged(tables, FIRST, 0, 1, rows(1, i=pa.array([1], pa.int32()))))
    (held,) = commit(tables, staged(tables, FIRST, 1, 2, rows(1, i=pa.array([2**40])))).held
    assert "i is int32 in the table and int64 in the schema, to which the table's format does not widen" in held.reason


def test_long_numbers_stay_whole_in_pandas(tables):
    """As docs/lake.md says how to read them: beside a tombstone pandas' own types make floating point of them."""
    number = 2**53 + 1
    commit(tables, staged(tables, FIRST, 0, 2, rows(2, id=pa.array([number, None], pa.int64()))))
    table = DeltaTable(str(tables.folder / NAME)).to_pyarrow_table()
    assert table.to_pandas(types_mapper=pd.ArrowDtype)["id"].dropna().to_list() == [number]
