"""What waits at the edge in the contest: customer records of a given size and a given share of distinct identifiers."""

import io
import random
from dataclasses import dataclass

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.trial import settle

SCHEMA_ID = 11
PARTITIONS = 4
_WITHOUT_NOTE = 130  # bytes of a record whose note is empty
DROPPED = ("name", "email", "phone")
IDENTIFIERS = ("customer", "device")
SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": "long"},
        {"name": "shop", "type": "string"},
        *({"name": name, "type": "string"} for name in (*IDENTIFIERS, *DROPPED)),
        {"name": "amount", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}


@dataclass(frozen=True)
class Backlog:
    """Records on one edge topic.

    Attributes:
        topic: Where.
        records: How many.
        record_bytes: About how large each value is.
        distinct: Share of identifiers that are another value than any before.
    """

    topic: str
    records: int
    record_bytes: int
    distinct: float
    partitions: int = PARTITIONS

    def fill(self, bootstrap: str) -> None:
        """Make the topic and put the records there."""
        admin = AdminClient({"bootstrap.servers": bootstrap})  # one that nobody holds cancels what it was asked
        settle(admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]))
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1_000_000, "compression.type": "none"}
        )
        headers = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c")]
        for number, value in enumerate(self._values()):
            while True:
                try:
                    producer.produce(self.topic, value, b"k%d" % (number % 9973), number % PARTITIONS, headers=headers)
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
        assert producer.flush(120) == 0

    def _values(self):
        schema, rng = fastavro.parse_schema(SCHEMA), random.Random(1)
        people = max(1, int(self.records * self.distinct))
        note = "x" * max(0, self.record_bytes - _WITHOUT_NOTE)
        for number in range(self.records):
            who = number if people == self.records else rng.randrange(people)
            record = {
                "id": number,
                "at": 1_700_000_000_000 + number,
                "shop": "berlin-mitte",
                "customer": f"c-{who:012d}",
                "device": f"d-{who * 7919 % 10**12:012d}",
                "name": f"Person Number {who}",
                "email": f"person.{who}@mail.example",
                "phone": f"+49 30 {who:08d}",
                "amount": number / 4,
                "note": note,
            }
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, record)
            yield b"\0" + SCHEMA_ID.to_bytes(4, "big") + out.getvalue()
