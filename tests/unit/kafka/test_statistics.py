"""What a client says of itself, and when it is taken for lost."""

import json

import pytest

from aggregator.kafka.client.statistics import ClientStatistics

BOOTSTRAP = {"nodeid": -1, "source": "configured", "state": "INIT"}
COORDINATOR = {"nodeid": -1, "source": "logical", "state": "INIT"}


def told(*brokers: dict) -> str:
    """The text of a client that knows these."""
    numbers = dict.fromkeys(("msg_cnt", "msg_size", "rx_bytes", "tx_bytes"), 0)
    return json.dumps({"brokers": dict(enumerate(brokers)), "topics": {}, **numbers})


@pytest.mark.parametrize(
    ("texts", "lost"),
    [
        ([], False),
        ([told(BOOTSTRAP)] * 3, False),
        ([told()], False),
        ([told(), told(COORDINATOR)], True),
        ([told(), told(BOOTSTRAP), told()], False),
        ([told(), "no statistics", told()], True),
        (["{}", "[]", "3"], False),
    ],
    ids=["silent", "away", "once", "twice", "not in a row", "an unread one between", "another version's"],
)
def test_a_client_without_any_broker_is_lost_and_said_so_once(texts, lost):
    """Two reports in a row without a broker that could be asked; a cluster that is only away keeps its addresses."""
    statistics = ClientStatistics()
    for text in texts:
        statistics.take(text)
    assert statistics.take_lost() is lost
    assert not statistics.take_lost()
