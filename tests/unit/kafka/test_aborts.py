"""Aborts of a transaction at librdkafka's own test cluster."""

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException

from aggregator.kafka.native.library import rd
from aggregator.kafka.native.producer import Producer


@pytest.fixture
def producer():
    options = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "transactional.id": "hub.driver"}
    made = Producer(options, logging.getLogger(__name__))
    made.init_transactions(20)
    yield made
    made.close()


def open_transaction(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("visits", 0, b"key", b"value")
    producer.flush(20)


def test_a_transaction_begins_after_an_abort_that_librdkafka_did_not_note(producer, monkeypatch):
    """The lease ended, and the hub with it: "Operation not valid in state AbortedNotAcked", on a busy machine."""
    open_transaction(producer)
    with monkeypatch.context() as patched:
        patched.setattr(rd, "abort_transaction", lambda *_: None)
        producer.abort_transaction(20)
    for _ in range(2):
        open_transaction(producer)
        producer.commit_transaction(20)


def test_an_open_transaction_is_not_aborted_by_the_next_one(producer):
    """Only what was aborted is aborted again."""
    open_transaction(producer)
    producer.abort_transaction(20)
    open_transaction(producer)
    with pytest.raises(KafkaException) as refused:
        producer.begin_transaction()
    assert refused.value.args[0].code() == KafkaError._STATE
    producer.commit_transaction(20)


def test_an_abort_without_a_transaction_is_refused(producer):
    """It is tried once more, and no longer."""
    with pytest.raises(KafkaException) as refused:
        producer.abort_transaction(20)
    assert refused.value.args[0].code() == KafkaError._STATE
