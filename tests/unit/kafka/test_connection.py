"""A client that is lost is left, and another stands in its place; what goes on then is in `test_lost_clients.py`."""

import json
import shutil

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients, credentials
from aggregator.kafka.client.connection import Connection, drop
from aggregator.kafka.writers.writer import TransactionalWriter
from tests.authority import Authority

NO_BROKERS = json.dumps(
    {"brokers": {}, "topics": {}} | dict.fromkeys(("msg_cnt", "msg_size", "rx_bytes", "tx_bytes"), 0)
)

CLUSTER = ClusterConfig(bootstrap_servers="h:1")


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
    return Connection(CLUSTER, lambda _, *, stats_cb, **__: Client(said, stats_cb)), said


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
    kept = Connection(CLUSTER, lambda _, *, stats_cb, **__: Client(said, stats_cb), left.append)
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


@pytest.fixture
def renewed(tmp_path, monkeypatch):
    """A cluster with a password and a key in files, and a way to write each anew."""
    monkeypatch.setattr(credentials, "EVERY_S", 0.0)
    files = {"sasl.password": tmp_path / "password", "ssl.key.location": tmp_path / "key"}

    def write(name: str, text: str) -> None:
        fresh = tmp_path / "fresh"
        fresh.write_text(text)
        fresh.replace(files[name])

    for name in files:
        write(name, "first")
    client = {"sasl.password": f"file:{files['sasl.password']}", "ssl.key.location": str(files["ssl.key.location"])}
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "hub"}
    return ClusterConfig(bootstrap_servers="h:1", client=login | client), write


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.location"])
def test_a_client_is_made_anew_when_what_it_signs_in_by_is_renewed(renewed, name):
    """Once for each change; the new client is there before the former one leaves."""
    cluster, write = renewed
    said = []
    kept = Connection(cluster, lambda _, *, stats_cb, **__: Client(said, stats_cb))
    assert not kept.renew()
    write(name, "second")
    assert kept.renew()
    assert not kept.renew()
    assert said == ["made", "made", "closed"]


def test_what_is_half_renewed_is_tried_again(renewed):
    """A certificate without its key makes no client: the former one goes on, and nothing is raised."""
    cluster, write = renewed
    said, whole = [], [True]

    def connect(_cluster, *, stats_cb, **_options):
        if not whole[0]:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "the key does not fit"))
        return Client(said, stats_cb)

    kept = Connection(cluster, connect)
    first, whole[0] = kept.client, False
    write("sasl.password", "second")
    assert not kept.renew()
    write("ssl.key.location", "")
    assert not kept.renew()
    assert kept.client is first
    write("ssl.key.location", "second")
    whole[0] = True
    assert kept.renew()
    assert said == ["made", "made", "closed"]


def test_the_process_s_admin_client_signs_in_anew(renewed):
    """It is kept for as long as the process lives."""
    cluster, write = renewed
    cluster = cluster.model_copy(update={"client": {k: v for k, v in cluster.client.items() if "key" not in k}})
    first = clients.admin(cluster)
    assert clients.admin(cluster) is first
    write("sasl.password", "second")
    second = clients.admin(cluster)
    assert second is not first
    assert clients.admin(cluster) is second
    clients._admins().clear()
    clients._retired().clear()


def test_a_writer_is_outdated_by_what_it_cannot_take_and_another_could(tmp_path, monkeypatch):
    """A new certificate without its key is tried again; a password it takes itself."""
    monkeypatch.setattr(credentials, "EVERY_S", 0.0)
    (tmp_path / "issued").mkdir()
    authority = Authority(tmp_path / "issued")

    def issue(*kept: str) -> None:
        for path in authority.issue("hub"):
            if path.suffix not in kept:
                shutil.copy(path, tmp_path)

    issue()
    (tmp_path / "password").write_text("first")
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "hub",
        "sasl.password": f"file:{tmp_path / 'password'}",
        "ssl.certificate.location": str(tmp_path / "hub.crt"),
        "ssl.key.location": str(tmp_path / "hub.key"),
    }
    writer = TransactionalWriter(ClusterConfig(bootstrap_servers="127.0.0.1:1", client=client), "hub.driver")
    assert not writer.check_credentials_changed()
    (tmp_path / "password").write_text("the second")
    assert not writer.check_credentials_changed()
    issue(".key")
    assert not writer.check_credentials_changed()
    issue()
    assert writer.check_credentials_changed()
    assert writer.check_credentials_changed(), "until another one stands in its place"
    writer.close()
