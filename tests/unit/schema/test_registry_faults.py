"""What a strip does when a registry misbehaves: known ids flow, new ones hold, nothing passes."""

import io
import json
import threading
import time
from datetime import date

import fastavro
import pytest

from aggregator.errors import HoldError, Reason, RetryError
from aggregator.privacy.batch.strip import Batch, Rejection
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.confluent import ConfluentRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame, split
from tests.loopback import loopback
from tests.reference.reference import ReferenceStrip

KEEP_X = "policy: p\nversion: 1\ntopics: {orders: {fields: {x: keep}}}\n"
KEEP_ALL = "policy: p\nversion: 2\ntopics: {orders: {default: keep}}\n"


def writer(*fields, name="R"):
    """A writer's schema: fields as (name, type) or (name, type, default)."""
    shapes = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": shapes})


PLAIN = writer(("x", "int"), ("name", "string"))


def body(text, record):
    """A record's bytes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), record)
    return out.getvalue()


def strip(policy, edge, central, topic="eu.orders", edge_topic="orders"):
    """A strip of `orders`, or of another topic."""
    return ReferenceStrip(
        policy=parse_policy(policy),
        edge_topic=edge_topic,
        central_topic=topic,
        edge_registry=edge,
        central_registry=central,
        key_rings={},
        now_s=time.monotonic,
        today=lambda: date(2026, 11, 1),
    )


def batch(*values):
    """Values without keys and headers."""
    return Batch([None] * len(values), values, [None] * len(values))


@pytest.fixture(params=["directory", "http"])
def central(request, tmp_path):
    """A central registry of either kind, opened anew by every call, as workers do."""
    if request.param == "directory":
        return lambda: open_registry(f"directory:{tmp_path / 'central'}")
    double = request.getfixturevalue("new_double")()
    return lambda: open_registry(double.address)


@pytest.mark.parametrize("fault", ["drop", "slow", 401, 500, "html"])
@pytest.mark.parametrize("at", ["edge", "central"])
@pytest.mark.slow
def test_a_registry_that_is_away_holds_new_ids_only(new_double, fault, at):
    """RetryError decides nothing of the batch; known ids flow meanwhile; the new id flows once it is back."""
    doubles = {"edge": new_double(), "central": new_double()}
    doubles["edge"].add("orders-value", PLAIN)
    second = doubles["edge"].add("orders-value", writer(("x", "int", 0), ("name", "string")))
    registries = {name: ConfluentRegistry(double.address, {}, wait_s=20.0) for name, double in doubles.items()}
    stripped = strip(KEEP_X, **registries)
    known, new = (frame(number, body(PLAIN, {"x": 1, "name": "Jane"})) for number in (1, second))
    assert stripped.strip(batch(known)).rejected == {}
    for registry in registries.values():
        registry.wait_at_most(0.2)
    doubles[at].fault = fault
    for _ in range(2):
        with pytest.raises(RetryError):
            stripped.strip(batch(known, new))
        out = stripped.strip(batch(known))
        assert (split(out.values[0])[1], out.rejected) == (b"\2", {})
    doubles[at].fault = None
    doubles[at].released.set()
    deadline = time.monotonic() + 20
    while True:
        try:
            out = stripped.strip(batch(known, new))
            break
        except RetryError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert [split(value)[1] for value in out.values] == [b"\2", b"\2"]


@pytest.mark.parametrize("kind", ["directory", "http"])
def test_a_subject_that_gets_a_known_id_counts_for_the_topic_that_comes_then(kind, new_double, central, tmp_path):
    """A registry gives one text one id: the subject of a topic that comes later gets the id of the topic before it."""
    double, folder = new_double(), f"directory:{tmp_path / 'edge'}"
    registry = open_registry(double.address if kind == "http" else folder)

    def add(topic):
        """As its producer does, which is another process."""
        subject = f"{topic}-value"
        return double.add(subject, PLAIN) if kind == "http" else open_registry(folder).register(subject, PLAIN)

    policy = "policy: p\nversion: 1\ntopics: {'.*': {default: keep}}\n"
    others, orders, third = (
        strip(policy, registry, central(), f"eu.{one}", edge_topic=one) for one in ("others", "orders", "third")
    )
    value = frame(add("others"), body(PLAIN, {"x": 1, "name": "Jane"}))
    assert others.strip(batch(value)).rejected == {}
    assert add("orders") == split(value)[0]
    assert orders.strip(batch(value)).rejected == {}
    with pytest.raises(HoldError, match="the registry has it under orders-value, others-value"):
        third.strip(batch(value))


@pytest.mark.parametrize("opens", [False, True], ids=["of the topic and its record", "that the policy opens"])
@pytest.mark.parametrize("kind", ["directory", "http"])
def test_a_topic_takes_the_tags_of_each_of_its_subjects_as_they_are_when_it_comes(
    kind, opens, new_double, central, tmp_path
):
    """Another topic was told of the id before one of the subjects had it; what is tagged there stays at the edge."""
    double, folder = new_double(), f"directory:{tmp_path / 'edge'}"
    registry = open_registry(double.address if kind == "http" else folder)

    def add(subject, text):
        return double.add(subject, text) if kind == "http" else open_registry(folder).register(subject, text)

    opened = ', subjects: {"R": "RecordNameStrategy"}' if opens else ""
    policy = f"policy: p\nversion: 1\ntags: {{PII: drop}}\ntopics: {{'.*': {{default: keep{opened}}}}}\n"
    others, orders = (strip(policy, registry, central(), f"eu.{one}", edge_topic=one) for one in ("others", "orders"))
    value = frame(add("R" if opens else "orders-R", PLAIN), body(PLAIN, {"x": 1, "name": "Jane"}))
    if not opens:
        add("others-value", PLAIN)
    assert b"Jane" in others.strip(batch(value)).values[0]
    tagged = PLAIN.replace('"name": "name"', '"name": "name", "confluent:tags": ["PII"]')
    assert tagged != PLAIN
    add("orders-value", tagged)
    assert add("orders-value", PLAIN) == split(value)[0]
    assert b"Jane" not in orders.strip(batch(value)).values[0]


def test_an_unknown_id_is_a_dead_letter_and_the_rest_is_delivered(new_double):
    """The registry's own word; a sound new id of the same batch is still asked about."""
    edge, central = new_double(), new_double()
    edge.add("orders-value", PLAIN)
    stripped = strip(KEEP_X, open_registry(edge.address), open_registry(central.address))
    out = stripped.strip(batch(frame(9, b"\2"), frame(1, body(PLAIN, {"x": 1, "name": "Jane"})), frame(8, b"")))
    assert out.rejected == {0: Rejection(Reason.UNKNOWN_SCHEMA, 9), 2: Rejection(Reason.UNKNOWN_SCHEMA, 8)}
    assert split(out.values[1])[1] == b"\2"


@pytest.mark.slow
def test_one_id_with_two_meanings_on_two_edges(new_double, central):
    """Each edge's ids are its own: the same id is read under the schema that its edge's registry gives it."""
    eu, us = new_double(), new_double()
    eu.add("orders-value", PLAIN, schema_id=7)
    other = writer(("name", "string"), ("x", "int"))
    us.add("orders-value", other, schema_id=7)
    outs = []
    for double, text, topic in ((eu, PLAIN, "eu.orders"), (us, other, "us.orders")):
        value = frame(7, body(text, {"x": 1, "name": "Jane"}))
        outs.append(strip(KEEP_X, open_registry(double.address), central(), topic).strip(batch(value)))
    assert [split(out.values[0])[1] for out in outs] == [b"\2", b"\2"]
    assert len({out.values[0] for out in outs}) == 1, "what is left is one schema, and has one central id"


def test_two_regions_with_one_schema_share_a_central_id(new_double, central):
    """Other ids at the edges, each under its own central subject, met at once: one text, one id."""
    values = []

    def region(name, schema_id):
        double = new_double()
        double.add("orders-value", PLAIN, schema_id=schema_id)
        stripped = strip(KEEP_X, open_registry(double.address), central(), f"{name}.orders")
        values.extend(stripped.strip(batch(frame(schema_id, body(PLAIN, {"x": 1, "name": "Jane"})))).values)

    threads = [threading.Thread(target=region, args=pair) for pair in (("eu", 3), ("us", 44))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 2
    assert len(set(values)) == 1
    assert central().subjects() == ["eu.orders-value", "us.orders-value"]


@pytest.mark.slow
def test_a_policy_change_that_breaks_readers_is_held_with_a_diff(double, central):
    """A field that was dropped comes back without a default: told by path and type, and nothing of it is delivered."""
    double.add("orders-value", PLAIN)
    value = frame(1, body(PLAIN, {"x": 1, "name": "Jane"}))
    strip(KEEP_X, open_registry(double.address), central()).strip(batch(value))
    opened = strip(KEEP_ALL, open_registry(double.address), central())
    with pytest.raises(HoldError, match=r"\+ name: string, without a default") as caught:
        opened.strip(batch(value))
    assert "eu.orders-value" in caught.value.message
    assert "p/2" in caught.value.message
    assert 'central: "{edge}.{topic}.v2"' in caught.value.hint
    assert len(central().versions("eu.orders-value")) == 1
    fresh = strip(KEEP_ALL, open_registry(double.address), central(), "eu.orders.v2")
    assert fresh.strip(batch(value)).rejected == {}


@pytest.mark.slow
def test_a_policy_change_back_needs_no_check(double, central):
    """Dropping more is compatible; going back to a text that is in the subject is no new version."""
    double.add("orders-value", PLAIN)
    value = frame(1, body(PLAIN, {"x": 1, "name": "Jane"}))
    for policy in (KEEP_ALL, KEEP_X, KEEP_ALL):
        assert strip(policy, open_registry(double.address), central()).strip(batch(value)).rejected == {}
    assert len(central().versions("eu.orders-value")) == 2


def test_a_writers_new_field_with_a_default_flows_changed_or_not(double, central):
    """What the writers add lawfully can be added to the derived schema, without the writer's default in it."""
    double.add("orders-value", PLAIN)
    wider = writer(("x", "int"), ("name", "string"), ("mail", "string", "jane@example.com"), ("n", "int", 5))
    double.add("orders-value", wider)
    policy = "policy: p\nversion: 1\ntopics: {orders: {fields: {x: keep, name: keep, mail: redact, n: keep}}}\n"
    stripped = strip(policy, open_registry(double.address), central())
    record = {"x": 1, "name": "a", "mail": "b", "n": 6}
    out = stripped.strip(batch(frame(1, body(PLAIN, record)), frame(2, body(wider, record))))
    assert out.rejected == {}
    newest = json.loads(central().versions("eu.orders-value")[-1].text)
    assert [field.get("default") for field in newest["fields"]] == [None, None, "", 5]


@pytest.mark.slow
def test_a_page_in_the_place_of_a_registry_is_told_as_one():
    """A login page, or a proxy's: it can be reached, and nothing of what it says is repeated."""

    def page(request):
        request.answer(200, b"<html>sign in first</html>", **{"Content-Type": "text/html"})

    with loopback(page) as address:
        registry = open_registry(address)
        with pytest.raises(RetryError, match="something that is no JSON, as a login page") as told:
            registry.subjects()
    assert "/subjects" in told.value.hint
    assert "sign in" not in str(told.value)
