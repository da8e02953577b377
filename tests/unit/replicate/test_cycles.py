"""Records that come back: known by a seal that only the hub can make, and counted."""

import base64
import random

import pytest

from aggregator.bytes_column import BytesColumn
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.replicate.cycles import SEAL_HEADER, Cycles, returning, seal_keys
from aggregator.schema.wire import frame
from tests.unit.privacy.delivered import CENTRAL, SOURCE, deliver
from tests.unit.replicate.test_planning import CONFIG
from tests.unit.replicate.test_tombstones import strip_of

KEYS = (b"k" * 32, b"f" * 32)
SEALED = Cycles("hub", frozenset({SOURCE.topic}), frozenset({CENTRAL}), KEYS)
OURS = b"hub/eu/orders/3/7/0"


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


def test_what_the_hub_sealed_it_knows_again():
    """Whatever origins a batch has; one changed digit, and it is none of ours."""
    chance = random.Random(11)
    for _ in range(50):
        origins = [b"hub/eu/orders/%d/%d/0" % (chance.randrange(9), chance.randrange(10**9)) for _ in range(5)]
        ((name, seals),) = SEALED.seals(CENTRAL, BytesColumn.of(origins))
        headers = [[("hub.origin", one), (name, seal)] for one, seal in zip(origins, seals, strict=True)]
        assert SEALED.found(SOURCE.topic, headers) == ({0, 1, 2, 3, 4}, set())
        moved = [[("hub.origin", one + b"0"), (name, seal)] for one, seal in zip(origins, seals, strict=True)]
        assert SEALED.found(SOURCE.topic, moved) == (set(), {0, 1, 2, 3, 4})
        assert SEALED.found("elsewhere", headers) == (set(), set())


def test_only_what_can_come_back_is_sealed():
    """`{edge}.{topic}` names no topic that the rule reads; merged topics do."""
    assert returning(CONFIG.topics, {"eu.orders", "orders"}) == {"orders"}
    assert returning((), {"orders"}) == returning(CONFIG.topics, set()) == frozenset()
    assert SEALED.seals("eu.others", BytesColumn.of([OURS])) == []


def test_the_seals_keys_are_those_of_every_listed_version():
    """The current one first: what an earlier version sealed may still come back."""
    refs = ((1, SecretRef("env", "CUSTOMER")), (2, SecretRef("env", "CUSTOMER_2")))
    one, two = seal_keys({"customer": KeyRing(1, refs)}), seal_keys({"customer": KeyRing(2, refs)})
    assert one == tuple(reversed(two))
    assert len(set(one)) == 2
    assert all(len(key) == 32 and b"c" * 8 not in key for key in one)
    assert seal_keys({}) == ()
