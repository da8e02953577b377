"""Produces sample traffic for one edge: flights and bookings as any Confluent producer would write them, with some
poison records.

Invariant: the same arguments give the same records. A record counts as produced once the edge has acknowledged it.
"""

import io
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import fastavro

from aggregator.config.model import ClusterConfig
from aggregator.count_text import format_count
from aggregator.errors import FatalError
from aggregator.kafka.client.clients import plain_producer
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.cluster.topics import ensure
from aggregator.sandbox import bookings, flights
from aggregator.schema.registry import Registry
from aggregator.schema.wire import frame

PARTITIONS = 3
# One booking in a hundred is followed by the tombstone of its customer.
TOMBSTONE_EVERY = 100
# Two bookings for each flight, while the airport has flights.
BOOKINGS_PER_FLIGHT = 2
UNKNOWN_SCHEMA_ID = 999_999
_FLUSH_S = 60.0


class TrafficRecord(NamedTuple):
    """Describes one record to produce."""

    topic: str
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Produced:
    """Counts the records that one edge got.

    Attributes:
        flights: Records of the topic `flights`.
        bookings: Readable records of the topic `bookings`.
        tombstones: Records of `bookings` without a value.
        poison: Records of `bookings` that no schema can read.
    """

    flights: int
    bookings: int
    tombstones: int
    poison: int

    @property
    def total(self) -> int:
        """Count all records, poison included."""
        return self.flights + self.bookings + self.tombstones + self.poison


class Encoder:
    """Encodes values as Avro in Confluent's wire format, by the newest schema of a subject."""

    def __init__(self, registry: Registry, subject: str) -> None:
        versions = registry.versions(subject)
        if not versions:
            raise FatalError(f"the edge's registry has no schema for {subject}", hint="copy schemas/ into it")
        self.schema_id = versions[-1].schema_id
        self._schema = fastavro.parse_schema(json.loads(versions[-1].text))

    def encode(self, value: Any) -> bytes:
        """Encode a value as Avro, framed with the schema id."""
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, value)
        return frame(self.schema_id, body.getvalue())


def produce_traffic(
    edge: str,
    cluster: ClusterConfig,
    registry: Registry,
    *,
    whose: flights.Departures,
    count: int,
    seed: int = 2013,
) -> Produced:
    """Create the topics and write `count` records of some flights, and the poison on top.

    Args:
        edge: Name of the edge.
        cluster: The cluster to produce to.
        registry: The edge's registry; it holds the demo schemas.
        whose: The flights.
        count: Flights, bookings and tombstones together.
        seed: The seed of all generated data.

    Raises:
        FatalError: no schema, or a record that the edge did not take.
        Unreachable: the edge does not answer.
    """
    split = planned(count)
    departures = whose.read(max(split.flights, 1))
    missing = max(0, split.flights - len(departures))
    split = Produced(split.flights - missing, split.bookings + missing, split.tombstones, split.poison)
    ensure(cluster, [TopicSpec(topic, PARTITIONS) for topic in (flights.TOPIC, bookings.TOPIC)])
    _send(cluster, sample_records(split, departures, registry, random.Random(f"{seed}/{edge}")))
    return split


def planned(count: int) -> Produced:
    """Divide `count` records; poison comes on top."""
    departures = count // (1 + BOOKINGS_PER_FLIGHT)
    tombstones = (count - departures) // TOMBSTONE_EVERY
    return Produced(departures, count - departures - tombstones, tombstones, len(poison_values(0)))


def sample_records(
    split: Produced, departures: Sequence[flights.Flight], registry: Registry, draw: random.Random
) -> Iterator[TrafficRecord]:
    """Flights in order of departure, then bookings in order of their flight; tombstones and poison between them."""
    encoder = Encoder(registry, flights.SUBJECT)
    for flight in departures[: split.flights]:
        stamp = _milliseconds(flight["scheduled_departure"])
        yield TrafficRecord(flights.TOPIC, flight["flight_id"].encode(), encoder.encode(flight), stamp, _headers(draw))
    yield from _booked(split, departures, Encoder(registry, bookings.SUBJECT), draw)


def _booked(
    split: Produced, departures: Sequence[flights.Flight], encoder: Encoder, draw: random.Random
) -> Iterator[TrafficRecord]:
    # Poison and tombstones lie among good records, where they could do harm.
    poison = defaultdict(list)
    for index, value in enumerate(poison_values(encoder.schema_id)):
        poison[split.bookings * (index + 1) // (split.poison + 1)].append(value)
    erased = {split.bookings * index // split.tombstones for index in range(split.tombstones)}
    for index, booking in enumerate(bookings.generate_bookings(departures, split.bookings, draw)):
        key = booking["customer_id"].encode()
        stamp = _milliseconds(booking["booked_at"])
        headers = [*_headers(draw), ("x-user-email", booking["passenger"]["email"].encode())]
        yield TrafficRecord(bookings.TOPIC, key, encoder.encode(booking), stamp, headers)
        for value in poison[index]:
            yield TrafficRecord(bookings.TOPIC, key, value, stamp, headers)
        if index in erased:
            yield TrafficRecord(bookings.TOPIC, key, None, stamp, _headers(draw))


def poison_values(schema_id: int) -> list[bytes]:
    """Values that a hub must survive: each becomes one dead letter."""
    return [
        b'{"booking": "plain JSON, no magic byte"}',
        frame(UNKNOWN_SCHEMA_ID, b"\x02a"),
        # A string with a length of minus one, and one of 2^62 bytes that do not follow.
        frame(schema_id, b"\x01" * 40),
        frame(schema_id, b"\xfe" + b"\xff" * 8 + b"\x01"),
    ]


def _headers(draw: random.Random) -> list[tuple[str, str | bytes | None]]:
    return [("traceparent", f"00-{draw.getrandbits(128):032x}-{draw.getrandbits(64):016x}-01".encode())]


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _send(cluster: ClusterConfig, records: Iterable[TrafficRecord]) -> None:
    producer = plain_producer(cluster)
    refused: list[str] = []

    def answered(error: Any, _message: Any) -> None:
        if error is not None:
            refused.append(error.str())

    for record in records:
        while True:
            try:
                producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    timestamp=record.timestamp_ms,
                    headers=record.headers,
                    on_delivery=answered,
                )
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(_FLUSH_S)
    if left or refused:
        raise FatalError(
            f"{format_count(left + len(refused), 'record')} not taken by {cluster.bootstrap_servers}"
            + (f": {refused[0]}" if refused else ""),
            hint="read the end of the broker's log; aggregator sandbox status says where it runs",
        )
