"""What one look says of edges while no hub runs."""

import pytest

from aggregator.observe.status import unwatched
from tests.unit.observe.story import config


def told(hub=None, **changes):
    """State and reason."""
    look = {"answers": True, "trouble": "", "age_ms": 25_000, "gaps": 0, "pause": None} | changes
    state = unwatched(hub or config(), **look)
    return state.state, state.reason


@pytest.mark.parametrize("age_ms", [None, 25_000])
def test_without_a_hub_nobody_is_asked_after_its_slots(age_ms):
    """A drain has ended with 0, and its edges have no heartbeats since: that is not the edge's trouble."""
    state, reason = told(age_ms=age_ms)
    assert state == "STALLED"
    assert reason == "the edge answers, and no hub runs that would send it heartbeats: aggregator run"


def test_heartbeats_of_somebody_else_are_asked_after():
    """Where the hub sends none, whoever writes them near the edge may have stopped."""
    state, reason = told(config(heartbeats={"emit": False}))
    assert state == "STALLED"
    assert "no heartbeat has arrived for 25 s" in reason


def test_an_edge_that_does_not_answer_says_why():
    """A wrong password, a port on which nobody listens: as beside a hub that runs."""
    state, reason = told(answers=False, trouble="no broker lets the hub in at e:1")
    assert state == "UNREACHABLE"
    assert "(no broker lets the hub in at e:1)" in reason
