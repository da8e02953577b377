"""Records that come back: known by a seal that only the hub can make, and counted."""

import base64
import random
import time

import pytest

from aggregator.budgets import ORIGIN_HEADERS
from aggregator.bytes_column import BytesColumn
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.coordinates import SEAL_HEADER
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.identity.cycles import Cycles, ReturningTopics, seal_keys
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import frame
from tests.growth import cpu_s
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.delivered import CENTRAL, SOURCE, deliver
from tests.unit.replicate.key_schemas import KEY_SCHEMA, SCHEMA, strip_of
from tests.unit.replicate.plan_inputs import CONFIG

KEYS = (b"k" * 32, b"f" * 32)
SEALED = Cycles("hub", frozenset({SOURCE.topic}), frozenset({CENTRAL}), KEYS)
OURS = b"hub/eu/orders/3/7/0"
REFS = ((1, SecretRef("env", "CUSTOMER")), (2, SecretRef("env", "CUSTOMER_2")))


def returned(origin: bytes, keys=KEYS, topic=CENTRAL) -> list[tuple[str, bytes]]:
    """The headers of a record of ours as they are at central."""
    ((name, seals),) = Cycles("hub", frozenset(), frozenset({topic}), keys).seals(topic, BytesColumn.of([origin]))
    return [("hub.origin", origin), (name, seals[0])]


@pytest.mark.parametrize(
    ("headers", "cycles", "counted"),
    [
        (returned(OURS), SEALED, (1, 0)),
        (returned(OURS, KEYS[1:]), SEALED, (1, 0)),
        ([("hub.origin", OURS)], SEALED, (0, 1)),
        ([("hub.origin", OURS), (SEAL_HEADER, b"0" * 32)], SEALED, (0, 1)),
        ([("hub.origin", OURS), (SEAL_HEADER, None)], SEALED, (0, 1)),
        ([("hub.origin", OURS), returned(OURS + b"1")[1]], SEALED, (0, 1)),
        ([("hub.origin", OURS), returned(OURS, (b"g" * 32,))[1]], SEALED, (0, 1)),
        ([("hub.origin", b"other/eu/orders/3/7/0")], SEALED, (0, 0)),
        ([("hub.origin", OURS)], Cycles("hub", frozenset({SOURCE.topic})), (1, 0)),
        (returned(OURS), Cycles("hub", frozenset(), frozenset(), KEYS), (0, 0)),
    ],
)
def test_only_a_sealed_origin_is_a_cycle(headers, cycles, counted):
    """A producer's own header suppresses nothing and is told; without a key, what it says is taken, and told."""
    strip, value_id, _ = strip_of(_ring())
    produced = deliver(strip, [frame(value_id, b"\x02")], [b"jane"], [headers], cycles)
    entry = produced.flow.cursor.entry
    assert (entry.cycles, entry.forged) == counted
    assert produced.counts == (1 - counted[0], 0, counted[0])
    assert len(produced.central) == 1 - counted[0]
    for _, _, own in produced.central:
        assert [name for name, _ in own] == ["hub.origin", *([SEAL_HEADER] if cycles.sealed else [])]
        assert own[0][1].startswith(b"hub/eu/orders/3/1000/")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("CUSTOMER", base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setenv("CUSTOMER_2", base64.b64encode(bytes(range(1, 33))).decode())


def _ring():
    return {"customer": KeyRing(1, ((1, SecretRef("env", "CUSTOMER")),))}


def test_a_tombstone_that_comes_back_deletes_nothing_more():
    """Or every round would write one more for each other version of the key, and those would come back as well."""
    strip, _, _ = strip_of({"customer": KeyRing(2, REFS)})
    produced = deliver(strip, [None, None], [b"v2_0", b"jane"], [returned(OURS), None], SEALED)
    assert produced.counts == (1, 0, 1)
    written = [dict(headers)["hub.origin"] for _, _, headers in produced.central]
    assert written == [b"hub/eu/orders/3/1001/0", b"hub/eu/orders/3/1001/0/1"]


@pytest.mark.parametrize("headers", [None, [("__value_schema_id", b"\0\0\0\0\x63")]])
@pytest.mark.parametrize("patience_s", [0.0, 5.0])
def test_what_comes_back_is_not_read(headers, patience_s):
    """It has central's schema ids, unknown at the edge or another topic's: nothing waits for it, nothing is held."""
    registry = MemoryRegistry()
    value_id, others_id = registry.register("orders-value", SCHEMA), registry.register("others-value", KEY_SCHEMA)
    strip = ReferenceStrip(
        policy=parse_policy(
            "policy: p\nversion: 1\ntopics: {orders: {key: keep, headers: [x], fields: {id: keep},"
            " drop_record: [{header: y, equals: z}]}}"
        ),
        edge_topic="orders", central_topic=CENTRAL, edge_registry=registry, central_registry=MemoryRegistry(),
        key_rings={},
        today=utc_today, now_s=time.monotonic, patience_s=patience_s,
    )  # fmt: skip
    value = frame(value_id, b"\x02")
    values = [value, frame(others_id, b"\x02"), frame(9999, b"\x02"), b"\0", value]
    keys = [b"a", b"b", b"c", frame(9999, b""), b"e"]
    ours = [("x", b"1"), *(headers or ()), *returned(OURS)]
    own = [("x", b"2"), ("y", b"1")]
    produced = deliver(strip, values, keys, [own, ours, ours, ours, own], SEALED)
    assert produced.counts == (2, 0, 3)
    assert [key for key, _, _ in produced.central] == [b"a", b"e"]
    assert produced.letters == []
    assert [dict(headers)["x"] for _, _, headers in produced.central] == [b"2", b"2"]
    assert produced.flow.cursor.entry.stripped == 2, "the headers y: nothing is counted of what is not read"


def test_what_the_hub_sealed_it_knows_again():
    """Whatever origins a batch has; one changed digit, and it is none of ours."""
    chance = random.Random(11)
    for _ in range(50):
        origins = [b"hub/eu/orders/%d/%d/0" % (chance.randrange(9), chance.randrange(10**9)) for _ in range(5)]
        ((name, seals),) = SEALED.seals(CENTRAL, BytesColumn.of(origins))
        headers = [[("hub.origin", one), (name, seal)] for one, seal in zip(origins, seals, strict=True)]
        assert SEALED.find_cycles(SOURCE.topic, headers) == ({0, 1, 2, 3, 4}, set())
        moved = [[("hub.origin", one + b"0"), (name, seal)] for one, seal in zip(origins, seals, strict=True)]
        assert SEALED.find_cycles(SOURCE.topic, moved) == (set(), {0, 1, 2, 3, 4})
        assert SEALED.find_cycles("elsewhere", headers) == (set(), set())


@pytest.mark.parametrize("keys", [KEYS, ()])
def test_a_crowd_of_origins_suppresses_nothing_and_costs_its_bytes(keys):
    """A true seal among too many is none; twice the headers cost twice the time, whatever the hub's keys are."""
    cycles = Cycles("hub", frozenset({SOURCE.topic}), frozenset({CENTRAL}), keys)
    true = returned(OURS)
    for spare, found in ((0, ({0}, set())), (1, (set(), {0}))):
        crowd = [("hub.origin", b"hub/")] * (ORIGIN_HEADERS.limit - 1 + spare)
        assert cycles.find_cycles(SOURCE.topic, [[*crowd, *true]]) == found
        assert cycles.find_cycles(SOURCE.topic, [[(SEAL_HEADER, b"x")] * len(crowd) + true]) == found
    flood = [("hub.origin", b"hub/")] * 20_000 + [(SEAL_HEADER, b"x")] * 20_000
    assert cycles.find_cycles(SOURCE.topic, [flood]) == (set(), {0})
    assert cpu_s(lambda: cycles.find_cycles(SOURCE.topic, [flood]), enough_s=0.2) < 0.2


def test_only_what_can_come_back_is_sealed():
    """`{edge}.{topic}` names no topic that the rule reads; merged topics do."""
    returns = ReturningTopics(CONFIG.topics)
    assert [name in returns for name in ("eu.orders", "orders", "orders", 5)] == [False, True, True, False]
    assert "orders" not in ReturningTopics(())
    assert SEALED.seals("eu.others", BytesColumn.of([OURS])) == []


def test_the_seals_keys_are_those_of_every_listed_version():
    """The current one first: what an earlier version sealed may still come back."""
    one, two = seal_keys({"customer": KeyRing(1, REFS)}), seal_keys({"customer": KeyRing(2, REFS)})
    assert one == tuple(reversed(two))
    assert len(set(one)) == 2
    assert all(len(key) == 32 and b"c" * 8 not in key for key in one)
    assert seal_keys({}) == ()


def test_a_seal_is_known_after_another_key_came_first():
    """The first key by name seals; which one that was may change, and what comes back was sealed before."""
    before = {"customer": KeyRing(1, REFS[:1])}
    after = {"account": KeyRing(2, REFS[1:]), "customer": KeyRing(1, REFS[:1])}
    headers = [returned(OURS, seal_keys(before))]
    cycles = Cycles("hub", SEALED.written, SEALED.sealed, seal_keys(after))
    assert cycles.find_cycles(SOURCE.topic, headers) == ({0}, set())
    assert seal_keys(after)[0] == seal_keys({"account": after["account"]})[0]
