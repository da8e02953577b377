"""Both ends of the latency bench, each a process of its own: orders written at an even rate, and orders as they show.

    python -m tests.bench.pace write RATE SECONDS TOPIC SERVERS [SERVERS …]
    python -m tests.bench.pace watch FILE TOPIC[,TOPIC …] SERVERS

An order's last field is the moment of its `produce` call on the machine's monotonic clock, which all processes share:
the last eight bytes of the value, at the edge as at central, in a copy as in a stripped record. Its timestamp is the
moment of its append, which the edge's broker writes into it (`APPEND_TIME`) and a copy preserves; how long the broker
lets a producer wait is thus told apart. Both processes do next to nothing per record, so that they are not what is
measured; both say what they cost.
"""

import io
import json
import signal
import struct
import sys
import time
from array import array

import fastavro
import numpy as np
from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

from tests.trial import HEADERS, ORDER

PARTITIONS = 3
# How an edge's topic has to be created.
APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}
SCHEMA_ID = 7
_TICK_S = 0.002
_HEADS = 997
_EMAIL = "someone.with.a.long.name.%d@department.of.a.company.with.a.long.name.example"
_MOMENT = struct.Struct("<d")


def _heads() -> list[bytes]:
    """Everything of an order but its moment; about 130 bytes."""
    schema, heads = fastavro.parse_schema(ORDER), []
    for number in range(_HEADS):
        out = io.BytesIO()
        order = {"id": number, "email": _EMAIL % number, "customer": f"customer-{number:012d}", "amount": 0.0}
        fastavro.schemaless_writer(out, schema, order)
        heads.append(b"\0" + SCHEMA_ID.to_bytes(4, "big") + out.getvalue()[: -_MOMENT.size])
    return heads


def write(rate: float, seconds: float, topic: str, servers: list[str]) -> dict[str, float]:
    """Write `rate` orders a second to each edge, what is due every two milliseconds.

    Returns:
        Moments of the first and last record, records per edge, CPU time, and how late the latest tick was.
    """
    options = {"linger.ms": 1, "acks": "all", "queue.buffering.max.messages": 1_000_000}
    producers = [Producer({"bootstrap.servers": one} | options) for one in servers]
    for producer in producers:
        producer.list_topics(topic, 10)
    heads, keys = _heads(), [b"k%d" % number for number in range(_HEADS)]
    clock, moment = time.monotonic, _MOMENT.pack
    began, written, late_s = clock(), 0, 0.0
    while (now := clock() - began) < seconds:
        due = int(now * rate)
        late_s = max(late_s, now - written / rate) if written else 0.0
        for number in range(written, due):
            at = number % _HEADS
            for producer in producers:
                producer.produce(topic, heads[at] + moment(clock()), keys[at], number % PARTITIONS, headers=HEADERS)
        written = due
        for producer in producers:
            producer.poll(0)
        time.sleep(_TICK_S)
    ended = clock()
    assert not any(producer.flush(30) for producer in producers), "the edge did not take every record"
    spent = time.process_time()
    return {"first": began, "last": ended, "records": written, "late_ms": late_s * 1e3, "cpu_s": spent}


def watch(file: str, topics: list[str], servers: str) -> None:
    """Note when each new record shows to a read_committed reader, until SIGTERM; then write all three moments of all.

    Timestamps are whole milliseconds, so that an append may be told up to one too early.
    """
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "watch",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(topic, partition, OFFSET_END) for topic in topics for partition in range(PARTITIONS)])
    written, appended, counts, shown = array("d"), array("d"), array("l"), array("d")
    epoch = time.time() - time.monotonic()
    print("watching", flush=True)
    while not over:
        first = reader.poll(0.1)
        if first is None:
            continue
        messages = [first, *reader.consume(100_000, 0)]
        now = time.monotonic()
        messages = [message for message in messages if message.error() is None]
        values = list(map(Message.value, messages))
        written.extend(_MOMENT.unpack_from(value, len(value) - _MOMENT.size)[0] for value in values)
        appended.extend(at_ms / 1e3 - epoch for _, at_ms in map(Message.timestamp, messages))
        counts.append(len(messages))
        shown.append(now)
    reader.close()
    moments = {"written": written, "appended": appended, "shown": np.repeat(shown, counts)}
    np.savez(file, **moments, cpu_s=time.process_time())


def main() -> None:
    """One of the two."""
    what, *rest = sys.argv[1:]
    if what == "write":
        rate, seconds, topic, *servers = rest
        print(json.dumps(write(float(rate), float(seconds), topic, servers)))
    else:
        file, topics, servers = rest
        watch(file, topics.split(","), servers)


if __name__ == "__main__":
    main()
