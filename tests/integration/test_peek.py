"""The newest record's time is read from the log itself, whatever release its cluster is."""

import json

import pytest
from confluent_kafka import Producer

from aggregator.kafka.readers.single_records import last_timestamps

pytestmark = pytest.mark.brokers

ABORTED = 15


def test_the_last_timestamp_is_that_of_the_last_committed_record(clusters, trial):
    """It is found behind markers and aborted records, however many; a partition without a record has none."""
    producer = Producer({"bootstrap.servers": clusters.central.bootstrap, "transactional.id": trial.mark})
    trial.create("central", 3)
    producer.init_transactions(30)
    for at, stamps in enumerate([[1000, 2000], [3000, 1500]]):
        for stamp in stamps:
            producer.begin_transaction()
            producer.produce(trial.topic, b"kept", partition=at, timestamp=stamp)
            producer.commit_transaction(30)
    for _ in range(ABORTED):
        producer.begin_transaction()
        producer.produce(trial.topic, b"aborted", partition=0, timestamp=9000)
        producer.flush(30)
        producer.abort_transaction(30)
    partitions = [(trial.topic, at) for at in range(3)]
    found = last_timestamps(clusters.central.config, partitions, timeout_s=30)
    assert found == {partitions[0]: 2000, partitions[1]: 1500}


def peeked(trial, *words):
    """The records that the command shows."""
    done = trial.typed("peek", *words, "-o", "json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def fields(record, column):
    return {one["path"]: one[column] for one in record["fields"]}


def test_a_record_is_looked_at_on_both_sides(trial):
    """By its place or the newest, before and after; values where somebody asks for them; what is not there is said."""
    trial.produce("eu", 30)
    trial.drain_here()
    edge, central = f"eu/{trial.topic}", f"central/eu.{trial.topic}"
    (one,) = peeked(trial, f"{edge}/1/4", "--after", "--show-values")
    assert (one["partition"], one["offset"]) == (1, 4)
    assert fields(one, "before")["value.email"].endswith('x.example"')
    assert fields(one, "after")["value.email"] == "(gone)"
    (hidden,) = peeked(trial, f"{edge}/1/4/0")
    assert fields(hidden, "value")["value.email"].startswith("text of ")
    assert len(peeked(trial, edge, "--count", "5")) == 5
    (there,) = peeked(trial, f"{central}/1/4", "--show-values")
    assert fields(there, "value")["headers.hub.origin"].startswith(f'"{trial.hub}/eu/{trial.topic}/1/')
    assert not any("email" in path for path in fields(there, "value"))
    assert len(peeked(trial, central)) == 1, "a log that ends with a marker has a newest record, too"
    for words, code, told in (
        ((f"{edge}/1/400",), 1, "has no offset 400, but offsets 0 to "),
        ((f"{edge}/7",), 1, "has no partition 7"),
        (("eu/none",), 1, "has no topic none"),
        (("xx/orders",), 2, "there are central, eu, us"),
        ((central, "--after"), 2, "have been stripped"),
        (("eu",), 2, "is EDGE/TOPIC"),
        ((f"{edge}/x",), 2, "is EDGE/TOPIC"),
    ):
        done = trial.typed("peek", *words)
        assert done.exit_code == code, done.stderr
        assert told in done.stderr
