"""The traffic is the same every time, fits its schemas, and holds what the demo promises."""

import io
import json
import random
from itertools import islice

import fastavro
import pytest

from aggregator.errors import DeadLetterError
from aggregator.sandbox import traffic
from aggregator.sandbox.bookings import generate_bookings
from aggregator.sandbox.flights import departures, read_flights
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import split
from aggregator.shipped import SCHEMAS


@pytest.fixture(scope="module")
def flights():
    """A morning at JFK."""
    return read_flights("JFK", 100)


@pytest.fixture
def registry():
    """The committed schemas."""
    return open_registry(f"directory:{SCHEMAS}")


def _records(registry, flights, count=600):
    plan = traffic.planned(count)
    return plan, list(traffic.sample_records(plan, flights, registry, random.Random(1)))


@pytest.mark.slow
def test_flights_are_real_and_in_order(flights):
    """A hundred departures of one airport, each with its own id, in order of time."""
    assert {flight["origin"] for flight in flights} == {"JFK"}
    assert len({flight["flight_id"] for flight in flights}) == 100
    assert flights == sorted(flights, key=lambda flight: (flight["scheduled_departure"], flight["flight_id"]))


def test_an_airport_that_is_not_there_has_no_flights():
    """Nothing is invented for a name that the data does not have."""
    assert read_flights("XXX", 10) == []


@pytest.mark.parametrize(
    ("edges", "airports"),
    [
        (["ewr", "jfk", "lga"], ["EWR", "JFK", "LGA"]),
        (["eu", "us"], ["EWR", "JFK"]),
        (["eu", "ewr"], ["JFK", "EWR"]),
        (["jfk", "a", "b", "c"], ["JFK", "EWR", "LGA", "EWR"]),
    ],
)
def test_an_edge_of_any_name_has_an_airport(edges, airports):
    """An airport's namesake has its flights, the others those of the airport that the fewest have."""
    whose = departures(edges)
    assert [whose[edge].airport for edge in edges] == airports
    assert len(set(whose.values())) == len(edges)


@pytest.mark.slow
def test_edges_that_share_an_airport_have_no_flight_in_common():
    """They take its departures in turn; alone, an edge has all of them, in order of time."""
    whose = departures(["jfk", "a", "b", "c"])
    first, second = ([flight["flight_id"] for flight in whose[edge].read(50)] for edge in ("a", "c"))
    together = [flight["flight_id"] for flight in read_flights("EWR", 100)]
    assert (first, second) == (together[::2], together[1::2])
    assert whose["jfk"].read(10) == read_flights("JFK", 10)


def test_the_same_seed_gives_the_same_bookings(flights):
    """A demo can be told about: its records are the same on every machine."""
    first, second = (list(generate_bookings(flights, 50, random.Random(7))) for _ in range(2))
    assert first == second


def test_bookings_have_something_of_everything(flights):
    """Optional fields are sometimes there and sometimes not; so are contacts; a customer keeps one identity."""
    made = list(generate_bookings(flights, 500, random.Random(7)))
    for field in ("seat", "note"):
        assert {booking[field] is None for booking in made} == {True, False}
    for field in ("passport", "phone"):
        assert {booking["passenger"][field] is None for booking in made} == {True, False}
    assert {len(booking["contacts"]) for booking in made} == {0, 1, 2}
    addresses = {}
    for booking in made:
        address = booking["passenger"]["email"].lower()
        assert addresses.setdefault(booking["customer_id"], address) == address


@pytest.mark.parametrize("count", [0, 1, 2, 3, 30, 1000, 12345])
def test_the_plan_adds_up(count):
    """Flights, bookings and tombstones are exactly what was asked for; poison comes on top."""
    plan = traffic.planned(count)
    assert plan.total - plan.poison == count
    assert min(plan.flights, plan.bookings, plan.tombstones) >= 0


def test_as_many_records_as_planned(registry, flights):
    """The plan is what is produced: per topic, tombstone and poison."""
    plan, records = _records(registry, flights)
    bookings = [record for record in records if record.topic == "bookings"]
    assert len(records) - len(bookings) == min(plan.flights, len(flights))
    assert len(bookings) == plan.bookings + plan.tombstones + plan.poison
    assert sum(record.value is None for record in bookings) == plan.tombstones > 0


def test_poison_is_unreadable_and_the_rest_is_not(registry, flights):
    """Every value decodes with its own schema, but for exactly the planned number of poison records."""
    plan, records = _records(registry, flights)
    unreadable = [record for record in records if record.value is not None and not _decodes(record.value, registry)]
    assert len(unreadable) == plan.poison
    assert {record.value for record in unreadable} == set(traffic.poison_values(2))


def _decodes(value, registry):
    try:
        schema_id, body = split(value)
        stream = io.BytesIO(body)
        fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(registry.schema(schema_id))), None)
    except (DeadLetterError, ValueError, EOFError, IndexError, MemoryError, OverflowError):
        return False
    return stream.tell() == len(body)


def test_headers_hold_one_that_must_not_pass(registry, flights):
    """Bookings carry a trace header, which passes, and the user's address, which must not."""
    _, records = _records(registry, flights)
    names = {name for record in islice(records, 300, None) for name, _ in record.headers}
    assert names == {"traceparent", "x-user-email"}


def test_schemas_are_tagged():
    """Personal data in the bookings' schema is tagged, where the policy looks for it."""
    text = (SCHEMAS / "bookings-value" / "1-2.avsc").read_text()
    tags = {tag for field in json.loads(text)["fields"] for tag in field.get("confluent:tags", [])}
    assert {"PII", "PII.ID", "PII.TEXT"} <= tags
