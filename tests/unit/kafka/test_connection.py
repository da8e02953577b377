"""A client that is lost is left, and another stands in its place; what goes on then is in `test_lost_clients.py`."""

import json

from confluent_kafka import Producer

from aggregator.kafka.connection import Connection, drop

NO_BROKERS = json.dumps(
    {"brokers": {}, "topics": {}} | dict.fromkeys(("msg_cnt", "msg_size", "rx_bytes", "tx_bytes"), 0)
)


class Client:
    """Notes what becomes of it."""

    def __init__(self, said, stats_cb):
        self.said, self.tell = said, stats_cb
        said.append("made")

    def close(self):
        self.said.append("closed")


def connection():
    """One, and what becomes of its clients."""
    said = []
    return Connection(lambda *, stats_cb, **_: Client(said, stats_cb)), said


def test_a_client_is_kept_while_it_knows_a_broker():
    """One report without any may be a moment between old brokers and new ones."""
    kept, said = connection()
    first = kept.client
    first.tell(NO_BROKERS)
    assert not kept.renew()
    assert kept.client is first
    assert said == ["made"]


def test_a_lost_client_is_left_before_another_is_made():
    """Two would share a prefetch bound that is meant for one; the next one is judged by its own reports."""
    kept, said = connection()
    first = kept.client
    for _ in range(2):
        first.tell(NO_BROKERS)
    assert kept.renew()
    assert kept.client is not first
    assert said == ["made", "closed", "made"]
    kept.client.tell(NO_BROKERS)
    assert not kept.renew()


def test_its_user_may_leave_a_lost_client_in_another_way():
    """As for a producer, whose `close` would wait for what is queued; at the end the client is closed as ever."""
    left, said = [], []
    kept = Connection(lambda *, stats_cb, **_: Client(said, stats_cb), left.append)
    first = kept.client
    for _ in range(2):
        first.tell(NO_BROKERS)
    kept.renew()
    kept.close()
    assert left == [first]
    assert said == ["made", "made", "closed"]


def test_a_dropped_producer_waits_for_nothing():
    """What is queued for a cluster that is away goes with it, and its time-out of minutes is not waited for."""
    ends = []
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    producer.produce("topic", b"value", on_delivery=lambda error, _: ends.append(error.name()))
    drop(producer)
    assert ends == ["_PURGE_QUEUE"]
