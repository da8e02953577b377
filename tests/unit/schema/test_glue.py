"""AWS Glue: its registry by boto3 before moto's, and the frames of its serialisers."""

import json
import time
import uuid
import zlib
from datetime import date
from types import SimpleNamespace

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from aggregator.doctor import facts
from aggregator.errors import ConfigError, DeadLetterError, HoldError, Reason, Unreachable
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.glue import GlueRegistry
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import UnknownSchema
from aggregator.schema.wire import KEY_ID_HEADER, VALUE_ID_HEADER, frame, glue_split, split
from tests.reference.reference import ReferenceStrip

pytestmark = pytest.mark.slow  # boto3 and moto load for seconds

REFERENCE = "glue:eu-central-1/ours"
POLICY = "policy: p\nversion: 1\ntopics: {orders: {key: keep, fields: {x: keep}}}\n"


def record(*fields):
    """A schema's text; a tag stands behind a `#` of the name."""
    shapes = [
        {"name": name.partition("#")[0], "type": "int", "default": 0}
        | ({"confluent:tags": [name.partition("#")[2]]} if "#" in name else {})
        for name in fields
    ]
    return json.dumps({"type": "record", "name": "R", "fields": shapes})


def framed(version, body, *, deflated=False):
    """As AWS's serialisers do."""
    return (
        b"\3" + (b"\5" if deflated else b"\0") + uuid.UUID(version).bytes + (zlib.compress(body) if deflated else body)
    )


class Glue:
    """Moto's registry, from the side."""

    def __init__(self):
        self.client = boto3.client("glue", region_name="eu-central-1")
        for name in ("ours", "theirs"):
            self.client.create_registry(RegistryName=name)

    def add(self, name, text, *, kind="AVRO", registry="ours"):
        """The first version of a schema, or a further one; its UUID."""
        which = {"RegistryName": registry, "SchemaName": name}
        try:
            found = self.client.register_schema_version(SchemaId=which, SchemaDefinition=text)
        except self.client.exceptions.EntityNotFoundException:
            of = {"RegistryId": {"RegistryName": registry}, "SchemaName": name}
            found = self.client.create_schema(**of, DataFormat=kind, Compatibility="NONE", SchemaDefinition=text)
        return found["SchemaVersionId"]


@pytest.fixture
def glue(monkeypatch):
    """With credentials that are nobody's."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield Glue()


@pytest.fixture
def opened(glue):
    """A client that has the time that moto needs."""
    del glue
    return GlueRegistry(REFERENCE, {}, wait_s=30.0)


@pytest.fixture
def strip(opened, tmp_path):
    """A strip of `orders`, to a central registry in a folder."""
    return ReferenceStrip(
        policy=parse_policy(POLICY),
        edge_topic="orders",
        central_topic="eu.orders",
        edge_registry=opened,
        central_registry=open_registry(f"directory:{tmp_path / 'central'}"),
        key_rings={},
        now_s=time.monotonic,
        today=lambda: date(2026, 11, 1),
    )


def test_a_frame_is_taken_apart():
    """With and without compression."""
    guid = uuid.uuid4()
    assert glue_split(framed(str(guid), b"body")) == (guid, b"body")
    assert glue_split(framed(str(guid), b"body" * 100, deflated=True)) == (guid, b"body" * 100)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", Reason.WRONG_MAGIC),
        (b"\3\0short", Reason.WRONG_MAGIC),
        (frame(7, b"a body of Confluent's"), Reason.WRONG_MAGIC),
        (b"\3\1" + b"u" * 16, Reason.WRONG_MAGIC),
        (b"\3\5" + b"u" * 16, Reason.UNDECODABLE),
        (b"\3\5" + b"u" * 16 + b"no zlib", Reason.UNDECODABLE),
        (b"\3\5" + b"u" * 16 + zlib.compress(b"body")[:-1], Reason.UNDECODABLE),
        (b"\3\5" + b"u" * 16 + zlib.compress(b"body") + b"more", Reason.UNDECODABLE),
        (b"\3\5" + b"u" * 16 + zlib.compress(b"\0" * 50_000_000), Reason.TOO_LARGE),
    ],
)
def test_a_hostile_frame_is_a_dead_letter(value, reason):
    """By its reason; a bomb is not inflated beyond its budget."""
    with pytest.raises(DeadLetterError) as caught:
        glue_split(value)
    assert caught.value.reason is reason


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_taken_apart_or_refused(body, is_framed):
    """No other error gets out."""
    try:
        glue_split(b"\3\5" + b"u" * 16 + body if is_framed else body)
    except DeadLetterError as error:
        assert error.reason in (Reason.WRONG_MAGIC, Reason.UNDECODABLE, Reason.TOO_LARGE)


def test_records_become_confluents_at_central(glue, strip):
    """Plain and deflated ones, keys too; hostile ones are dead letters beside them, and headers mean nothing."""
    version = glue.add("orders", record("x", "y"))
    body, plain = b"\2\4", str(uuid.uuid4())
    values = [
        framed(version, body),
        framed(version, body, deflated=True),
        None,
        frame(1, body),
        framed(plain, body),
        b"\3\5" + uuid.UUID(version).bytes + zlib.compress(b"\0" * 1_000_000),
        framed(version, body),
    ]
    headers = [None] * 6 + [[(VALUE_ID_HEADER, b"\1" + uuid.UUID(plain).bytes)]]
    keys = [b"text", framed(version, body), None, None, None, None, frame(2**31, body)]
    out = strip.strip(Batch(keys, values, headers))
    assert {at: one.reason for at, one in out.rejected.items()} == {
        3: Reason.WRONG_MAGIC,
        4: Reason.UNKNOWN_SCHEMA,
        5: Reason.TOO_LARGE,
        6: Reason.BAD_KEY,
    }
    assert [split(out.values[at])[1] for at in (0, 1)] == [b"\2", b"\2"]
    assert out.values[2] is None
    assert out.keys[0] == b"text"


@pytest.mark.parametrize("named", [b"\1" + bytes(16), frame(7, b""), b"damaged", None])
@pytest.mark.parametrize("header", [KEY_ID_HEADER, "apicurio.key.globalId"])
def test_a_key_whose_schema_a_header_names_is_no_text(glue, strip, named, header):
    """It is Avro of a registry that is not this edge's; in Glue's own frame the header means nothing."""
    version = glue.add("orders", record("x"))
    keys = [b"\x20jane@example.com", framed(version, b"\2"), b"text"]
    headers = [[("a", b""), (header, named)], [(header, named)], [("a", named)]]
    out = strip.strip(Batch(keys, [None] * 3, headers))
    assert {at: one.reason for at, one in out.rejected.items()} == {0: Reason.BAD_KEY}
    assert out.keys[2] == b"text"


def test_what_a_batch_inflates_to_has_a_budget(glue, strip):
    """A flood of small frames is tried in halves, so that a slot never holds all of what it becomes."""
    version = glue.add("orders", record("x"))
    bomb = framed(version, b"\2" + bytes(16_000), deflated=True)
    with pytest.raises(HoldError, match="5000 records of AWS Glue inflate to more than 67108864 bytes"):
        strip.strip(Batch([None] * 5000, [bomb] * 5000, [None] * 5000))
    few = strip.strip(Batch([None] * 10, [bomb] * 10, [None] * 10))
    assert {one.reason for one in few.rejected.values()} == {Reason.UNDECODABLE}


def test_a_schema_of_another_registry_is_unknown(glue, opened):
    """Of the same account: its topics are not ours. A schema of another topic is told by its subjects."""
    theirs = opened.number(uuid.UUID(glue.add("orders", record("x"), registry="theirs")))
    with pytest.raises(UnknownSchema):
        opened.schema(theirs)
    ours = opened.number(uuid.UUID(glue.add("flights", record("x"))))
    opened.schema(ours)
    assert dict(opened.origin(ours).versions) == {"flights-value": 1, "flights-key": 1}


def test_tags_of_earlier_versions_are_inherited(glue, opened):
    """As in every registry; only Avro is read."""
    glue.add("orders", record("x#PII"))
    second = opened.number(uuid.UUID(glue.add("orders", record("x", "y"))))
    origin = opened.origin(second)
    schema = with_inherited_tags(
        opened.schema(second), (), opened.history("orders-value", origin.versions["orders-value"])
    )
    assert [set(item.tags | item.inherited) for node in schema.nodes for item in node.fields] == [{"PII"}, set()]
    other = opened.number(uuid.UUID(glue.add("shapes", '{"type": "object"}', kind="JSON")))
    with pytest.raises(DeadLetterError, match="of type JSON"):
        opened.schema(other)
    assert opened.versions("nobody-value") == opened.versions("nobody") == []


def test_a_flood_of_unknown_guids_is_judged_by_one_listing(glue, opened, strip):
    """What the registry has is delivered, whatever stands before it; each of the others is a dead letter."""
    names = [{"SchemaName": name, "RegistryName": "ours"} for name in ("orders", "flights")]
    answer = SimpleNamespace(status_code=200, headers={}), {"Schemas": names}  # which moto does not have
    opened._client.meta.events.register("before-call.glue.ListSchemas", lambda **_: answer)
    glue.add("flights", record("z"))
    known = [glue.add("orders", record(*fields)) for fields in (["x"], ["x", "y"])]
    flood = [framed(str(uuid.uuid4()), b"\2") for _ in range(100)]
    values = [*flood, framed(known[0], b"\2"), framed(known[1], b"\2\4")]
    out = strip.strip(Batch([None] * 102, values, [None] * 102))
    assert set(out.rejected) == set(range(100))
    assert {one.reason for one in out.rejected.values()} == {Reason.UNKNOWN_SCHEMA}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_flood_is_judged_before_any_good_record_came(glue, opened, strip, is_deleted):
    """By a listing of which this process has no number yet; a version that was deleted for good names nothing."""
    names = [{"SchemaName": "orders", "RegistryName": "ours"}]
    answer = SimpleNamespace(status_code=200, headers={}), {"Schemas": names}  # which moto does not have
    opened._client.meta.events.register("before-call.glue.ListSchemas", lambda **_: answer)
    for fields in (["x"], ["x", "y"]):
        glue.add("orders", record(*fields))
    if is_deleted:
        found = opened._fetch_version
        opened._fetch_version = lambda subject, number: None if number == 1 else found(subject, number)
    flood = [framed(str(uuid.uuid4()), b"\2") for _ in range(100)]
    out = strip.strip(Batch([None] * 100, flood, [None] * 100))
    assert set(out.rejected) == set(range(100))


def test_nothing_is_registered_there(opened):
    """Central's registry is another one."""
    for way in (opened.register, opened.register_compatible):
        with pytest.raises(HoldError, match=f"subject a cannot be registered at {REFERENCE}, which is only read"):
            way("a", '"string"')


def test_glue_that_does_not_answer_holds_the_flow(opened, monkeypatch):
    """By the code that AWS gives, without its text; a known schema flows on."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - beside its one use

    def denied(**_):
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "jane@example.com"}}, "any")

    monkeypatch.setattr(opened._client, "get_schema_version", denied)
    with pytest.raises(Unreachable, match=r"gives no answer \(AccessDeniedException\)") as caught:
        opened.schema(opened.number(uuid.uuid4()))
    assert "jane" not in str(caught.value)
    assert "glue:GetSchemaVersion" in caught.value.hint


def test_the_doctor_asks_it(opened, monkeypatch):
    """Its subjects are those of topics; moto lists no schemas, so that one answer is AWS's own documented form."""

    class Pages:
        def paginate(self, **which):
            assert which == {"RegistryId": {"RegistryName": "ours"}}
            return [{"Schemas": [{"SchemaName": "orders"}]}, {"Schemas": []}]

    monkeypatch.setattr(opened._client, "get_paginator", lambda name: {"list_schemas": Pages()}[name])
    view = facts.registry(REFERENCE, lambda: opened, {}, written=False)
    assert (view.trouble, view.subjects) == ("", 2)


def test_the_environment_does_not_say_where_glue_is(glue, monkeypatch):
    """An address there would get the requests, and with them the schemas would be somebody else's."""
    del glue
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    assert GlueRegistry(REFERENCE, {})._client.meta.endpoint_url == "https://glue.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("reference", "client", "why"),
    [
        (REFERENCE, {"bearer.auth.token": "x"}, "is for a registry behind an http"),
        ("https://r", {"profile": "x"}, "is for a registry of AWS Glue"),
        ("glue:eu-central-1", {}, "glue:<region>/<registry>"),
        (REFERENCE, {"profile": "nobody"}, "cannot be set up"),
    ],
)
def test_settings_that_do_not_fit_are_refused(reference, client, why):
    """By name."""
    with pytest.raises(ConfigError, match=why):
        open_registry(reference, client)
