"""What every registry does: the double and a real Apicurio behind the same client, and the folder where it fits."""

import json
import logging
import time
import uuid
from contextlib import ExitStack
from datetime import date

import pytest

from aggregator.config.secrets import SecretRef
from aggregator.doctor import facts
from aggregator.errors import HoldError, Reason, Unreachable
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Requester, UnknownSchema
from aggregator.schema.remote_registry import RemoteRegistry
from aggregator.schema.wire import VALUE_ID_HEADER, frame
from tests.apicurio import apicurio
from tests.authority import Authority
from tests.oauth import token_server
from tests.reference.reference import ReferenceStrip
from tests.unit.schema.double import RegistryDouble

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIFETIME_S = 5
SECRET = "a-client-secret-that-is-nowhere-else"
BOTH = ["double", "apicurio"]


def record(*fields, name="R", **more):
    """A schema's text: fields as (name, type) or (name, type, default), tags behind a `#` of the name."""
    shapes = []
    for field, kind, *default in fields:
        plain, _, tag = field.partition("#")
        shape = {"name": plain, "type": kind, **({"default": default[0]} if default else {})}
        shapes.append(shape | ({"confluent:tags": [tag]} if tag else {}))
    return json.dumps({"type": "record", "name": name, "fields": shapes, **more})


class Place:
    """One registry, by its address and from the side."""

    def __init__(self, reference, client, ask=None):
        self.reference, self.client, self.ask = reference, client, ask

    def opened(self, **more):
        """A client of its own."""
        references = {
            name: SecretRef("file", value[5:]) if value.startswith("file:") else value
            for name, value in {**self.client, **more}.items()
        }
        registry = open_registry(self.reference, references)
        if self.ask:  # a machine under load is no fault of the registry
            assert isinstance(registry, RemoteRegistry)
            registry.wait_at_most(30.0)
        return registry

    def add(self, subject, text, **more):
        """Register from the side; the schema's id."""
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": text, **more})["id"]

    def delete(self, subject, version, *, for_good=False):
        """Delete one version, softly first as registries ask for it."""
        self.ask("DELETE", f"/subjects/{subject}/versions/{version}")
        if for_good:
            self.ask("DELETE", f"/subjects/{subject}/versions/{version}?permanent=true")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Apicurio, and the server of its tokens."""
    folder = tmp_path_factory.mktemp("apicurio")
    with ExitStack() as stack:
        tokens = stack.enter_context(token_server(folder, Authority(folder), lifetime_s=LIFETIME_S))
        yield stack.enter_context(apicurio(folder, tokens))


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    """File of the client's secret."""
    path = tmp_path_factory.mktemp("secret") / "client.secret"
    path.write_text(SECRET)
    return path


class Lasting:
    """A client that is asked all the while, and the tokens that it used."""

    def __init__(self, place):
        self.registry, self.began_s, self.tokens = place.opened(), time.monotonic(), set()
        session = self.registry._connection.client._rest_client.session
        session.event_hooks["request"].append(lambda request: self.tokens.add(request.headers["Authorization"]))

    def ask(self):
        """A question that is asked anew each time."""
        assert self.registry.subjects() is not None


@pytest.fixture(scope="module")
def lasting(server, secret):
    """Of the first test on."""
    return Lasting(Place(server.address, server.client(secret), server.ask))


@pytest.fixture(params=[*BOTH, "directory"])
def place(request, tmp_path):
    """Each registry in turn."""
    if request.param == "directory":
        yield Place(f"directory:{tmp_path / 'schemas'}", {})
    elif request.param == "double":
        double = RegistryDouble()
        yield Place(double.address, {}, double.ask)
        double.close()
    else:
        server, secret = request.getfixturevalue("server"), request.getfixturevalue("secret")
        request.getfixturevalue("lasting").ask()
        yield Place(server.address, server.client(secret), server.ask)


@pytest.fixture
def topic():
    """A name of the test's own: the registry is shared."""
    return f"t{uuid.uuid4().hex[:8]}"


def test_a_text_has_one_id_in_every_subject(place, topic):
    """Registered again, by another client and under another subject it is the same; another text is another one."""
    first, registry = record(("x", "int"), name=topic), place.opened()
    schema_id = registry.register(f"{topic}-value", first)
    again = place.opened()
    assert [again.register(f"{topic}-value", first), again.register(f"{topic}-key", first)] == [schema_id] * 2
    other = record(("x", "int"), ("y", "int", 1), name=topic)
    second = again.register_compatible(f"{topic}-value", other)
    assert second != schema_id
    # Apicurio gives a text without its white space.
    assert [json.loads(again.schema(one)) for one in (schema_id, second)] == [json.loads(first), json.loads(other)]
    told = [(one.version, one.schema_id) for one in again.versions(f"{topic}-value")]
    assert told == [(1, schema_id), (2, second)]
    assert {f"{topic}-value", f"{topic}-key"} <= set(again.subjects())
    assert dict(again.origin(schema_id).versions) == {f"{topic}-value": 1, f"{topic}-key": 1}
    with pytest.raises(UnknownSchema):
        again.schema(123_456)


def test_a_listing_has_the_ids_of_a_topics_subjects(place, topic):
    """One answer about any number of ids, deleted versions among them; the same client sees what is new."""
    registry, subjects = place.opened(), (f"{topic}-value", f"{topic}-key")
    ids = [registry.register(f"{topic}-value", record(("x", kind), name=topic)) for kind in ("int", "long")]
    other = registry.register(f"{topic}.other", record(("x", "bytes"), name=topic))
    listed = registry.listing(Requester(topic), subjects.__contains__).ids
    assert set(ids) <= listed
    assert other not in listed
    if place.ask:
        place.delete(f"{topic}-value", 1)
    ids.append(place.opened().register(f"{topic}-key", record(("x", "string"), name=topic)))
    assert set(ids) <= registry.listing(Requester(topic), subjects.__contains__).ids


def test_what_readers_could_not_read_is_refused_by_name(place, topic):
    """With what differs, and the next step; nothing is registered. A version that is there already needs no check."""
    registry, subject = place.opened(), f"{topic}-value"
    wide, narrow = record(("x", "int"), ("y", "int"), name=topic), record(("x", "int"), name=topic)
    ids = [registry.register_compatible(subject, wide), registry.register_compatible(subject, narrow)]
    with pytest.raises(HoldError) as caught:
        registry.register_compatible(subject, record(("x", "string"), ("z", "int"), name=topic))
    assert f"subject {subject}: readers" in caught.value.message
    assert "~ x: int -> string" in caught.value.message
    assert "+ z: int, without a default" in caught.value.message
    assert "{edge}.{topic}.v2" in caught.value.hint
    assert [one.schema_id for one in registry.versions(subject)] == ids
    assert place.opened().register_compatible(subject, wide) == ids[0]


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_a_registrys_own_rule_decides(place, topic):
    """`NONE` lets a breaking schema in, set where the registry is; with `BACKWARD` registration itself is refused."""
    subject, breaking = f"{topic}-value", record(("x", "string"), name=topic)
    place.opened().register_compatible(subject, record(("x", "int"), name=topic))
    place.ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    with pytest.raises(HoldError, match="~ x: int -> string"):
        place.opened().register(subject, breaking)
    place.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    assert place.opened().register_compatible(subject, breaking)


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_references_are_written_in(place, topic):
    """A schema that names a type of another subject stands for itself; that subject's versions come before it."""
    person = record(("mail#PII", "string"), name=f"P{topic}")
    place.add(f"{topic}-person", person)
    referring = {"name": f"P{topic}", "subject": f"{topic}-person", "version": 1}
    text = record(("who", f"P{topic}"), name=topic)
    schema_id = place.add(f"{topic}-value", text, references=[referring])
    registry = place.opened()
    whole = json.loads(registry.schema(schema_id))
    assert whole["fields"][0]["type"]["fields"][0]["confluent:tags"] == ["PII"]
    told = [(one.subject, one.version, one.is_referenced) for one in registry.history(f"{topic}-value", 1)]
    assert told == [(f"{topic}-person", 1, True), (f"{topic}-value", 1, False)]


def inherited(registry, schema_id, subject):
    """Tags of every field of an id, its own and those of earlier versions."""
    origin = registry.origin(schema_id)
    versions = registry.history(subject, origin.versions[subject])
    schema = with_inherited_tags(registry.schema(schema_id), origin.tags, versions)
    return {item.name: set(item.tags | item.inherited) for node in schema.nodes for item in node.fields}


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_a_deleted_version_still_counts_for_what_it_tagged(place, topic):
    """Deleted softly its id is read and its tags are inherited; deleted for good the id is unknown and nothing is."""
    subject = f"{topic}-value"
    first = place.add(subject, record(("x#PII", "int"), name=topic))
    second = place.add(subject, record(("x", "int"), ("y", "int", 1), name=topic))
    assert inherited(place.opened(), second, subject) == {"x": {"PII"}, "y": set()}
    place.delete(subject, 1)
    registry = place.opened()
    assert inherited(registry, second, subject) == {"x": {"PII"}, "y": set()}
    assert inherited(registry, first, subject) == {"x": {"PII"}}
    assert [one.version for one in registry.versions(subject)] == [2]
    place.ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true")
    registry = place.opened()
    assert inherited(registry, second, subject) == {"x": set(), "y": set()}
    with pytest.raises(UnknownSchema):
        registry.schema(first)


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_a_text_comes_back_after_its_version_was_deleted(place, topic):
    """The same id, as a new version."""
    subject, text = f"{topic}-value", record(("x", "int"), name=topic)
    first = place.opened().register_compatible(subject, text)
    place.delete(subject, 1)
    assert place.opened().register_compatible(subject, text) == first
    assert [one.version for one in place.opened().versions(subject)] == [2]


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_contexts_are_rooms_of_their_own(place, topic):
    """Subjects of one are none of another; what another one has is told by its whole name, and never is a topic's."""
    subject, text = f"{topic}-value", record(("x", "int"), name=topic)
    inside, outside = place.opened(context=".eu"), place.opened()
    schema_id = inside.register_compatible(subject, text)
    assert json.loads(inside.schema(schema_id)) == json.loads(text)
    assert dict(inside.origin(schema_id).versions) == {subject: 1}
    assert [one.schema_id for one in inside.history(subject, 1)] == [schema_id]
    assert subject in inside.subjects()
    assert subject not in outside.subjects()
    assert f":.eu:{subject}" in place.ask("GET", "/subjects")
    assert outside.versions(subject) == []
    assert place.opened(context=".us").versions(subject) == []


def test_an_id_of_another_context_is_no_topics(server, secret, topic):
    """Apicurio's ids are one sequence for all contexts: one of another context is told by its subject's whole name."""
    place = Place(server.address, server.client(secret), server.ask)
    schema_id = place.opened(context=".eu").register_compatible(f"{topic}-value", record(("x", "int"), name=topic))
    assert dict(place.opened().origin(schema_id).versions) == {f":.eu:{topic}-value": 1}
    other = place.opened().register_compatible(f"{topic}-value", record(("y", "int"), name=topic))
    assert dict(place.opened(context=".eu").origin(other).versions) == {f":.:{topic}-value": 1}


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_a_guid_that_nobody_knows_is_a_dead_letter(place, topic, tmp_path):
    """Of a registry without GUIDs, too: one senseless header holds no flow up."""
    schema_id = place.add(f"{topic}-value", record(("x", "int"), name=topic))
    strip = ReferenceStrip(
        policy=parse_policy(f"policy: p\nversion: 1\ntopics: {{{topic}: {{fields: {{x: keep}}}}}}\n"),
        edge_topic=topic,
        central_topic=f"eu.{topic}",
        edge_registry=place.opened(),
        central_registry=open_registry(f"directory:{tmp_path / 'central'}"),
        key_rings={},
        now_s=time.monotonic,
        today=lambda: date(2026, 11, 1),
    )
    header = [(VALUE_ID_HEADER, b"\1" + uuid.uuid4().bytes)]
    # The last one has an id of eight bytes, as older serialisers of Apicurio write it.
    values = [b"\2", frame(schema_id, b"\2"), b"\0" + schema_id.to_bytes(8) + b"\2"]
    out = strip.strip(Batch([None] * 3, values, [header, None, None]))
    assert {at: one.reason for at, one in out.rejected.items()} == dict.fromkeys((0, 2), Reason.UNKNOWN_SCHEMA)
    assert out.values[1] is not None


@pytest.mark.parametrize("place", BOTH, indirect=True)
def test_the_doctor_finds_nothing_wrong(place, topic):
    """It answers, has the ids of the newest records, and lacks the one that it lacks."""
    schema_id = place.add(f"{topic}-value", record(("x", "int"), name=topic))
    view = facts.registry(place.reference, place.opened, {schema_id: (topic,), 99_999: (topic,)}, written=False)
    assert (view.trouble, dict(view.unknown), dict(view.refused)) == ("", {99_999: (topic,)}, {})


def test_apicurio_keeps_no_tags_beside_a_schema(server, topic):
    """What differs from Confluent's: `metadata` is dropped without a word, so that tags belong into the text."""
    beside = {"metadata": {"tags": {f"{topic}.x": ["PII"]}}}
    server.ask("POST", f"/subjects/{topic}-value/versions", {"schema": record(("x", "int"), name=topic), **beside})
    assert "metadata" not in server.ask("GET", f"/subjects/{topic}-value/versions/1")


def test_a_given_token_is_read_again_when_it_was_refused(server, topic, tmp_path):
    """A token in a file, which ends: told by the setting's name, and taken once the file holds another one."""
    path = tmp_path / "token"
    path.write_text("no-token")
    client = {"bearer.auth.token": f"file:{path}", "ssl.ca.location": str(server.authority.path)}
    registry = Place(server.address, client, server.ask).opened()
    with pytest.raises(Unreachable, match="does not let the hub in \\(401\\)") as caught:
        registry.subjects()
    assert "`bearer.auth.token` under `schemas_client`" in caught.value.hint
    assert "no-token" not in str(caught.value)
    path.write_text(server.tokens.issue())
    assert registry.register(f"{topic}-value", record(("x", "int"), name=topic))


def test_tokens_are_renewed_before_they_end(lasting, caplog):
    """Over two lifetimes no question is refused; neither token nor secret is in any log."""
    caplog.set_level(logging.DEBUG)
    while time.monotonic() < lasting.began_s + 2.2 * LIFETIME_S:
        lasting.ask()
        time.sleep(0.3)
    lasting.ask()
    assert len(lasting.tokens) >= 3
    assert SECRET not in caplog.text
    assert not any(token.removeprefix("Bearer ") in caplog.text for token in lasting.tokens)
