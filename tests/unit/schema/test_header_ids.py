"""Wire format 1: the schema's GUID in a header, the bare body as value."""

import time
import uuid
from datetime import date

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from aggregator.errors import DeadLetterError, HoldError, Reason, RetryError
from aggregator.privacy.batch.strip import Batch, Rejection
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.guids import FIRST, Guids
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import KEY_ID_HEADER, VALUE_ID_HEADER, frame, header_id, split
from tests.reference.reference import ReferenceStrip

GUID = uuid.UUID("0b5b4b4e-3e6c-4f4f-9c5a-2f7f3a1f0d11")
HEADER = b"\1" + GUID.bytes
SCHEMA = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"y","type":"int"}]}'
POLICY = (
    "policy: p\nversion: 1\n"
    "topics: {orders: {key: KEY, fields: {x: keep}, headers: [__value_schema_id, traceparent]}}\n"
)


@pytest.fixture
def known(double):
    """An edge whose schema 1 has the GUID."""
    double.guids[str(GUID)] = double.add("orders-value", SCHEMA)
    return double


@pytest.fixture
def make(tmp_path):
    """A strip of `orders` behind some edge registry."""

    def made(edge, key="drop", central=None, patience_s=0.0):
        return ReferenceStrip(
            policy=parse_policy(POLICY.replace("KEY", key)),
            edge_topic="orders",
            central_topic="eu.orders",
            edge_registry=edge,
            central_registry=central or open_registry(f"directory:{tmp_path / 'central'}"),
            key_rings={},
            now_s=time.monotonic,
            today=lambda: date(2026, 11, 1),
            patience_s=patience_s,
        )

    return made


def test_a_stock_serialisers_header_is_read():
    """What confluent-kafka writes into the header is what is read here; nothing else is."""
    headers = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    assert header_schema_id_serializer(b"body", context, SchemaId("AVRO", 1, str(GUID))) == b"body"
    ((name, value),) = headers
    assert (name, header_id(value)) == (VALUE_ID_HEADER, GUID)
    assert header_id(frame(7, b"")) == 7
    for wrong in (None, b"", b"\1", b"\2" + GUID.bytes, b"\0" * 4, HEADER + b"x", frame(7, b"x")):
        with pytest.raises(DeadLetterError):
            header_id(wrong)


@pytest.mark.slow
def test_a_stock_producer_is_read_and_a_stock_consumer_reads(make, double, new_double):
    """Confluent-kafka's own Avro serialiser writes GUIDs into headers; its deserialiser reads what is at central."""
    client = SchemaRegistryClient({"url": double.address})
    serialise = AvroSerializer(client, SCHEMA, conf={"schema.id.serializer": header_schema_id_serializer})
    headers = []
    value = serialise({"x": 1, "y": 2}, SerializationContext("orders", MessageField.VALUE, headers))
    assert (value, [name for name, _ in headers]) == (b"\2\4", [VALUE_ID_HEADER])
    central = new_double()
    out = make(open_registry(double.address), central=open_registry(central.address)).strip(
        Batch([None], [value], [headers])
    )
    assert (out.rejected, out.headers) == ({}, [[]])
    deserialise = AvroDeserializer(SchemaRegistryClient({"url": central.address}))
    assert deserialise(out.values[0], SerializationContext("eu.orders", MessageField.VALUE)) == {"x": 1}


def test_both_formats_become_the_first_in_one_batch(known, make):
    """Records of either format are stripped alike; the header that named the edge's schema never travels."""
    body = b"\2\4"
    headers = [(VALUE_ID_HEADER, HEADER), ("traceparent", b"t"), (VALUE_ID_HEADER, b"later")]
    out = make(open_registry(known.address)).strip(
        Batch(
            [None] * 4,
            [frame(1, body), body, None, body],
            [None, headers, headers, [(VALUE_ID_HEADER, frame(1, b""))]],
        )
    )
    assert out.rejected == {}
    assert out.values[0] == out.values[1] == out.values[3] == frame(split(out.values[0])[0], b"\2")
    assert out.values[2] is None
    assert out.headers == [[], [("traceparent", b"t")], [("traceparent", b"t")], []]
    assert [path for path in known.asked if "guids" in path] == [
        f"GET /schemas/guids/{GUID}",
        f"GET /schemas/guids/{GUID}/ids",
    ]


def test_a_header_counts_before_the_first_bytes(known, make):
    """A body that looks like version 0 is not taken for another schema's: a bad or unknown header is a dead letter."""
    looks = frame(1, b"\2\4")
    unknown = b"\1" + uuid.UUID(int=5).bytes
    out = make(open_registry(known.address)).strip(
        Batch([None] * 2, [looks] * 2, [[(VALUE_ID_HEADER, b"\7")], [(VALUE_ID_HEADER, unknown)]])
    )
    assert out.rejected[0] == Rejection(Reason.WRONG_MAGIC)
    assert out.rejected[1].reason is Reason.UNKNOWN_SCHEMA
    assert out.values == [None, None]


def test_a_number_that_only_a_guid_can_have_stands_for_none(known, make):
    """Neither in a value nor in a header of version 0, beside a GUID's record or after it; and nobody is asked."""
    body, named = b"\2\4", [(VALUE_ID_HEADER, HEADER)]
    stripped = make(open_registry(known.address))
    values = [body, frame(FIRST, body), body]
    out = stripped.strip(Batch([None] * 3, values, [named, None, [(VALUE_ID_HEADER, frame(FIRST, b""))]]))
    assert out.values[0] is not None
    assert out.rejected == {at: Rejection(Reason.WRONG_MAGIC) for at in (1, 2)}
    asked = len(known.asked)
    for number in (FIRST, 2**32 - 1):
        later = stripped.strip(Batch([None], [frame(number, body)], [None]))
        assert later.rejected == {0: Rejection(Reason.UNKNOWN_SCHEMA)}
    assert len(known.asked) == asked


def test_a_registry_without_guids_refuses_them(make, tmp_path):
    """A folder has no GUIDs: the record is a dead letter, its body is never guessed at."""
    edge = open_registry(f"directory:{tmp_path / 'edge'}")
    edge.register("orders-value", SCHEMA)
    out = make(edge).strip(Batch([None], [frame(1, b"\2\4")], [[(VALUE_ID_HEADER, HEADER)]]))
    assert out.rejected == {0: Rejection(Reason.WRONG_MAGIC)}


def test_a_registry_of_a_release_without_guids_knows_none(make, double):
    """One senseless header is a dead letter and holds no flow up; a proxy's page, a 404 too, decides nothing."""
    double.has_guids = False
    schema_id = double.add("orders-value", SCHEMA)
    stripped = make(open_registry(double.address))
    double.fault = "html"
    with pytest.raises(RetryError):
        stripped.strip(Batch([None], [b"\2\4"], [[(VALUE_ID_HEADER, HEADER)]]))
    double.fault = None
    out = stripped.strip(Batch([None] * 2, [b"\2\4", frame(schema_id, b"\2\4")], [[(VALUE_ID_HEADER, HEADER)], None]))
    assert {at: one.reason for at, one in out.rejected.items()} == {0: Reason.UNKNOWN_SCHEMA}
    assert out.values[1] is not None


def test_keys_have_a_header_of_their_own(known, make):
    """An Avro key by GUID is stripped like one of version 0; where the policy says text, the header means nothing."""
    known.guids[str(GUID)] = known.add("orders-key", '"string"')
    edge, headers = open_registry(known.address), [(KEY_ID_HEADER, HEADER)]
    out = make(edge, "keep").strip(Batch([b"\2k", b"\2k", b"\2k"], [None] * 3, [headers, [(KEY_ID_HEADER, b"")], None]))
    assert out.keys[0] is not None
    assert split(out.keys[0])[1] == b"\2k"
    assert out.rejected == {1: Rejection(Reason.BAD_KEY)}
    assert out.keys[2] == b"\2k"
    plain = make(edge, "keep, format: string").strip(Batch([b"k"], [None], [headers]))
    assert plain.keys == [b"k"]


def test_a_registry_that_is_away_decides_nothing(known, make):
    """As with ids."""
    stripped = make(open_registry(known.address))
    known.fault = 500
    with pytest.raises(RetryError):
        stripped.strip(Batch([None], [b"\2\4"], [[(VALUE_ID_HEADER, HEADER)]]))


@pytest.mark.parametrize("before", [0, 3])
def test_a_dead_letter_and_a_report_name_the_guid(known, make, before):
    """A number of this process means nothing to who reads them, and is another schema's after the next start."""
    edge, strangers = open_registry(known.address), [uuid.UUID(int=one) for one in range(before)]
    for one in strangers:
        edge.number(one)
    strip = make(edge)
    headers = [[(VALUE_ID_HEADER, content)] for content in (HEADER, HEADER, b"\1" + uuid.uuid4().bytes)]
    out = strip.strip(Batch([None] * 3, [b"\2\4", b"\2", b"\2\4"], headers))
    assert out.rejected == {
        1: Rejection(Reason.UNDECODABLE, str(GUID)),
        2: Rejection(Reason.UNKNOWN_SCHEMA),  # sixteen bytes that nobody but the writer knows may be anything
    }
    assert {row.schema_id for row in strip.report()} == {str(GUID), None}


def test_what_waits_or_is_held_is_called_by_its_guid(known, make):
    """Never by a number of this process; and sixteen bytes that only their writer knows are told nowhere."""
    edge, stranger = open_registry(known.address), uuid.uuid4()
    strip = make(edge, patience_s=60.0)

    def error(guid):
        with pytest.raises((RetryError, HoldError)) as raised:
            strip.strip(Batch([None], [b"\2\4"], [[(VALUE_ID_HEADER, b"\1" + guid.bytes)]]))
        said = str(raised.value)
        assert str(FIRST)[:-2] not in said
        return said

    waits = error(stranger)
    assert f"what a record names its schema by is not in {known.address} yet" in waits
    assert str(stranger) not in waits
    known.guids[str(GUID)] = known.add("other-value", SCHEMA.replace("R", "S"))
    assert f"schema id {GUID} is no value schema of topic orders: the registry has it under other-value" in error(GUID)
    edge.refresh()
    del known.guids[str(GUID)]
    assert f"schema id {GUID} was in {known.address}, and is not there any more" in error(GUID)
    known.guids[str(stranger)] = known.add("orders-value", "{}", kind="JSON")
    with pytest.raises(DeadLetterError, match=rf"schema id {stranger} in .* is of type JSON"):
        edge.schema(edge.number(stranger))


def test_numbers_of_guids_are_bounded_and_never_reused(monkeypatch):
    """A flood is forgotten, oldest first; what is known keeps its number."""
    monkeypatch.setattr("aggregator.schema.guids._MOST", 10)
    guids = Guids()
    first = guids.number(GUID)
    numbers = [guids.number(uuid.UUID(int=value), {first}) for value in range(100)]
    assert guids.number(GUID) == first
    assert guids.guid(first) == GUID
    assert len(set(numbers)) == 100
    assert len(guids._numbers) <= 11
    assert guids.guid(numbers[0]) is None
