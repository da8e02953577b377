"""Edges to central to the lake on real brokers, through the command line, read back by plain clients."""

import base64
import hmac
import json
import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import fastavro
import pytest

from tests.trial import KEY, ORDER, read_all, wait_for

pytestmark = pytest.mark.brokers

CANARY = b"canary@x.example"


@pytest.fixture
def closed_port():
    """An address on which nobody listens: bound, so that nobody else takes it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_every_record_is_at_central_and_in_the_lake_once(trial):
    """The whole path: counts, order, timestamps, keys, headers, stripped fields, and a second run adds nothing."""
    trial.produce("eu", 3000, timestamp_ms=1_700_000_000_123)
    trial.produce("us", 500)
    trial.produce_raw("eu", [(b"gone", None, 0)])
    trial.produce_raw("eu", [(None, trial.value(3000), 1)], timestamp_ms=1_700_000_000_123, headers=None)
    trial.drain_here()
    trial.check_exactly_once("us", 500)
    records = trial.central_records("eu")
    assert len(records) == 3002
    assert {m.timestamp()[1] for m in records if m.value() is not None} == {1_700_000_000_123}
    assert {m.key() for m in records} == {b"k%d" % n for n in range(13)} | {b"gone", None}
    assert [m.key() for m in records if m.value() is None] == [b"gone"]
    for message in records:
        kept = [] if message.key() is None else ["traceparent"]
        assert [name for name, _ in message.headers()] == [*kept, "hub.origin"]
        assert CANARY not in repr(message.headers()).encode()
        assert b"@x.example" not in (message.value() or b"")
    before = len(records)
    trial.produce("eu", 10)
    trial.drain_here()
    assert len(trial.central_records("eu")) == before + 10
    assert len(trial.lake()) == before + 10 + 500


def test_poison_becomes_dead_letters_and_the_rest_arrives(trial):
    """Faults 10 and 11: coordinates and reason, never the payload, and no worker dies."""
    trial.produce("eu", 100)
    # What a token of `c5` and the date shift of `Anna` would be made of: no hash of a letter may tell them.
    asked_token, asked_shift = b"\0\0\0\x08customerc5", b"\0\0\0\0Anna"
    poison = {
        b"\x00\x00\x00\x00\x07\xff\xff\xff": "undecodable",
        b"\x00\x00\x00\x27\x10" + trial.value(1)[5:]: "unknown_schema",
        b"\x01" + trial.value(1)[1:]: "wrong_magic",
        b"\x00": "wrong_magic",
        b"": "wrong_magic",
        b"\x00\x00\x00\x00\x07" + b"\x02" * 5000: "undecodable",
        trial.value(2) + b"trailing": "undecodable",
        asked_token: "unknown_schema",
        asked_shift: "unknown_schema",
    }
    trial.produce_raw("eu", [(b"p", value, 1) for value in poison])
    trial.produce("eu", 100)
    done = trial.drain_here()
    trial.check_exactly_once("eu", 200)
    letters = trial.letters()
    assert sorted(letter["reason"] for letter in letters) == sorted(poison.values())
    assert {(letter["edge"], letter["topic"], letter["partition"]) for letter in letters} == {("eu", trial.topic, 1)}
    sizes = {len(value) for value in poison}
    assert {letter["value_bytes"] for letter in letters} == sizes
    assert b"x.example" not in json.dumps(letters).encode()
    hashes = {letter["value_hmac"] for letter in letters}
    assert len(hashes) == len(poison)
    assert not any(hmac.digest(base64.b64decode(KEY), value, "sha256").hex() in hashes for value in poison)
    assert "x.example" not in done.stderr
    assert sum(flow["dead"] for flow in trial.status()["flows"]) == len(poison)


@pytest.mark.whole
def test_a_running_hub_follows_its_edges_and_ends_cleanly(trial):
    """Heartbeats, partitions added and a topic recreated while it runs (faults 14, 15); SIGTERM releases the lease."""
    trial.produce("eu", 30)
    with trial.running() as hub:

        def up():
            assert hub.poll() is None, hub.log.read_text()
            return {edge["state"] for edge in trial.status()["edges"]} == {"UP"}

        wait_for(up, timeout=90, what="both edges UP")

        def introduced():
            return [line for line in hub.log.read_text().splitlines() if f"hub {trial.hub}, aggregator" in line]

        wait_for(introduced, timeout=30, what="the line that names the clusters")
        (line,) = introduced()
        assert line.count(" is cluster ") == line.count("(PLAINTEXT, Kafka ") == 3, line
        trial.widen("us", 5)
        trial.produce_raw("us", [(b"late", trial.value(0), 4)])
        wait_for(lambda: trial.numbers("us") == [0], timeout=60, what="the new partition's delivery")
        assert trial.origins("us") == [(4, 0, 0)], "from its beginning"
        wait_for(lambda: trial.central_count("eu") == 30, timeout=60, what="the first life's delivery")
        trial.delete("eu")
        trial.create("eu")
        wait_for(lambda: _incarnations(trial, "eu") == {1}, timeout=60, what="the new incarnation")
        trial.produce("eu", 60)
        wait_for(lambda: len(trial.central_records("eu")) >= 90, timeout=60, what="the second life's delivery")
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
    assert [body["released"] for key, body in trial.control() if key == "lease"][-1] is True
    beats = [m for m in trial.central_records("eu", "eu.heartbeats") if trial.hub.encode() in m.key()]
    key = beats[0].key()
    assert key == b"".join(len(t).to_bytes(2, "big") + t.encode() for t in (trial.hub, "eu"))
    assert all(len(m.value()) == 10 and m.value()[:2] == b"\0\0" for m in beats)
    assert {m.timestamp()[0] for m in beats} == {2}, "LogAppendTime"
    assert trial.run("run", "--only", "replicate", "--for", "1s").returncode == 0
    assert [body["released"] for key, body in trial.control() if key == "lease"][-1] is True
    trial.check_exactly_once("eu", 90, lake=False)


def _incarnations(trial, edge):
    return {body["incarnation"] for (where, _), body in trial.ledger().items() if where == edge}


@pytest.mark.whole
def test_what_cannot_flow_is_named_and_holds_up_nothing_else(trial, closed_port):
    """Faults 5, 11, 12, 16 and old records: named with the next step, exit 4 or 5, the rest flows, nothing is reset."""
    old = f"old-{trial.mark}"
    (rule,) = trial.settings["topics"]
    rule["match"] = f"{trial.topic}|{old}"
    trial.settings["replication"] = {"drain_patience": "5s"}
    trial.settings["edges"]["ap"] = {"bootstrap_servers": closed_port, "schemas": "directory:schemas"}
    trial.settings["edges"]["us"]["schemas"] = "directory:not-there"
    trial.write()
    trial.create("eu", 1, topic=old, retention_ms="-1")
    trial.create("central", 1, topic=f"eu.{old}", retention_ms=str(7 * 86_400_000))
    trial.produce_raw("eu", [(b"k", trial.value(7), 0)], timestamp_ms=1_370_000_000_000, topic=old)
    trial.produce("eu", 30)
    trial.produce("us", 30)
    with ThreadPoolExecutor(1) as beside:
        arrived = beside.submit(
            wait_for, lambda: trial.central_count("eu") == 30, timeout=120, what="the healthy flows' delivery"
        )
        said = trial.drain_here(expect=4).output
        assert arrived.done(), "while the others were waited for"
        arrived.result()
    assert re.search("edge ap was not read: .*answer", said)
    assert f"eu/{old}/0" in said
    assert "retention.ms" in said
    assert str(trial.folder / "not-there") in said
    assert (trial.central_count("us"), len(read_all(trial.sandbox.central.bootstrap, f"eu.{old}"))) == (0, 0)
    assert {edge["edge"]: edge["state"] for edge in trial.status()["edges"]}["ap"] == "UNREACHABLE"

    shutil.copytree(trial.folder / "schemas", trial.folder / "not-there")
    trial.configure("central", f"eu.{old}", "retention.ms", "-1")
    del trial.settings["edges"]["ap"]
    trial.write()
    trial.produce("eu", 30)
    trial.cut("eu", 0, 15)
    done = trial.drain_here(expect=5)
    assert f"eu/{trial.topic}/0" in done.stderr
    assert "10 to 14" in done.stderr
    assert sorted(trial.numbers("eu")) == sorted([*range(0, 30, 3), *(n for n in range(60) if n % 3)])
    trial.check_exactly_once("us", 30)
    assert len(read_all(trial.sandbox.central.bootstrap, f"eu.{old}")) == 1
    status = trial.status()
    assert {edge["edge"]: edge["state"] for edge in status["edges"]}["eu"] == "LOSING_DATA"
    (cut,) = [flow for flow in status["flows"] if flow["gap"]]
    assert (cut["edge"], cut["partition"], cut["next_offset"]) == ("eu", 0, 10)
    assert cut["gap"] == {"start": 10, "end": 15}


def test_what_comes_before_a_refused_schema_arrives(trial):
    """A schema that central's registry refuses holds its partition at its first record, in one poll with others too."""
    other = json.loads(json.dumps(ORDER))
    other["fields"][3]["type"] = "string"
    (trial.folder / "schemas" / f"{trial.topic}-value" / "2-8.avsc").write_text(json.dumps(other))
    parsed = fastavro.parse_schema(other)
    trial.produce("eu", 3001)
    trial.produce_raw("eu", [(b"k", trial.value(9000, 8, parsed, amount="x"), 1)] * 5)
    trial.produce("eu", 500)
    done = trial.drain_here(expect=4)
    places = [origin(m) for m in trial.central_records("eu")]
    assert sorted(offset for partition, offset in places if partition == 1) == list(range(1000))
    assert len(places) == len(set(places)) == 3501 - 167, "of the partition that is held nothing behind it"
    assert f"eu/{trial.topic}/1" in done.stderr
    assert trial.ledger()["eu", 1]["next_offset"] == 1000
    assert len(trial.lake()) == 3501 - 167


def origin(message) -> tuple[int, int]:
    """Partition and offset at the edge."""
    parts = dict(message.headers())["hub.origin"].split(b"/")
    return int(parts[3]), int(parts[4])


def test_a_central_that_is_not_there_is_named(trial, closed_port):
    """A broker that does not answer: exit 1 with its address and the next step, before anything is started."""
    trial.settings["central"] = {"bootstrap_servers": closed_port}
    trial.write()
    done = trial.typed("run", "--drain")
    assert done.exit_code == 1
    assert trial.settings["central"]["bootstrap_servers"] in done.stderr
    assert "next:" in done.stderr


@pytest.mark.parametrize("written", [None, "aGVsbG8tY2FuYXJ5"], ids=["missing", "too short"])
def test_a_wrong_key_is_refused_by_reference(trial, written):
    """A key that is not there or too weak: exit 78 with the reference, never the value, and nothing is delivered."""
    (trial.folder / "key").unlink()
    if written:
        (trial.folder / "key").write_text(written)
    trial.produce("eu", 1)
    done = trial.typed("run", "--drain")
    assert done.exit_code == 78
    assert str(trial.folder / "key") in done.stderr
    assert (written or "no value") not in done.stderr
    assert trial.central_count("eu") == 0


@pytest.mark.whole
def test_another_key_under_the_same_name_delivers_nothing(trial):
    """At a start and, replaced while the hub runs, in its next epoch: exit 78 by name; the former key goes on."""
    trial.produce("eu", 30)
    trial.drain_here("--only", "replicate")
    records = trial.control()
    assert [(body["name"], body["version"]) for key, body in records if key.startswith("key/")] == [("customer", 1)]
    assert KEY not in json.dumps(records)
    other = base64.b64encode(bytes(range(1, 33))).decode()
    (trial.folder / "key").write_text(other)
    trial.produce("eu", 30)
    done = trial.typed("run", "--drain", "--only", "replicate")
    assert done.exit_code == 78
    assert "key customer version 1: another key than the one that this hub has used" in done.stderr
    assert other not in done.stderr
    assert trial.central_count("eu") == 30
    (trial.folder / "key").write_text(KEY)
    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: trial.central_count("eu") == 60, timeout=90, what="the former key's records")
        (trial.folder / "key").write_text(other)
        trial.widen("eu", 4)
        assert hub.wait(90) == 78, hub.log.read_text()[-2000:]
    trial.produce("eu", 30)
    assert trial.central_count("eu") == 60
