"""The doctor over real clusters: nothing is reported of a healthy pair, and each planted fault by its own name."""

import json
import logging
import socket
import socketserver
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import structlog
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from aggregator.cli.main import main
from aggregator.edges.heartbeats import Heartbeat
from aggregator.state.control import NamedCluster
from tests.faulty_listeners import PASSWORD, faulty
from tests.loopback import loopback

pytestmark = pytest.mark.brokers
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A broker in which everything is wrong, one thing a listener."""
    settings = {"transaction.max.timeout.ms": "10000", "min.insync.replicas": "2"}
    with faulty(tmp_path_factory.mktemp("broken") / "faulty", settings) as started:
        yield started


@pytest.fixture
def examined(monkeypatch):
    """Runs the doctor in this process: exit code, and findings by cluster and check."""
    monkeypatch.setenv("FAULTY_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG_PASSWORD", "not-it")
    root = logging.getLogger()
    before = root.handlers[:], root.level

    def run(trial):
        trial.write()
        done = CliRunner().invoke(main, ["doctor", "-o", "json", "--config", str(trial.config)])
        assert done.stdout, done.stderr
        assert PASSWORD not in done.stdout
        return done.exit_code, json.loads(done.stdout)["findings"]

    yield run
    root.handlers[:], root.level = before[0], before[1]
    structlog.reset_defaults()


def faults(findings, cluster=None):
    """What is not well, by cluster and check."""
    bad = [one for one in findings if one["state"] != "ok" and cluster in (None, one["cluster"])]
    assert all(one["what"] and one["next"] for one in bad)
    return {(one["cluster"], one["check"]): one for one in bad}


def test_nothing_is_reported_of_a_healthy_pair(trial, examined):
    """All checks are told, and all are well."""
    trial.produce("eu", 30)
    trial.produce("us", 30)
    code, findings = examined(trial)
    assert faults(findings) == {}
    assert code == 0
    assert {one["state"] for one in findings} == {"ok"}
    told = {(one["cluster"], one["check"]) for one in findings}
    assert {("central", check) for check in ("transactions", "replication", "registry", "id", "version")} <= told
    assert {("eu", check) for check in ("rights", "topics", "size", "retention", "registry", "advertised")} <= told
    assert {("this machine", check) for check in ("java", "disk", "keys")} <= told
    assert all(set(one) == {"cluster", "check", "state", "what", "next"} for one in findings)


def planted_ways(broken, closed):
    """Edges that cannot be reached, each for another reason: check, a word of the cause, a word of the remedy."""
    wrong = broken.client(sasl_password="env:WRONG_PASSWORD")
    return {
        "name": ({"bootstrap_servers": "broker.invalid:9092"}, "name", "broker.invalid", "getent hosts"),
        "port": ({"bootstrap_servers": closed}, "port", "nobody listens", "ss -ltn"),
        "plain": (
            {"bootstrap_servers": broken.broker.bootstrap, "client": broken.tls()},
            "tls",
            "speaks plain text",
            "TLS listener",
        ),
        "tls": ({"bootstrap_servers": broken.address("right")}, "tls", "asks for none", "security.protocol: SSL"),
        "expired": (
            {"bootstrap_servers": broken.address("expired"), "client": broken.tls()},
            "tls",
            "has expired",
            "renew",
        ),
        "foreign": (
            {"bootstrap_servers": broken.address("foreign"), "client": broken.tls()},
            "tls",
            "CN=Another Authority",
            "ssl.ca.location",
        ),
        "host": (
            {"bootstrap_servers": broken.address("host"), "client": broken.tls()},
            "tls",
            "is for broker.example, not for 127.0.0.1",
            "write a name",
        ),
        "mutual": (
            {"bootstrap_servers": broken.address("mutual"), "client": broken.tls()},
            "tls",
            "wants a certificate",
            "ssl.certificate.location",
        ),
        "ca": (
            {
                "bootstrap_servers": broken.address("right"),
                "client": broken.tls() | {"ssl.ca.location": "/nowhere/ca.pem"},
            },
            "tls",
            "ssl.ca.location",
            "ssl.ca.location",
        ),
        "mechanism": (
            {
                "bootstrap_servers": broken.address("sasl"),
                "client": broken.client(sasl_mechanism="SCRAM-SHA-512"),
            },
            "mechanism",
            "it takes PLAIN",
            "sasl.enabled.mechanisms",
        ),
        "build": (
            {"bootstrap_servers": broken.address("sasl"), "client": {"security.protocol": "SASL_SSL"}},
            "mechanism",
            "Kerberos (GSSAPI",
            "aggregator config lint",
        ),
        "anonymous": (
            {"bootstrap_servers": broken.address("sasl"), "client": broken.tls()},
            "mechanism",
            "lets in only who signs in (PLAIN)",
            "SASL_SSL",
        ),
        "nosasl": (
            {"bootstrap_servers": broken.address("right"), "client": broken.client()},
            "mechanism",
            "nobody signs in",
            "security.protocol: SSL",
        ),
        "password": (
            {"bootstrap_servers": broken.address("sasl"), "client": wrong},
            "password",
            "Invalid username or password",
            "sasl.password",
        ),
        "unset": (
            {
                "bootstrap_servers": broken.address("sasl"),
                "client": broken.client(sasl_password="env:NOT_SET_ANYWHERE"),
            },
            "password",
            "NOT_SET_ANYWHERE",
            "export NOT_SET_ANYWHERE",
        ),
        "lost": (
            {"bootstrap_servers": broken.address("lost")},
            "advertised",
            "broker 1 says that it is reached at",
            "advertised.listeners",
        ),
    }


def test_an_edge_that_hangs_delays_no_other(trial, examined, monkeypatch):
    """Its kernel takes connections; each question to it has its bound, and all others are told."""
    monkeypatch.setattr("aggregator.doctor.facts.STEP_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        address = f"127.0.0.1:{hangs.getsockname()[1]}"
        trial.settings["edges"]["hangs"] = {"bootstrap_servers": address, "schemas": "directory:schemas"}
        code, findings = examined(trial)
    assert code == 4
    (found,) = faults(findings, "hangs").values()
    assert (found["check"], found["state"]) == ("protocol", "failed")
    assert "does not answer" in found["what"]
    assert [one for one in findings if (one["cluster"], one["check"]) == ("eu", "topics")]


@contextmanager
def damaging(bootstrap: str):
    """A way to a broker on which its metadata are damaged: more brokers than there are bytes. librdkafka dies of it."""

    class Way(socketserver.BaseRequestHandler):
        def handle(self):
            host, port = bootstrap.split(":")
            with socket.create_connection((host, int(port))) as broker, suppress(EOFError, OSError):
                while True:
                    asked = _message(self.request)
                    broker.sendall(asked)
                    answer = bytearray(_message(broker))
                    if asked[4:6] == b"\0\3":
                        answer[12:16] = b"\x80" * 4  # the last byte of the throttle time, and the count behind it
                    self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Way) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _message(line: socket.socket) -> bytes:
    """One message of Kafka's protocol, its length before it."""
    file = line.makefile("rb", buffering=0)
    head = file.read(4)
    found = b""
    while len(head) == 4 and len(found) < int.from_bytes(head, "big"):
        part = file.read(int.from_bytes(head, "big") - len(found))
        if not part:
            break
        found += part
    if not found:
        raise EOFError
    return head + found


def test_a_cluster_that_is_not_the_edge_s_own_is_the_first_that_is_told(trial, epochs, examined):
    """Central under an edge's name, and another cluster than the hub has kept; what follows from either is left out."""
    epochs.central.publish(NamedCluster("us", "the-cluster-of-before"))
    trial.settings["edges"]["same"] = {
        "bootstrap_servers": trial.sandbox.central.bootstrap,
        "schemas": "directory:schemas",
    }
    code, findings = examined(trial)
    assert code == 4
    assert list(faults(findings)) == [("us", "id"), ("same", "id")]
    found = faults(findings)
    assert "is the same cluster as central" in found["same", "id"]["what"]
    assert "stood for the-cluster-of-before" in found["us", "id"]["what"]
    assert "aggregator edge accept us --reason" in found["us", "id"]["next"]


def test_an_answer_that_ends_librdkafka_is_a_finding_of_its_cluster(trial, examined):
    """Damaged metadata: the doctor lives, says whose answers they are, and what else it found of that cluster."""
    trial.produce("eu", 3)
    with damaging(trial.sandbox.edges["eu"].bootstrap) as address:
        trial.settings["edges"]["odd"] = {"bootstrap_servers": address, "schemas": "directory:schemas"}
        code, findings = examined(trial)
    assert code == 4
    (found,) = faults(findings, "odd").values()
    assert (found["check"], found["state"]) == ("protocol", "failed")
    assert address in found["what"]
    assert "ended by SIG" in found["what"]
    assert [one for one in findings if (one["cluster"], one["check"], one["state"]) == ("odd", "port", "ok")]
    assert not faults(findings, "eu")


@pytest.mark.whole
def test_what_keeps_an_edge_away_is_told_by_its_name(trial, broken, examined, monkeypatch):
    """Sixteen edges at once, each with a fault of its own: one finding each, and none of the edge that is well."""
    monkeypatch.setattr("aggregator.doctor.facts.STEP_S", 30.0)  # a handshake on a busy machine
    trial.produce("eu", 3)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = f"127.0.0.1:{gone.getsockname()[1]}"
    ways = planted_ways(broken, closed)
    for edge, (settings, *_) in ways.items():
        trial.settings["edges"][edge] = settings | {"schemas": "directory:schemas"}
    code, findings = examined(trial)
    assert code == 4
    assert faults(findings, "eu") == {}
    assert faults(findings, "us") == {}
    for edge, (_, check, cause, remedy) in ways.items():
        found = faults(findings, edge)
        assert list(found) == [(edge, check)], (edge, found)
        assert cause in found[edge, check]["what"], (edge, found)
        assert remedy in found[edge, check]["next"], (edge, found)
        assert found[edge, check]["state"] == "failed"


@pytest.fixture
def website():
    """An HTTP server that is no registry."""
    with loopback(lambda request: request.answer(200, b"<html>welcome</html>")) as address:
        yield address


def plant_on_edges(trial, broken, website, closed):
    """Faults of edges that can be reached, the shared ones and the broken one among them."""
    mark = trial.mark
    for name in ("old", "large", "text", "strange"):
        config = {"max_message_bytes": "3000000"} if name == "large" else {}
        trial.create("eu", 1, topic=f"{name}-{mark}", **config)
    trial.create("central", 1, topic=f"eu.large-{mark}")
    month_ago = int(time.time() * 1000) - 30 * DAY_MS
    trial.produce_raw("eu", [(b"k", trial.value(1), 0)], topic=f"old-{mark}", timestamp_ms=month_ago)
    trial.produce_raw("eu", [(b"k", b"plain text", 0)], topic=f"text-{mark}")
    trial.produce_raw("eu", [(b"k", trial.value(1, 99), 0)], topic=f"strange-{mark}")
    trial.settings["topics"][0] |= {
        "match": f"{trial.topic}|(old|large|text|strange|seen)-{mark}",
        "central_config": {"retention.ms": str(DAY_MS)},
    }
    broken.create(f"seen-{mark}")
    broken.create("heartbeats", **{"message.timestamp.type": "LogAppendTime"})
    for name in (f"seen-{mark}", "heartbeats"):
        broken.allow(ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    twin = trial.settings["edges"]["us"]
    trial.settings["edges"] |= {
        "guarded": {"bootstrap_servers": broken.address("sasl"), "client": broken.client(), "schemas": website},
        "clock": {"bootstrap_servers": broken.broker.bootstrap, "schemas": f"http://{closed}"},
        "soon": {
            "bootstrap_servers": broken.address("soon"),
            "client": broken.tls(),
            "schemas": "directory:no-such-folder",
        },
        "twin": dict(twin),
    }


def test_what_keeps_records_away_is_told_by_its_name(trial, broken, examined, website):
    """Rights, ids, sizes, clocks, registries, retention, records, topics: cause and remedy of each."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = f"127.0.0.1:{gone.getsockname()[1]}"
    plant_on_edges(trial, broken, website, closed)
    beat = Heartbeat("clock", "hub", int(time.time() * 1000) - 600_000)
    producer = Producer({"bootstrap.servers": broken.broker.bootstrap, "acks": 1})
    producer.produce("heartbeats", beat.encode_value(), beat.encode_key())
    assert producer.flush(10) == 0
    code, findings = examined(trial)
    found, mark = faults(findings), trial.mark
    expected = {
        ("eu", "size"): (f"large-{mark} takes records of 3,000,000 bytes", "aggregator plan --apply"),
        ("eu", "retention"): ("30 days old", 'retention.ms: "-1"'),
        ("eu", "registry"): (f"schema id 99, which the newest records of strange-{mark}", "register"),
        ("eu", "records"): (f"newest values of text-{mark} are not Avro", "value_format: json"),
        ("guarded", "rights"): ("User:hub has no right to Read", "kafka-acls --bootstrap-server"),
        ("guarded", "registry"): ("registry http://127.0.0.1", ""),
        ("clock", "clock"): ("s ahead of that of its heartbeats' writer", "chronyc"),
        ("clock", "registry"): (f"registry http://{closed} cannot be reached", "address"),
        ("soon", "tls"): ("expires on", "renew"),
        ("soon", "registry"): ("no-such-folder", ""),
        ("twin", "id"): ("is the same cluster as us", "bootstrap_servers"),
    }
    for at, (cause, remedy) in expected.items():
        assert cause in found[at]["what"], (at, found.get(at))
        assert remedy in found[at]["next"], (at, found[at])
    assert code == 4
    rights = [one["what"] for one in findings if (one["cluster"], one["check"]) == ("guarded", "rights")]
    assert any(f"topic seen-{mark}" in what and "Read and DescribeConfigs" in what for what in rights)
    assert any("Write and DescribeConfigs on topic heartbeats" in what for what in rights)
    twins = {edge for edge in ("clock", "guarded", "soon") if (edge, "id") in found}
    assert twins == {"clock", "guarded", "soon"}, "one broker under three names"
    expected |= {(edge, "id"): () for edge in (*twins, "us")}
    spoilt = {("soon", "clock")} | {(edge, "topics") for edge in trial.settings["edges"]}
    assert found.keys() <= expected.keys() | spoilt, found.keys() - expected.keys()


def test_what_keeps_central_from_its_work_is_told_by_its_name(trial, broken, examined):
    """Transactions, replicas, rights on topics and transactional ids, topics of the hub's own, a registry's folder."""
    hub = trial.hub
    trial.settings["central"] = {"bootstrap_servers": broken.address("sasl"), "client": broken.client()}
    broken.create(f"{hub}.ledger", **{"cleanup.policy": "delete"})
    broken.allow(ResourceType.TOPIC, hub, AclOperation.ALL, prefix=True)
    broken.allow(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    broken.allow(ResourceType.TRANSACTIONAL_ID, f"{hub}.driver", AclOperation.WRITE)
    trial.settings["schemas"] = "directory:no/such/folder"
    code, findings = examined(trial)
    assert code == 1
    what = {check: [one for one in findings if (one["cluster"], one["check"]) == ("central", check)] for check in (
        "transactions", "replication", "rights", "topics", "registry"
    )}  # fmt: skip
    bad = {check: [one for one in told if one["state"] == "failed"] for check, told in what.items()}
    assert "transaction.max.timeout.ms is 10000" in bad["transactions"][0]["what"]
    assert "transaction.max.timeout.ms=15000" in bad["transactions"][0]["next"]
    assert any("min.insync.replicas is 2" in one["what"] for one in bad["replication"])
    denied = {one["what"]: one["next"] for one in bad["rights"]}
    (slot,) = [one for one in denied if f"transactional id {hub}.slot-0" in one]
    assert f"--operation Write --transactional-id {hub}.slot-0" in denied[slot]
    assert not [one for one in denied if f"{hub}.driver" in one or f"topic {hub}.control" in one]
    assert any("Read and Write and Create" in one and f"topic eu.{trial.topic}" in one for one in denied)
    assert f"{hub}.ledger has cleanup.policy=delete" in bad["topics"][0]["what"]
    assert "--add-config cleanup.policy=compact" in bad["topics"][0]["next"]
    assert bad["registry"]
    assert faults(findings, "eu") == {}
    trial.settings["replication_factor"] = 3
    _, findings = examined(trial)
    assert any("`replication_factor` is 3, and there are 1 brokers" in one["what"] for one in findings)
