"""Edges to central to the lake on real brokers, through the command line, read back by plain clients."""

import json

import pytest

pytestmark = pytest.mark.brokers

CANARY = b"canary@x.example"


def test_every_record_is_at_central_and_in_the_lake_once(trial):
    """The whole path: counts, order, timestamps, keys, headers, stripped fields, and a second run adds nothing."""
    trial.produce("eu", 3000, timestamp_ms=1_700_000_000_123)
    trial.produce("us", 500)
    trial.produce_raw("eu", [(b"gone", None, 0)])
    trial.drain()
    trial.check_exactly_once("us", 500)
    records = trial.central_records("eu")
    assert len(records) == 3001
    assert {m.timestamp()[1] for m in records if m.value() is not None} == {1_700_000_000_123}
    assert {m.key() for m in records} == {b"k%d" % n for n in range(13)} | {b"gone"}
    assert [m.key() for m in records if m.value() is None] == [b"gone"]
    for message in records:
        assert [name for name, _ in message.headers()] == ["traceparent", "hub.origin"]
        assert CANARY not in repr(message.headers()).encode()
        assert b"@x.example" not in (message.value() or b"")
    before = len(records)
    trial.produce("eu", 10)
    trial.drain()
    assert len(trial.central_records("eu")) == before + 10
    assert len(trial.lake()) == before + 10 + 500


def test_poison_becomes_dead_letters_and_the_rest_arrives(trial):
    """Faults 10 and 11: coordinates and reason, never the payload, and no worker dies."""
    trial.produce("eu", 100)
    poison = {
        b"\x00\x00\x00\x00\x07\xff\xff\xff": "undecodable",
        b"\x00\x00\x00\x27\x10" + trial.value(1)[5:]: "unknown_schema",
        b"\x01" + trial.value(1)[1:]: "wrong_magic",
        b"\x00": "wrong_magic",
        b"": "wrong_magic",
        b"\x00\x00\x00\x00\x07" + b"\x02" * 5000: "undecodable",
        trial.value(2) + b"trailing": "undecodable",
    }
    trial.produce_raw("eu", [(b"p", value, 1) for value in poison])
    trial.produce("eu", 100)
    done = trial.drain()
    trial.check_exactly_once("eu", 200)
    letters = trial.letters()
    assert sorted(letter["reason"] for letter in letters) == sorted(poison.values())
    assert {(letter["edge"], letter["topic"], letter["partition"]) for letter in letters} == {("eu", trial.topic, 1)}
    sizes = {len(value) for value in poison}
    assert {letter["value_bytes"] for letter in letters} == sizes
    assert b"x.example" not in json.dumps(letters).encode()
    assert "x.example" not in done.stderr
    assert sum(flow["dead"] for flow in trial.status()["flows"]) == len(poison)


def test_heartbeats_travel_the_same_way(trial):
    """Beats are at central in MirrorMaker 2's bytes with central's own time, and `status` shows their age."""
    with trial.running() as hub:
        from tests.trial import wait_for

        def up():
            assert hub.poll() is None, hub.log.read_text()
            return {edge["state"] for edge in trial.status()["edges"]} == {"UP"}

        wait_for(up, timeout=60, what="both edges UP")
    beats = [m for m in trial.central_records("eu", "eu.heartbeats") if trial.hub.encode() in m.key()]
    key = beats[0].key()
    assert key == b"".join(len(t).to_bytes(2, "big") + t.encode() for t in (trial.hub, "eu"))
    assert all(len(m.value()) == 10 and m.value()[:2] == b"\0\0" for m in beats)
    assert {m.timestamp()[0] for m in beats} == {2}, "LogAppendTime"
