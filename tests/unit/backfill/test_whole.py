"""A restate replaces nothing before its topics hold a row or a notice of each record that it read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS
from aggregator.backfill.restate import records_with_rows, require_whole
from aggregator.errors import FatalError
from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder


@pytest.mark.parametrize(
    ("came", "told", "is_whole"),
    [
        pytest.param(7, 5, True, id="all of it"),
        pytest.param(7, 0, False, id="no notices: an earlier version read it"),
        pytest.param(7, 4, False, id="a notice is missing"),
        pytest.param(6, 5, False, id="a row is missing"),
        pytest.param(0, 0, False, id="nothing: the topic was made anew"),
    ],
)
def test_what_is_missing_refuses_by_name(came, told, is_whole):
    """With the numbers, and what to do."""
    read = {"delivered": 7, "dead": 2, "suppressed": 3}
    if is_whole:
        require_whole("orders", "ab12", came=came, notices=told, read=read)
        return
    with pytest.raises(FatalError, match="orders: restate ab12 read 7 records with rows and 5 without") as refused:
        require_whole("orders", "ab12", came=came, notices=told, read=read)
    assert "backfill cancel ab12" in refused.value.hint
    assert "unchanged" in refused.value.hint


def test_a_restate_that_left_nothing_out_needs_no_notices():
    """Also one that an earlier version began."""
    require_whole("orders", "ab12", came=7, notices=0, read={"delivered": 7, "dead": 0, "suppressed": 0})
    require_whole("orders", "ab12", came=0, notices=0, read={"delivered": 0, "dead": 0, "suppressed": 0})


def test_a_tombstone_under_several_keys_makes_up_for_no_missing_row(tmp_path):
    """A record counts once, however many rows it has and in however many files."""
    folder = Folder(str(tmp_path))

    def staged(name: str, offsets: list[int]) -> StagingOutcome:
        count = len(offsets)
        columns = [["eu"] * count, ["orders"] * count, [0] * count, [0] * count, offsets]
        pq.write_table(pa.table(dict(zip(ORIGIN_COLUMNS, columns, strict=True))), tmp_path / name)
        return StagingOutcome((), (StagedFile(name, 1, count, "{}", b""),))

    assert records_with_rows(folder, [staged("a", [1, 2, 3, 3, 3]), staged("b", [3, 4])]) == 4
    assert records_with_rows(folder, [StagingOutcome((), ())]) == 0
