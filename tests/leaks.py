"""The byte search through everything that a hub leaves behind, for what must be nowhere.

Bytes are searched as they lie (log segments, Parquet, Delta log, schemas, logs) and as they are read (records of every
central topic, aborted ones included, and the columns of Parquet files, whose pages are compressed).
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.canary import recognised, text_traces
from tests.trial import Trial

# What a trial's own records carry and no one may see: `tests.trial.HEADERS`, and the addresses of its orders.
MARKS = ("canary@x.example", "@x.example")
# What the trial itself wrote and the hub reads, its configuration and policies apart: schemas, and foreign code.
_OWN = ("schemas", "foreign")


class Place(NamedTuple):
    """Bytes, and where they lie."""

    name: str
    data: bytes


def assert_no_canary(trial: Trial, *, said: str = "", traces: Mapping[bytes, str] | None = None) -> int:
    """I5: search all that the hub left behind.

    Args:
        trial: The hub under test, stopped or running.
        said: What commands printed; running hubs write to files that are searched anyway.
        traces: What must be nowhere, each with its name; None for the marks in a trial's own records.

    Returns:
        Bytes searched.

    Raises:
        AssertionError: names each place with the encoding that was found there.
    """
    wanted = traces or {trace: name for mark in MARKS for trace, name in text_traces(mark).items()}
    searched, found = 0, []
    for place in (*places(trial), Place("what was printed", said.encode())):
        searched += len(place.data)
        found += [f"{place.name}: {name}" for name in recognised(place.data, wanted)]
    assert not found, "\n".join(sorted(set(found))[:20])
    return searched


def places(trial: Trial) -> Iterator[Place]:
    """Everything that the hub left behind."""
    yield from segments(trial)
    yield from records(trial)
    yield from files(trial)
    yield Place("status", json.dumps(trial.status()).encode())


def segments(trial: Trial) -> Iterator[Place]:
    """Log segments of the hub's central topics and of the broker's own, and the broker's log.

    Index files hold offsets alone, and ten megabytes of nothing each.
    """
    for broker in trial.sandbox.central.brokers:
        for path in sorted(broker.data.glob("*/*.log")):
            if trial.mark in path.parent.name or path.parent.name.startswith("__"):
                yield Place(f"segment {path.parent.name}/{path.name}", path.read_bytes())
        yield Place("broker log", broker.log.read_bytes())


def records(trial: Trial) -> Iterator[Place]:
    """Every record of the hub's central topics as a plain consumer reads it, of aborted transactions too."""
    for message in messages(trial, "read_uncommitted"):
        headers = [part for pair in message.headers() or () for part in pair]
        yield Place(f"record of {message.topic()}", _joined([message.key(), message.value(), *headers]))


def messages(trial: Trial, isolation: str = "read_committed") -> Iterator[Message]:
    """All messages of the hub's central topics, to their ends; the hub has stopped, or may write on behind them."""
    options = {
        "bootstrap.servers": trial.sandbox.central.bootstrap,
        "group.id": "unused",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
    }
    consumer = Consumer(options)
    try:
        known = consumer.list_topics(timeout=10).topics
        left = {(topic, partition) for topic in central_topics(trial) for partition in known[topic].partitions}
        consumer.assign([TopicPartition(*at, 0) for at in left])
        patience = time.monotonic() + 60
        while left:
            assert time.monotonic() < patience, f"could not be read to their ends: {sorted(left)}"
            for message in consumer.consume(5000, 0.1):
                if message.error() is None:
                    yield message
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    left.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


def central_topics(trial: Trial) -> list[str]:
    """Topics at central that carry the trial's mark: its copies, and the hub's own."""
    return sorted(topic for topic in trial.admin("central").list_topics(timeout=10).topics if trial.mark in topic)


def files(trial: Trial) -> Iterator[Place]:
    """Files of the lake, of central's schemas, and the logs of hubs that ran in the background."""
    for path in sorted(trial.folder.rglob("*")):
        name = path.relative_to(trial.folder)
        if path.is_file() and name.parts[0] not in _OWN and path.suffix != ".yaml":
            yield Place(str(name), path.read_bytes() + str(name).encode())
            if path.suffix == ".parquet":
                yield Place(f"columns of {name}", parquet(path))


def parquet(path: Path) -> bytes:
    """The values of a Parquet file, decoded, with its metadata."""
    table = pq.read_table(path)
    values = [value for column in table.columns for value in column.to_pylist()]
    return _joined([*_leaves(values), repr(table.schema.metadata), repr(pq.ParquetFile(path).metadata.to_dict())])


def _leaves(values: Iterable) -> Iterator:
    for value in values:
        if isinstance(value, dict):
            yield from _leaves([*value.keys(), *value.values()])
        elif isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _joined(parts: Iterable) -> bytes:
    return b"\n".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
