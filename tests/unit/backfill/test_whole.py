"""A restate replaces nothing before its topics hold a row or a notice of each record that it read."""

import pytest

from aggregator.backfill.restate import require_whole
from aggregator.errors import Failed
from aggregator.lake.files import StagedFile
from aggregator.lake.ranges import Outcome


def outcome(rows: int, notices: int) -> Outcome:
    """So many in one file each."""
    return Outcome((), (StagedFile("a", 1, rows, "{}", b""),), (StagedFile("b", 1, notices, "{}", b""),))


@pytest.mark.parametrize(
    ("outcomes", "is_whole"),
    [
        pytest.param([outcome(7, 5)], True, id="all of it"),
        pytest.param([outcome(3, 1), outcome(6, 4)], True, id="and a tombstone under two more tokens"),
        pytest.param([outcome(7, 0)], False, id="no notices: an earlier version read it"),
        pytest.param([outcome(7, 4)], False, id="a notice is missing"),
        pytest.param([outcome(6, 5)], False, id="a row is missing"),
        pytest.param([], False, id="nothing: the topic was made anew"),
    ],
)
def test_what_is_missing_refuses_by_name(outcomes, is_whole):
    """With the numbers, and what to do."""
    read = {"delivered": 7, "dead": 2, "suppressed": 3}
    if is_whole:
        require_whole("orders", "ab12", outcomes, read)
        return
    with pytest.raises(Failed, match="orders: restate ab12 read 7 records with rows and 5 without") as refused:
        require_whole("orders", "ab12", outcomes, read)
    assert "backfill cancel ab12" in refused.value.hint
    assert "unchanged" in refused.value.hint


def test_a_restate_that_left_nothing_out_needs_no_notices():
    """Also one that an earlier version began."""
    require_whole("orders", "ab12", [outcome(7, 0)], {"delivered": 7, "dead": 0, "suppressed": 0})
    require_whole("orders", "ab12", [], {"delivered": 0, "dead": 0, "suppressed": 0})
