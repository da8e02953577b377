"""A file is cut in two without a row lost, doubled or changed."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.errors import HoldError
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.quality.split import RULES, TOPIC_ID, Split, marked, restage_without, rows_at
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder

pytestmark = pytest.mark.slow

COLUMNS = pa.schema(
    [
        *FIXED_COLUMNS,
        ("id", pa.int64()),
        ("lines", pa.list_(pa.struct([("sku", pa.string())]))),
        ("labels", pa.map_(pa.string(), pa.decimal128(9, 2))),
    ]
)


def staged(folder, count):
    """One file of several row groups."""
    stage = StagingWriter(folder, COLUMNS, group_bytes=500)
    for number in range(count):
        row = {"_central_topic": "eu.t", "_central_partition": 0, "_central_offset": number, "id": number}
        row |= {"lines": [{"sku": "a"}, {"sku": None}], "labels": [("k", None)]}
        stage.add(pa.Table.from_pylist([row], schema=COLUMNS))
    (file,) = stage.close()
    return file


def read(folder, name):
    """A whole file."""
    with folder.parquet(name) as file:
        return file.read()


@settings(max_examples=20)
@given(st.sets(st.integers(0, 29)))
def test_both_halves_are_the_file(tmp_path_factory, failing):
    """Rows stay in order; those that go carry the rules' names and the topic's id."""
    folder = Folder(str(tmp_path_factory.mktemp("t")))
    file = staged(folder, 30)
    split = Split(folder, folder / "q", marked(COLUMNS).serialize().to_pybytes(), {"eu.t": "AAA"})
    stays, goes = split.cut(file, {row: ["s/r", f"s/{row}"] for row in failing})
    whole = read(folder, file.path)
    rest = [row for one in stays for row in read(folder, one.path).to_pylist()]
    away = [row for one in goes for row in read(folder / "q", one.path).to_pylist()]
    assert rest == [row for row in whole.to_pylist() if row["id"] not in failing]
    assert [row["id"] for row in away] == sorted(failing)
    for row in away:
        assert (row.pop(RULES), row.pop(TOPIC_ID)) == (["s/r", f"s/{row['id']}"], "AAA")
        assert row == whole.to_pylist()[row["id"]]
    assert sum(one.rows for one in (*stays, *goes)) == 30
    again = restage_without(folder, file, failing)
    assert [row for one in again for row in read(folder, one.path).to_pylist()] == rest


def test_rows_are_found_by_their_place(tmp_path):
    """Topic, partition and offset name a row; other places of the same number do not."""
    file = staged(Folder(str(tmp_path)), 5)
    assert rows_at(
        Folder(str(tmp_path)), file.path, {("eu.t", 0, 3), ("us.t", 0, 1), ("eu.t", 1, 2), ("eu.t", 0, 9)}
    ) == [3]


def test_a_field_with_the_quarantines_name_is_refused():
    """A sentence, and nothing overwritten."""
    with pytest.raises(HoldError, match=RULES):
        marked(pa.schema([*COLUMNS, (RULES, pa.string())]))
