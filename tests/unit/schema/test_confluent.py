"""The registry behind an address: real HTTP on loopback, with scripted faults."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from uuid import UUID, uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aggregator.config.secrets import SecretRef
from aggregator.errors import ConfigError, DeadLetterError, HoldError, Reason, Unreachable
from aggregator.schema import confluent
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.confluent import ConfluentRegistry
from aggregator.schema.connection import connect
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import AnswerPending, Requester, SchemaVersion, UnknownSchema

CANARY = "jane@example.com"


def absent(code):
    """A registry's own word that there is no such thing."""
    return 404, {"error_code": code, "message": "not found"}


def record(*fields, policy="p/1", name="R"):
    """A derived schema's text: fields as (name, type) or (name, type, default)."""
    shapes = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": shapes, "hub.policy": policy})


@pytest.fixture
def registry(double):
    return open_registry(double.address)


@pytest.fixture
def patient(double):
    """A client for which a machine under load is no slow registry."""
    return ConfluentRegistry(double.address, {}, wait_s=60.0)


def test_an_id_is_asked_for_once(double, registry):
    """What was answered is kept for ever: the registry may go, known ids flow."""
    double.add("a", '"string"')
    assert registry.schema(1) == '"string"'
    double.close()
    assert registry.schema(1) == '"string"'
    assert double.asked == ["GET /schemas/ids/1"]


def test_an_unknown_id_is_told_and_found_once_it_is_there(double, registry):
    """Only the registry's own word makes an id unknown, for the moment."""
    for _ in range(2):
        with pytest.raises(UnknownSchema) as caught:
            registry.schema(7)
        assert caught.value.reason is Reason.UNKNOWN_SCHEMA
    assert len(double.asked) == 2
    double.add("a", '"string"', schema_id=7)
    assert registry.schema(7) == '"string"'


@pytest.mark.parametrize("fault", [401, 403, 404, 408, 429, 500, 503, "html", "drop"])
def test_every_other_fault_is_no_answer(double, registry, fault):
    """No rights, a broken server, a proxy's page: the flow waits, nothing is called unknown, and it goes on after."""
    double.add("a", '"string"')
    double.fault = fault
    with pytest.raises(Unreachable) as caught:
        registry.schema(1)
    assert double.address in caught.value.message
    assert caught.value.hint
    double.fault = None
    assert registry.schema(1) == '"string"'


EMPTY = [b"", b"null", b"{}", b"false", b"0", b'""']


@pytest.mark.parametrize("answer", [*EMPTY, b"[]", b"[2]"])
def test_a_list_of_versions_without_content_is_no_answer(double, registry, answer):
    """Tags of earlier versions would be lost in silence; nor is a list believed that lacks the version of the id."""
    double.add("a", record(("x", "int")))
    double.add("a", record(("x", "int"), ("y", "int", 0)))
    (subject,) = registry.origin(1).versions
    double.instead["/subjects/a/versions"] = answer
    with pytest.raises(Unreachable):
        registry.history(subject, 1)
    double.instead.clear()
    assert [one.version for one in registry.history(subject, 1)] == [1]


@pytest.mark.parametrize("answer", EMPTY)
def test_an_answer_without_content_makes_no_id_unknown(double, registry, answer):
    """Neither its schema nor where it comes from; a field that is false where a list belongs is no answer either."""
    double.add("a", record(("x", "int")))
    double.instead |= {"/schemas/ids/1": answer, "/schemas/ids/1/versions": answer}
    with pytest.raises(Unreachable):
        registry.schema(1)
    with pytest.raises(Unreachable):
        registry.origin(1)
    for field in ("references", "metadata", "schemaType"):
        for wrong in (False, 0):
            double.instead["/schemas/ids/1"] = json.dumps({"schema": '"int"', field: wrong}).encode()
            with pytest.raises(Unreachable):
                registry.schema(1)


def test_a_schema_with_all_that_it_refers_to_has_a_budget(double, registry):
    """It is counted while it is fetched."""
    for number in range(4):
        shape = {"type": "record", "name": f"R{number}", "doc": "x" * 700_000, "fields": []}
        double.add(f"r{number}", json.dumps(shape))
    double.add(
        "a", '"int"', schema_id=9, references=[{"name": f"R{n}", "subject": f"r{n}", "version": 1} for n in range(4)]
    )
    with pytest.raises(DeadLetterError, match="references included"):
        registry.schema(9)
    assert "GET /subjects/r3/versions/1" not in double.asked


def test_a_registry_that_is_down_is_no_answer(double, registry):
    """A closed port, told by the address."""
    double.close()
    started = time.monotonic()
    for ask in (lambda: registry.schema(1), lambda: registry.register("a", '"int"'), registry.subjects):
        with pytest.raises(Unreachable, match="cannot be reached"):
            ask()
    assert time.monotonic() - started < 4


def test_a_slow_registry_holds_up_its_asker_once(double):
    """The first question waits its time, the next ones not at all; the late answer is there when it came."""
    registry = ConfluentRegistry(double.address, {}, wait_s=0.2)
    double.add("a", '"string"')
    double.fault = "slow"
    started = time.monotonic()
    with pytest.raises(Unreachable, match="slow"):
        registry.schema(1, requester=Requester("a"))
    waited = time.monotonic() - started
    for schema_id in (1, 2, 3, 1):
        with pytest.raises(Unreachable, match="slow"):
            registry.schema(schema_id, requester=Requester("a"))
    assert 0.2 <= waited < 1
    assert time.monotonic() - started < waited + 0.2
    assert len(double.asked) == 1
    double.fault = None
    double.released.set()
    deadline = time.monotonic() + 5
    while True:
        try:
            assert registry.schema(1, requester=Requester("a")) == '"string"'
            break
        except Unreachable:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert double.asked.count("GET /schemas/ids/1") == 1, "the late answer was taken"


def test_a_flood_of_senseless_ids_is_bounded(double, registry):
    """A share of the slot's time goes into unknown ids, then the flow waits; a known id flows on."""
    double.add("a", '"string"')
    registry.schema(1)
    registry._questions._budget.spend(time.monotonic(), 2.5, "a")
    double.fault = "slow"
    started = time.monotonic()
    for question in (
        lambda: registry.schema(1001, requester=Requester("a")),
        lambda: registry.listing(Requester("a"), bool),
    ):
        with pytest.raises(AnswerPending, match="no answer yet"):
            question()
    assert registry.schema(1) == '"string"'
    assert time.monotonic() - started < 0.2
    double.released.set()


def test_what_a_listing_has_is_asked_about_in_a_flood(double, patient):
    """An id that is there costs no question in vain."""
    double.add("a", '"string"')
    assert patient.listing(Requester("a"), bool).ids == {1}
    patient._questions._budget.spend(time.monotonic(), 2.5, "a")
    assert patient.schema(1) == '"string"'


def test_a_listing_has_every_version_of_some_subjects(double, patient):
    """Deleted ones, and other kinds; a version that was seen is not asked about again, but for the newest known."""
    double.has_guids = False
    for subject, text in [("orders-value", '"string"'), ("orders-value", '"long"'), ("other", '"int"')]:
        double.add(subject, text)
    double.add("orders-value", '{"type": "object"}', kind="JSON")
    double.deleted.add(("orders-value", 1))
    double.add("orders-key", '"bytes"')
    double.deleted.add(("orders-key", 1))
    before = time.monotonic()
    listing = patient.listing(Requester("orders"), lambda subject: subject.startswith("orders"))
    assert listing.ids == {1, 2, 4, 5}
    assert before <= listing.asked_s <= time.monotonic()
    assert not listing.has_guids
    asked = len(double.asked)
    double.add("orders-value", '"float"')
    assert patient.listing(Requester("orders"), lambda subject: subject.startswith("orders")).ids == {1, 2, 4, 5, 6}
    assert len(double.asked) - asked == 7, "subjects, versions of two, the newest known of two, an older one, a new one"
    patient.refresh()
    asked = len(double.asked)
    patient.listing(Requester("orders"), lambda subject: subject.startswith("orders"))
    assert len(double.asked) - asked == 8, "an epoch asks for everything once more"


def test_a_listing_speaks_of_guids_where_the_registry_tells_them(double, patient):
    """By the numbers of those that records named; another one is no schema of these subjects."""
    double.add("a", '"string"')
    guid = UUID(double.ask("GET", "/subjects/a/versions/1")["guid"])
    number, other = patient.number(guid), patient.number(uuid4())
    listing = patient.listing(Requester("a"), bool)
    assert number in listing.ids
    assert other not in listing.ids
    assert listing.has_guids


def test_a_listing_knows_of_a_subject_that_was_made_anew(double, patient):
    """Its versions have the numbers of former ones, and other ids."""
    for text in ('"string"', '"long"'):
        double.add("a", text)
    assert patient.listing(Requester("a"), bool).ids == {1, 2}
    double.rebuild()
    for schema_id, text in [(7, '"int"'), (9, '"bytes"')]:
        double.add("a", text, schema_id=schema_id)
    assert patient.listing(Requester("a"), bool).ids == {7, 9}


def test_a_listing_that_takes_long_says_when_it_began(double):
    """Its late answer speaks of what was there when it was asked for."""
    registry = ConfluentRegistry(double.address, {}, wait_s=0.05)
    double.add("a", '"string"')
    double.fault = "slow"
    with pytest.raises(Unreachable, match="slow"):
        registry.listing(Requester("a"), bool, since_s=0.0)
    given_up = time.monotonic()
    double.fault = None
    double.released.set()
    deadline = time.monotonic() + 5
    while True:
        try:
            listing = registry.listing(Requester("a"), bool, since_s=0.0)
            break
        except Unreachable:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert listing.ids == {1}
    assert listing.asked_s < given_up


def test_time_that_was_spent_long_ago_counts_no_more():
    """Two seconds of any five go into waits."""
    budget = AskingBudget()
    for second in range(1000):
        budget.spend(float(second), 0.1, "t")
    assert budget.left_s(1000.0, "t") > 0
    budget.spend(1000.0, 2.0, "t")
    assert budget.left_s(1000.0, "t") == 0
    assert budget.left_s(1006.0, "t") > 0


@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_other_kinds_of_schema_are_refused_by_name(double, registry, kind):
    """A dead letter with the kind in its text; asked for once."""
    double.add("a", '{"type": "object"}', kind=kind)
    for _ in range(2):
        with pytest.raises(DeadLetterError, match=kind) as caught:
            registry.schema(1)
        assert (caught.value.reason, caught.value.schema_id) == (Reason.SCHEMA_REFUSED, 1)
    assert len(double.asked) == 1


def credentials(secret):
    """As `schemas_client` gives them; the double speaks no TLS here."""
    return {"basic.auth.user.info": SecretRef("file", str(secret)), "insecure": "a double on loopback"}


@pytest.mark.slow
def test_credentials_come_from_their_reference_and_are_never_told(double, tmp_path):
    """Basic authentication by a secret in a file; wrong ones are no answer, and no error holds them."""
    double.add("a", '"string"')
    double.user = f"hub:{CANARY}"
    secret = tmp_path / "user"
    secret.write_text(f"hub:{CANARY}\n")
    assert open_registry(double.address, credentials(secret)).schema(1)
    double.user = "hub:other"
    with pytest.raises(Unreachable, match="let the hub in") as caught:
        open_registry(double.address, credentials(secret)).schema(1)
    assert CANARY not in str(caught.value)
    secret.write_text(CANARY)
    with pytest.raises(ConfigError, match="cannot be set up") as caught:
        open_registry(double.address, credentials(secret))
    assert CANARY not in str(caught.value)


def test_a_credential_that_was_changed_is_read_again(double, tmp_path):
    """After a refusal the reference is resolved anew; what was known flowed on meanwhile."""
    double.add("a", '"string"')
    double.add("a", '"long"')
    secret = tmp_path / "user"
    secret.write_text("hub:old")
    double.user = "hub:old"
    registry = open_registry(double.address, credentials(secret))
    registry.schema(1)
    double.user = "hub:new"
    with pytest.raises(Unreachable):
        registry.schema(2)
    assert registry.schema(1) == '"string"'
    secret.write_text("hub:new")
    assert registry.schema(2) == '"long"'


def test_a_credential_that_is_away_for_a_moment_holds_what_needs_it_only(double, tmp_path):
    """While a secret is replaced its file may be missing: that is told as the registry's trouble, and passes."""
    double.add("a", '"string"')
    secret = tmp_path / "user"
    secret.write_text("hub:old")
    double.user = "hub:new"
    registry = open_registry(double.address, credentials(secret))
    with pytest.raises(Unreachable, match="let the hub in"):
        registry.schema(1)
    secret.unlink()
    for _ in range(2):
        with pytest.raises(Unreachable, match=r"another client: .*user: No such file"):
            registry.schema(1)
    secret.write_text("hub:new")
    assert registry.schema(1) == '"string"'


def test_a_registry_that_keeps_refusing_costs_no_more_and_more_connections(double, tmp_path, monkeypatch):
    """Each refusal may need a new client: the former one is closed, but not while a question is under way on it."""
    made = []
    monkeypatch.setattr(confluent, "connect", lambda *of: made.append(connect(*of)) or made[-1])
    monkeypatch.setattr(confluent, "_RENEW_AGAIN_S", 0.0)
    secret = tmp_path / "user"
    secret.write_text("hub:old")
    double.user = "hub:new"
    registry = open_registry(double.address, credentials(secret))
    with made[0].request() as client:
        for _ in range(5):
            with pytest.raises(Unreachable, match="let the hub in"):
                registry.schema(1)
        assert [one.client._rest_client.session.is_closed for one in made] == [False, True, True, True, False]
    assert client.session.is_closed
    monkeypatch.setattr(confluent, "_RENEW_AGAIN_S", 60.0)
    for _ in range(5):
        with pytest.raises(Unreachable, match="let the hub in"):
            registry.schema(1)
    assert len(made) == 6, "nor does one have to be made for each question"


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate for 127.0.0.1 that it signs itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "registry.pem"
    path.write_bytes(private + signed.public_bytes(pem))
    return str(path)


def test_tls_with_an_authority_of_ones_own(new_double, certificate):
    """The certificate is checked: against the named authority it passes, against the public ones it does not."""
    double = new_double(certificate)
    double.add("a", '"string"')
    assert open_registry(double.address, {"ssl.ca.location": certificate}).schema(1) == '"string"'
    with pytest.raises(Unreachable, match="cannot be reached"):
        open_registry(double.address).schema(1)


def test_a_certificate_that_is_not_there_is_told(tmp_path):
    """TLS settings are paths; a wrong one is a fault of the configuration."""
    with pytest.raises(ConfigError, match="cannot be set up") as caught:
        open_registry("https://127.0.0.1:1", {"ssl.ca.location": str(tmp_path / "none.pem")})
    assert "schemas_client" in caught.value.hint


def test_the_second_address_serves_when_the_first_is_down(new_double):
    """Several addresses of one registry, with commas."""
    first, second = new_double(), new_double()
    first.close()
    second.add("a", '"string"')
    assert open_registry(f"{first.address},{second.address}").schema(1) == '"string"'


def test_registering_is_idempotent_across_subjects(double, registry):
    """The same text has one id in every subject: two regions, one central schema."""
    assert registry.register("eu.orders-value", '"string"') == 1
    assert registry.register("us.orders-value", '"string"') == 1
    asked = len(double.asked)
    assert registry.register("eu.orders-value", '"string"') == 1
    assert registry.register_compatible("eu.orders-value", '"string"') == 1
    assert len(double.asked) == asked, "an id that was given is known, also while the registry is down"
    assert open_registry(double.address).register_compatible("eu.orders-value", '"string"') == 1
    assert registry.subjects() == ["eu.orders-value", "us.orders-value"]
    assert registry.versions("eu.orders-value") == [SchemaVersion("eu.orders-value", 1, 1, '"string"')]
    assert registry.versions("none") == []


def test_concurrent_registration_gives_one_id(double):
    """Slots that meet a schema at once agree on its id."""
    texts = [record((f"f{number}", "int")) for number in range(5)]
    double.level = "NONE"
    answers = []

    def work():
        registry = open_registry(double.address)
        answers.append([registry.register_compatible("a", text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
    assert sorted(answers[0]) == [1, 2, 3, 4, 5]


def test_a_breaking_schema_is_held_with_what_differs(double, registry):
    """The registry's own check comes before the first record; the refusal names fields and types and the next step."""
    registry.register_compatible("a", record(("x", "long"), ("y", "string", CANARY)))
    assert registry.register_compatible("a", record(("x", "long"))) == 2
    with pytest.raises(HoldError) as caught:
        registry.register_compatible("a", record(("x", "string"), ("z", "int"), policy="p/2"))
    assert "~ x: long -> string" in caught.value.message
    assert "+ z: int, without a default" in caught.value.message
    assert "p/2" in caught.value.message
    assert 'central: "{edge}.{topic}.v2"' in caught.value.hint
    assert CANARY not in str(caught.value)
    assert len(double.subjects["a"]) == 2
    double.level = "NONE"
    assert registry.register_compatible("a", record(("x", "string"))) == 3


def test_an_older_version_needs_no_check(double, registry):
    """What is in the subject already flows, whatever came after it."""
    first = registry.register_compatible("a", record(("x", "long"), ("y", "int")))
    registry.register_compatible("a", record(("x", "long")))
    assert open_registry(double.address).register_compatible("a", record(("x", "long"), ("y", "int"))) == first


def test_a_version_that_stands_there_is_taken_where_the_registry_refuses_it_anew(double, registry):
    """Under another version of the policy, which was made for another topic: its id serves, and no version is added."""
    narrow = registry.register_compatible("a", record(("x", "int"), policy="p/1"))
    registry.register_compatible("a", record(("x", "long"), policy="p/1"))
    assert registry.register_compatible("a", record(("x", "int"), policy="p/5")) == narrow
    assert len(double.subjects["a"]) == 2


@pytest.mark.parametrize("status", [409, 422])
def test_a_refusal_at_registration_holds_the_flow(double, registry, status):
    """A registry with rules of its own: told, without its text."""
    registry.register("a", '"string"')
    real = double.answer

    def answer(method, path, body, **more):
        if method == "POST" and path.startswith("/subjects/a/versions"):
            return status, {"error_code": 42201, "message": CANARY}
        return real(method, path, body, **more)

    double.answer = answer
    with pytest.raises(HoldError) as caught:
        registry.register("a", '"bytes"')
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "listed", [(200, []), (200, [10**400]), absent(40401), absent(40402)], ids=["none", "huge", "subject", "version"]
)
def test_tags_of_a_subject_that_is_referred_to_are_not_lost_in_silence(double, registry, listed):
    """A registry that lists no such version of it, though it has just given it, is asked again; then they count."""
    double.add(
        "shared", record(("mail", "string"), name="S").replace('"string"', '"string", "confluent:tags": ["PII"]')
    )
    double.add("shared", record(("mail", "string"), name="S"))
    refers = [{"name": "S", "subject": "shared", "version": 2}]
    double.add("a", record(("s", "S")), references=refers)
    double.instead["/subjects/shared/versions"] = listed
    with pytest.raises(Unreachable):
        registry.history("a", 1)
    double.instead.clear()
    told = [(one.subject, one.version, "PII" in one.text) for one in registry.history("a", 1)]
    assert told == [("shared", 1, True), ("shared", 2, False), ("a", 1, False)]


@pytest.mark.parametrize("code", [404, 40401, 40402, 40403])
def test_a_registry_that_has_no_list_of_subjects_is_none(double, registry, code):
    """One without subjects lists none; whoever has no list is something else."""
    double.instead["/subjects"] = absent(code)
    with pytest.raises(Unreachable):
        registry.subjects()


@pytest.mark.parametrize("code", [40401, 40402, 40403])
def test_a_version_that_is_listed_and_not_there_is_no_history(double, registry, code):
    """It may be the one that has the tags."""
    double.add("a", record(("mail", "string")))
    double.add("a", record(("mail", "string"), ("x", "int", 1)))
    double.instead["/subjects/a/versions/1"] = absent(code)
    with pytest.raises(Unreachable, match="lists version 1 of subject a and does not have it"):
        registry.history("a", 2)
    double.instead.clear()
    assert [one.version for one in registry.history("a", 2)] == [1, 2]


@pytest.mark.parametrize("change", [{"version": 2}, {"subject": "b"}, {"version": "1"}, {"subject": None}])
def test_an_answer_about_another_version_is_none(double, registry, change):
    """A proxy that mixes answers up takes no tag away."""
    double.add("a", record(("mail", "string")))
    double.instead["/subjects/a/versions/1"] = 200, double.ask("GET", "/subjects/a/versions/1") | change
    with pytest.raises(Unreachable, match="gives an answer that is none of a registry"):
        registry.history("a", 1)


@pytest.mark.parametrize("spelling", ["avro", "Avro", "AVRO", "", None])
def test_avro_is_avro_however_it_is_spelt(double, registry, spelling):
    """In a history as by its id: a version that is passed over would take its tags with it."""
    double.add("a", record(("mail", "string")))
    for path in ("/schemas/ids/1", "/subjects/a/versions/1"):
        double.instead[path] = 200, double.ask("GET", path) | {"schemaType": spelling}
    assert registry.schema(1)
    assert [one.version for one in registry.history("a", 1)] == [1]


def test_a_part_of_an_answer_is_none(double, registry):
    """Status 206: what is missing may be the version with the tags."""
    double.add("a", record(("mail", "string")))
    double.instead["/subjects/a/versions"] = 206, [1]
    with pytest.raises(Unreachable):
        registry.history("a", 1)


@pytest.mark.parametrize("given", [-1, 0, True, "5", 5.0, pytest.param(10**400, id="huge"), 2**31, None])
def test_an_id_that_is_none_is_asked_for_again(double, registry, given):
    """What records could not name, or would take for another schema, is not remembered."""
    double.instead["/subjects/a/versions"] = 200, {"id": given}
    with pytest.raises(Unreachable, match="none of a registry"):
        registry.register("a", '"string"')
    double.instead.clear()
    assert registry.register("a", '"string"') == 1


@pytest.mark.parametrize("given", [None, "false", 0, {}])
def test_only_a_yes_is_a_yes(double, registry, given):
    """Whether readers can read on is decided by the registry, and by nothing that only looks like its word."""
    double.add("a", '"string"')
    double.instead["/compatibility/subjects/a/versions/latest"] = 200, {"is_compatible": given}
    with pytest.raises(Unreachable, match="none of a registry"):
        registry.register_compatible("a", '"long"')


def test_what_versions_refer_to_is_asked_for_once_in_a_question(double, registry):
    """A chain of subjects costs a question for each of its versions, and not one for each way to them."""
    double.add("s0", record(("x", "int"), name="R0"))
    for number in range(1, 20):
        refers = [{"name": f"R{number - 1}", "subject": f"s{number - 1}", "version": 1}]
        double.add(f"s{number}", record(("x", f"R{number - 1}"), name=f"R{number}"), references=refers)
    assert len(registry.history("s19", 1)) == 20
    assert len(double.asked) <= 2 * 20
