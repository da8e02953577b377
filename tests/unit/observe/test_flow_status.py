"""One flow as a monitor or a single look shows it: what is known is shown, and nothing that is not known any more."""

import pytest

from aggregator.observe.edge_account import ClockPair
from aggregator.observe.edge_logs import EdgeLogs, UndecidedOffsets
from aggregator.observe.edge_snapshot import EdgeSnapshot
from aggregator.observe.flow_status import flow_status
from aggregator.observe.hub_status import NO_TROUBLE, Trouble
from aggregator.replicate.discovery.edge_watch import EdgeAnswer
from aggregator.replicate.discovery.retention import Margin
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord
from tests.unit.observe.story import CENTRAL_MS, FLOW, Story, moment


def shown(ends: dict, after_s: float, *, arrives=10, trouble="", **seen):
    """The flow so many seconds after its edge last told its ends; ten of its records wait then."""
    story = Story()
    story.live(4, reads=10, arrives=arrives)
    now = moment(story.second + after_s)
    asked_s = moment(story.second).now_s
    logs = EdgeLogs(margins={FLOW: Margin(60_000, 3_600_000)}, **seen)
    shown = EdgeSnapshot(EdgeAnswer(0.0, ends_s=asked_s, ends=ends), logs, asked_s)
    entry = LedgerRecord(0, "id", 70, epoch=1, slot=0)
    track = story.account.tracks.get(FLOW)
    return flow_status(FLOW, entry, shown, track, lost=None, trouble=Trouble(trouble), moment=now)


@pytest.mark.parametrize(
    ("ends", "after_s", "lag", "margin_ms"),
    [({FLOW: 80}, 1, 10, 59_000), ({FLOW: 80}, 11, None, 49_000), ({FLOW: 70}, 1, 0, None), ({}, 1, None, None)],
)
def test_an_end_that_is_old_is_not_known_but_the_margin_goes_on(ends, after_s, lag, margin_ms):
    """An edge that does not answer has no lag that anybody knows; how long it keeps what waits is counted down."""
    found = shown(ends, after_s)
    assert (found.lag_records, found.end_offset is None, found.lag_ms is None) == (lag, lag is None, lag is None)
    assert found.retention_margin_ms == margin_ms


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("since_ms", "arrives", "age_ms", "hangs"),
    [
        pytest.param(CENTRAL_MS - HOUR_MS, 0, HOUR_MS + 5000, True, id="open for an hour"),
        pytest.param(CENTRAL_MS - 60_000, 0, 65_000, False, id="open for a minute"),
        pytest.param(CENTRAL_MS - HOUR_MS, 10, 0, False, id="records of an hour ago, but the end moves"),
        pytest.param(CENTRAL_MS + HOUR_MS, 0, 0, False, id="a clock ahead"),
        pytest.param(None, 0, None, False, id="nobody knows"),
    ],
)
def test_a_transaction_that_hangs_is_named(since_ms, arrives, age_ms, hangs):
    """Fault 23: no lag, and yet it stands; what its slot says of it goes first, and a silent edge has no numbers."""
    undecided = {FLOW: UndecidedOffsets(7, since_ms)}
    found = shown({FLOW: 70}, 1, arrives=arrives, undecided=undecided)
    assert (found.lag_records, found.undecided_records, found.undecided_ms) == (0, 7, age_ms)
    assert found.trouble.startswith("a transaction at the edge has been open since 2027-01-15T07:00:00Z") == hangs
    assert bool(found.trouble) == hangs
    assert shown({FLOW: 70}, 1, undecided=undecided, trouble="held, why").trouble == "held, why"
    assert shown({FLOW: 70}, 11, undecided=undecided).undecided_records is None
    assert shown({FLOW: 70}, 1).undecided_records == 0


def test_one_look_tells_lag_by_the_time_of_the_oldest_unread_record():
    """Nobody has watched the flow, so no track says how long anything waited; a log that was cut ends where it does."""
    entry = LedgerRecord(0, "id", 70, epoch=1, slot=0)
    logs = EdgeLogs(unread_ms={FLOW: CENTRAL_MS - 5000}, margins={FLOW: Margin(60_000, HOUR_MS)})

    def found(end: int, lost: Gap | None = None):
        shown = EdgeSnapshot(EdgeAnswer(0.0, ends={FLOW: end}), logs, 0.0)
        seen = flow_status(FLOW, entry, shown, None, lost=lost, trouble=NO_TROUBLE, moment=ClockPair(0.0, CENTRAL_MS))
        return seen.end_offset, seen.lag_records, seen.lag_ms, seen.retention_margin_ms

    assert found(80) == (80, 10, 5000, 60_000)
    assert found(70) == (70, 0, 0, None)
    assert found(40) == (70, 0, 0, None), "the position is newer than the end"
    assert found(40, Gap(GapKind.TRUNCATED, 40, None, 0)) == (40, 0, 0, None)
