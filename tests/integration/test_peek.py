"""The newest record's time is read from the log itself, whatever release its cluster is."""

import pytest
from confluent_kafka import Producer

from aggregator.kafka.readers.peek import last_timestamps

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
    found = last_timestamps(clusters.central.config, partitions, patience_s=30)
    assert found == {partitions[0]: 2000, partitions[1]: 1500}
