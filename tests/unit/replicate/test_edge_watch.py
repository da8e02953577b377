"""The watch of one edge, where the edge does not answer."""

import pytest

from aggregator.config.model import HubConfig
from aggregator.replicate.discovery import edge_watch
from aggregator.replicate.discovery.edge_watch import EdgeWatch

CONFIG = HubConfig(
    hub="h",
    central={"bootstrap_servers": "127.0.0.1:1"},
    edges={"eu": {"bootstrap_servers": "127.0.0.1:1"}},
    heartbeats={"emit": False},
)


@pytest.mark.parametrize(("discovers", "said"), [(True, 1), (False, 0)], ids=["a driver's", "a monitor's own"])
def test_an_edge_that_does_not_answer_is_an_answer(monkeypatch, caplog, discovers, said):
    """It is shown and hides nothing known; a run says it once, and a monitor without a run says nothing."""
    monkeypatch.setattr(edge_watch, "_TOPICS_TIMEOUT_S", 0.1)
    watch = EdgeWatch(CONFIG, "eu", lambda *_: "", discovers=discovers)
    watch.follow(tuple)
    watch.ask()
    watch.ask()
    assert watch.answer.trouble.startswith("no broker answers at 127.0.0.1:1")
    assert (watch.answer.answered_s, watch.answer.ends_s, watch.topics) == (None, 0.0, None)
    assert [one.getMessage() for one in caplog.records if one.name == edge_watch.__name__] == [
        f"edge eu: {watch.answer.trouble}"
    ] * said
