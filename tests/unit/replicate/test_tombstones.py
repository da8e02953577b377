"""Deletion while a key has several versions: a tombstone under each token that the record's key ever had."""

import base64
import itertools
import random
import time

import numpy as np
import pytest

from aggregator.audit.comparison import parsed
from aggregator.audit.tally import Rules, Tally, compare
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Origin
from aggregator.errors import Unreachable
from aggregator.lake.columns.origin_headers import origin_columns
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import SchemaIdsPending
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import frame
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.delivered import FIRST, SOURCE, deliver
from tests.unit.replicate.key_schemas import KEY_SCHEMA, SCHEMA, strip_of


@pytest.fixture
def rings(monkeypatch):
    """Makes a ring with so many versions."""

    def make(current: int, versions: int) -> dict[str, KeyRing]:
        for version in range(1, versions + 1):
            monkeypatch.setenv(f"KEY_{version}", base64.b64encode(bytes(range(version, version + 32))).decode())
        return {"customer": KeyRing(current, tuple((n, SecretRef("env", f"KEY_{n}")) for n in range(1, versions + 1)))}

    return make


def origins(produced) -> list[str]:
    return [dict(headers)["hub.origin"].decode() for _, _, headers in produced.central]


@pytest.mark.parametrize(
    ("encode", "key_format"), [("hex", ""), ("base64url", "json"), ("uuid", "string"), ("bytes", "")]
)
def test_a_tombstone_goes_to_every_listed_version(rings, encode, key_format):
    """What an earlier version's token holds is deleted; the record with a value is written once."""
    key = b'"jane"' if key_format == "json" else b"jane"
    tokens = {}
    for version in (1, 2, 3):
        strip, value_id, _ = strip_of(rings(version, version), encode, key_format)
        ((tokens[version], _, _),) = deliver(strip, [frame(value_id, b"\x02")], [key]).central
    strip, value_id, _ = strip_of(rings(3, 3), encode, key_format)
    value = frame(value_id, b"\x02")
    produced = deliver(strip, [value, None, value, None, None], [key, key, key, None, key])
    written = [key for key, _, _ in produced.central]
    assert written == [tokens[3]] * 3 + [None, tokens[3]] + [tokens[1]] * 2 + [tokens[2]] * 2
    assert [value for _, value, _ in produced.central[5:]] == [None] * 4
    assert produced.counts == (5, 0, 0), "one record of the edge is one record, whatever it deletes"
    assert len(set(origins(produced))) == len(produced.central)
    own = f"hub/{SOURCE}/"
    first, last = f"{own}{FIRST + 1}/0", f"{own}{FIRST + 4}/0"
    assert origins(produced)[5:] == [f"{first}/1", f"{last}/1", f"{first}/2", f"{last}/2"]


def test_avro_keys_too(rings):
    """A framed key is stripped by its schema under each version."""
    strip, _, key_id = strip_of(rings(2, 2), key_format="avro")
    produced = deliver(strip, [None], [frame(key_id, b"\x08jane")])
    (now, _, _), (before, _, _) = produced.central
    assert b"v2_" in now
    assert b"v1_" in before


@pytest.mark.parametrize("of_batch", [1, 3])
def test_a_tombstone_waits_for_what_its_other_keys_need(rings, of_batch):
    """A registry that is away when the first of them comes: it is tried again, and deletes as much as ever."""
    strip, value_id, key_id = strip_of(rings(2, 2), key_format="avro")
    key, value = frame(key_id, b"\x08jane"), frame(value_id, b"\x02")
    assert len(deliver(strip, [value], [key]).central) == 1
    keys, values = [key] * of_batch, [value] * (of_batch - 1) + [None]
    for registry in (strip._edge_registry, strip._by_schema[0]._central_registry):
        registry.origin = registry.register_compatible = _away
    with pytest.raises(SchemaIdsPending, match="is away") as raised:
        deliver(strip, values, keys)
    assert raised.value.place == of_batch - 1
    for registry in (strip._edge_registry, strip._by_schema[0]._central_registry):
        del registry.origin, registry.register_compatible
    assert len(deliver(strip, values, keys).central) == of_batch + 1


def _away(*_):
    raise Unreachable("the registry is away", hint="")


def test_a_part_of_a_key_that_is_encrypted_goes_to_every_version_too(monkeypatch):
    """What a tag makes of a field of the key depends on a key's version as a token does."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    tagged = KEY_SCHEMA.replace('"type":"string"', '"type":"string","confluent:tags":["PII"]')
    edge.register("orders-value", SCHEMA)
    key_id = edge.register("orders-key", tagged)
    text = (
        "policy: p\nversion: 1\ntags: {PII: {encrypt_deterministic: {key: customer}}}\n"
        "topics: {orders: {key: keep, fields: {id: keep}}}\n"
    )
    for version in (1, 2):
        monkeypatch.setenv(f"KEY_{version}", base64.b64encode(bytes(range(version, version + 64))).decode())

    def keys_of(current: int) -> list[bytes]:
        versions = tuple((n, SecretRef("env", f"KEY_{n}")) for n in range(1, current + 1))
        strip = ReferenceStrip(
            policy=parse_policy(text), edge_topic="orders", central_topic="eu.orders", edge_registry=edge,
            central_registry=central, key_rings={"customer": KeyRing(current, versions)},
            today=utc_today, now_s=time.monotonic,
        )  # fmt: skip
        return [key for key, _, _ in deliver(strip, [None], [frame(key_id, b"\x08jane")]).central]

    (before,) = keys_of(1)
    now, further = keys_of(2)
    assert now != before
    assert further == before


def test_one_version_and_equal_tokens_add_nothing(rings, monkeypatch):
    """Keys that stay the same under another version are written once."""
    strip, _, _ = strip_of(rings(1, 1))
    assert len(deliver(strip, [None], [b"jane"]).central) == 1
    keys = rings(2, 2)
    monkeypatch.setenv("KEY_1", base64.b64encode(bytes(range(2, 34))).decode())
    strip, _, _ = strip_of(keys, "uuid")
    assert len(deliver(strip, [None], [b"jane"]).central) == 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.slow
def test_any_batch_deletes_what_any_version_wrote(rings, seed):
    """A reader that compacts by key: after a tombstone, no token of its key is left, whatever came in between."""
    chance = random.Random(seed)
    names = [b"a", b"b", b"c"]
    state, offsets = {}, itertools.count()
    alive: dict[bytes, bool] = {}
    for current in (1, 2, 3):
        strip, value_id, _ = strip_of(rings(current, current))
        for _ in range(3):
            keys = [chance.choice(names) for _ in range(chance.randrange(1, 6))]
            values = [chance.choice([None, frame(value_id, b"\x02")]) for _ in keys]
            for key, value, _ in deliver(strip, values, keys).central:
                state.pop(key, None) if value is None else state.update({key: next(offsets)})
            alive |= {key: value is not None for key, value in zip(keys, values, strict=True)}
    owners = {}
    for version in (1, 2, 3):
        strip, value_id, _ = strip_of(rings(version, version))
        for name in names:
            ((token, _, _),) = deliver(strip, [frame(value_id, b"\x02")], [name]).central
            owners[token] = name
    assert {owners[token] for token in state} == {name for name in names if alive.get(name)}


def test_origins_of_further_tombstones_are_read_as_such():
    """By whatever reads central: settling, the lake's columns, the audit."""
    text = b"hub/eu/orders/3/1001/2/1"
    origin = Origin.decode(text)
    assert (origin.offset, origin.incarnation, origin.tombstone) == (1001, 2, 1)
    assert origin.encode() == text
    assert origin != Origin.decode(b"hub/eu/orders/3/1001/2")
    assert Origin("hub", "eu", "orders", 3, 1001, 2).encode() == b"hub/eu/orders/3/1001/2"
    for texts in ([b"hub/eu/orders/3/1000/2", text], [text, text], [text, b"hub/eu/orders/3/1002/2/1"]):
        edge, topic, partition, offset, incarnation = (list(map(str, column)) for column in origin_columns(texts))
        assert (edge, topic, partition) == (["eu"] * 2, ["orders"] * 2, ["3"] * 2)
        assert offset == [one.split(b"/")[4].decode() for one in texts]
        assert incarnation == ["2"] * 2
    known = {b"hub/eu/orders/3": EdgePartition("eu", "orders", 3)}
    assert parsed(text, known) == (EdgePartition("eu", "orders", 3), 2, 1001, 1)
    assert parsed(b"hub/eu/orders/3/1001/2", known) == (EdgePartition("eu", "orders", 3), 2, 1001, 0)
    assert parsed(b"hub/eu/orders/3/1001/2/x", known)[0] is None


def test_the_audit_counts_a_further_tombstone_with_its_own():
    """Beside its record it is none of its own; twice it is doubled, and without a record of the edge it is invented."""
    tally = Tally(IncarnationRange(0, OffsetRange(5, 9)))
    tally.count(tally.edge, np.array([5, 6, 7]))
    tally.count(tally.central, np.array([5, 6, 7]))
    for number, tombstone in [(5, 1), (5, 2), (6, 1), (6, 1), (8, 1)]:
        tally.count_further_tombstone(number, tombstone)
    tally.count(tally.lake, np.array([7]))
    tally.delete(np.array([5, 6]), np.array([11, 12], np.uint64))
    tally.delete(np.array([5, 6, 5, 99]), np.array([13, 12, 15, 1], np.uint64))
    tally.count_deleted()
    found, absent = compare(tally, Rules(lake=True))
    told = {(one.kind, one.place): one.offsets for one in found}
    assert told == {
        ("doubled", "central"): (OffsetRange(6, 7),),
        ("unexplained", "central"): (OffsetRange(8, 9),),
        ("doubled", "lake"): (OffsetRange(6, 7),),
    }
    assert not absent.any()
