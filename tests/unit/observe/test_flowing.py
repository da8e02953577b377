"""One flow as a running monitor shows it: what is known is shown, and nothing that is not known any more."""

import pytest

from aggregator.kafka.ledger import LedgerRecord
from aggregator.observe.flowing import live_flow
from aggregator.observe.look import EdgeLook
from aggregator.observe.probe import Probed
from aggregator.replicate.retention import Margin
from tests.unit.observe.test_account import FLOW, Story, moment


def shown(ends: dict, after_s: float):
    """The flow so many seconds after its edge last told its ends; ten of its records wait then."""
    story = Story()
    story.live(4, reads=10)
    now = moment(story.second + after_s)
    look = EdgeLook(True, margins={FLOW: Margin(60_000, 3_600_000)})
    probed = Probed(0.0, "", moment(story.second).now_s, ends, looked_s=moment(story.second).now_s, look=look)
    entry = LedgerRecord(0, "id", 70, epoch=1, slot=0)
    return live_flow(FLOW, entry, story.account, probed, lost=None, trouble="", moment=now)


@pytest.mark.parametrize(
    ("ends", "after_s", "lag", "margin_ms"),
    [({FLOW: 80}, 1, 10, 59_000), ({FLOW: 80}, 11, None, 49_000), ({FLOW: 70}, 1, 0, None), ({}, 1, None, None)],
)
def test_an_end_that_is_old_is_not_known_but_the_margin_goes_on(ends, after_s, lag, margin_ms):
    """An edge that does not answer has no lag that anybody knows; how long it keeps what waits is counted down."""
    found = shown(ends, after_s)
    assert (found.lag_records, found.end_offset is None, found.lag_ms is None) == (lag, lag is None, lag is None)
    assert found.retention_margin_ms == margin_ms
