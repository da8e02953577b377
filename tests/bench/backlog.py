"""What waits at the edge in the contests: records of a shape, with a given share of distinct identifiers."""

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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
class Shape:
    """Records of one kind.

    Attributes:
        schema: The writer's.
        dropped: Paths of personal data that nobody needs at central.
        identifiers: Paths of what tells people apart.
        shop: Path of a text that everybody leaves as it is, `berlin-mitte`.
        make: A record, from its number, whose it is, and about how many bytes it has.
        key: Its key, from the same two numbers.
        hides_keys: Whether keys are identifiers, too.
    """

    schema: dict[str, Any]
    dropped: tuple[str, ...]
    identifiers: tuple[str, ...]
    shop: str
    make: Callable[[int, int, int], dict[str, Any]]
    key: Callable[[int, int], bytes]
    hides_keys: bool = False


def _visit(number: int, who: int, size: int) -> dict[str, Any]:
    return {
        "id": number,
        "at": 1_700_000_000_000 + number,
        "shop": "berlin-mitte",
        "customer": f"c-{who:012d}",
        "device": f"d-{who * 7919 % 10**12:012d}",
        "name": f"Person Number {who}",
        "email": f"person.{who}@mail.example",
        "phone": f"+49 30 {who:08d}",
        "amount": number / 4,
        "note": "x" * max(0, size - _WITHOUT_NOTE),
    }


VISITS = Shape(SCHEMA, DROPPED, IDENTIFIERS, "shop", _visit, lambda number, _: b"k%d" % (number % 9973))


def _order(number: int, who: int, _: int) -> dict[str, Any]:
    return {
        "id": number,
        "at": 1_700_000_000_000 + number,
        "shop": "berlin-mitte",
        "buyer": {
            "customer": f"c-{who:012d}",
            "device": f"d-{who * 7919 % 10**12:012d}",
            "name": f"Person {who}",
            "email": f"p{who}@mail.example",
            "phone": f"+49 30 {who:08d}" if number % 3 else None,
        },
        "address": {"street": f"Street {who % 1000}", "flat": f"{who % 50}", "city": "Berlin"},
        "lines": [{"sku": f"s-{(number + at) % 5000}", "count": 1 + at, "price": 9.5} for at in range(1 + number % 2)],
        "coupon": "SPRING" if number % 10 == 0 else None,
        "amount": number / 4,
    }


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": at, "type": kind} for at, kind in fields.items()]}


_LINE = _record("Line", sku="string", count="int", price="double")
ORDERS = Shape(
    _record(
        "Order",
        id="long",
        at="long",
        shop="string",
        buyer=_record(
            "Buyer", customer="string", device="string", name="string", email="string", phone=["null", "string"]
        ),
        address=_record("Address", street="string", flat="string", city="string"),
        lines={"type": "array", "items": _LINE},
        coupon=["null", "string"],
        amount="double",
    ),
    ("buyer.name", "buyer.email", "buyer.phone", "address.street", "address.flat"),
    ("buyer.customer", "buyer.device"),
    "shop",
    _order,
    lambda _, who: b"c-%012d" % who,
    hides_keys=True,
)


@dataclass(frozen=True)
class Backlog:
    """Records on one edge topic.

    Attributes:
        topic: Where.
        records: How many.
        record_bytes: About how large each value is.
        distinct: Share of identifiers that are another value than any before.
        partitions: Of the topic.
        shape: What they are.
        codec: What the writer compresses batches with, and every contestant, too.
    """

    topic: str
    records: int
    record_bytes: int
    distinct: float
    partitions: int = PARTITIONS
    shape: Shape = VISITS
    codec: str = "none"

    def fill(self, bootstrap: str) -> None:
        """Make the topic and put the records there."""
        admin = AdminClient({"bootstrap.servers": bootstrap})  # one that nobody holds cancels what it was asked
        settle(admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]))
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1_000_000, "compression.type": self.codec}
        )
        headers = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c")]
        for number, (key, value) in enumerate(self.pairs()):
            while True:
                try:
                    producer.produce(self.topic, value, key, number % PARTITIONS, headers=headers)
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
        assert producer.flush(120) == 0

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in order."""
        schema, rng = fastavro.parse_schema(self.shape.schema), random.Random(1)
        people = max(1, int(self.records * self.distinct))
        for number in range(self.records):
            who = number if people == self.records else rng.randrange(people)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, self.shape.make(number, who, self.record_bytes))
            yield self.shape.key(number, who), b"\0" + SCHEMA_ID.to_bytes(4, "big") + out.getvalue()
