"""What a restate tells of records that it reads and that yield no row: each once, and nothing of its content."""

import random
import time

import pytest

from aggregator.coordinates import BACKFILL_HEADER, CHAIN_HEADER, LEFT_OUT_HEADER, ORIGIN_HEADER
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.identity.chains import Chains, digest, place_of
from aggregator.replicate.identity.cycles import Cycles
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import frame
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.delivered import FIRST, SOURCE, deliver
from tests.unit.replicate.key_schemas import SCHEMA

POLICY = """
policy: p
version: 1
topics:
  orders:
    key: keep
    drop_record: [{field: id, in: ["1"]}]
    fields: {id: keep}
"""
OURS = [(ORIGIN_HEADER, b"hub/eu/orders/0/1/0")]
FORGED = [(LEFT_OUT_HEADER, b"suppressed")]


@pytest.fixture
def topic():
    """A strip that drops what has the id 1, and values with an id."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    schema = edge.register("orders-value", SCHEMA)
    strip = ReferenceStrip(policy=parse_policy(POLICY), edge_topic="orders", central_topic="eu.orders",
                           edge_registry=edge, central_registry=central, key_rings={},
                           today=utc_today, now_s=time.monotonic)  # fmt: skip
    return strip, lambda number: frame(schema, bytes([2 * number]))


def by_what(produced) -> dict[str, list]:
    """Offsets of the records that are told of, or delivered, by what is said of them."""
    found: dict[str, list] = {}
    for key, value, headers in produced.central:
        said = dict(headers)
        *_, offset, _incarnation = said[ORIGIN_HEADER].decode().split("/")
        what = said.get(LEFT_OUT_HEADER, b"delivered").decode()
        found.setdefault(what, []).append((int(offset) - FIRST, key, value, headers))
    return found


def test_what_is_left_out_is_told_without_any_of_its_content(topic):
    """Dropped by the policy, undecodable, a cycle: each by its origin and a reason; a tombstone is a row as ever."""
    strip, value = topic
    values = [value(0), value(1), b"junk", value(0), None]
    headers = [None, None, None, OURS, FORGED]
    produced = deliver(strip, values, [b"k"] * 5, headers, Cycles("hub", frozenset({"orders"})), backfill="restate-1")
    found = by_what(produced)
    assert {what: [one[0] for one in some] for what, some in found.items()} == {
        "delivered": [0, 4], "suppressed": [1, 3], "wrong_magic": [2],
    }  # fmt: skip
    for what in ("suppressed", "wrong_magic"):
        for offset, key, cell, said in found[what]:
            assert (key, cell) == (None, None)
            assert said == [(ORIGIN_HEADER, f"hub/{SOURCE}/{FIRST + offset}/0".encode()),
                            (BACKFILL_HEADER, b"restate-1"), (LEFT_OUT_HEADER, what.encode())]  # fmt: skip
    assert len(produced.letters) == 1
    assert produced.counts == (2, 1, 2)


def test_whatever_refuses_a_record_does_not_refuse_the_notice_of_it(topic):
    """A record that is too large, or of a time that its topic does not take, is told of by few bytes of now."""
    strip, value = topic
    large = [("traceparent", b"x" * 500)]
    produced = deliver(
        strip, [value(0), value(0)], [b"k" * 900, b"k"], [large, None], backfill="r", limits=TopicLimits(500)
    )
    assert [one[0] for one in by_what(produced)["too_large"]] == [0]
    late = TopicLimits(10_000, after_ms=1)
    produced = deliver(strip, [value(0)], [b"k"], backfill="r", limits=late, timestamps_ms=[10_000])
    assert [one[:3] for one in by_what(produced)["refused_timestamp"]] == [(0, None, None)]
    assert produced.times == [0], "0 is now, whatever the record's own time is"


def test_a_record_is_not_too_large_by_the_chain_of_its_neighbour(topic):
    """Each is weighed by its own headers: where it would have been delivered alone, it is beside a longer one."""
    strip, value = topic
    chain = b"/".join([*map(digest, "abcdefgh"), place_of("h", "orders")])

    def delivered(limit, headers):
        chains = Chains("central", {"eu": "edge"}, (b"k" * 32,))
        count = len(headers)
        limits = TopicLimits(limit)
        return deliver(strip, [value(0)] * count, [b"k"] * count, headers, chains=chains, limits=limits).counts[0]

    least = next(limit for limit in range(50, 2000) if delivered(limit, [None]))
    assert delivered(least, [[(CHAIN_HEADER, chain)], None]) == 1
    assert delivered(least + len(chain), [[(CHAIN_HEADER, chain)], None]) == 2


def test_only_a_restate_tells(topic):
    """Nothing but copies and letters leaves a live flow."""
    strip, value = topic
    produced = deliver(strip, [value(1), b"junk", value(0)], [b"k"] * 3)
    assert [one[0] for one in by_what(produced)["delivered"]] == [2]
    assert len(produced.central) == 1


def test_what_came_by_its_letter_is_restated_and_not_left_out(topic):
    """A person's word that a record is a stranger's holds for a restate, too; and for nothing but its chain."""
    strip, value = topic
    chains = Chains("central", {"eu": "edge"}, (b"k" * 32,))
    unproven = b"/".join([digest("central"), digest("edge"), place_of("edge", "orders")])
    headers, values = [[(CHAIN_HEADER, unproven)]] * 4, [value(0), value(0), value(1), b"junk"]
    asked = frozenset({FIRST, FIRST + 2, FIRST + 3})
    produced = deliver(strip, values, [b"k"] * 4, headers, chains=chains, backfill="r", asked=asked)
    assert {what: [one[0] for one in some] for what, some in by_what(produced).items()} == {
        "delivered": [0], "unproven_cycle": [1], "suppressed": [2], "wrong_magic": [3],
    }  # fmt: skip
    assert [one["offset"] - FIRST for one in produced.letters] == [1, 3], "and no resolution: the letter has one"


@pytest.mark.parametrize("seed", range(30))
def test_of_each_record_a_copy_or_a_notice(topic, seed):
    """Drawn batches: as many as the ledger counts, each origin once."""
    print(f"seed {seed}")
    strip, value = topic
    chance = random.Random(seed)
    drawn = [chance.choice([value(0), value(1), b"junk", b"", None]) for _ in range(chance.randint(1, 60))]
    headers = [chance.choice([None, None, OURS, FORGED]) for _ in drawn]
    produced = deliver(strip, drawn, [b"k"] * len(drawn), headers, Cycles("hub", frozenset({"orders"})), backfill="r")
    found = by_what(produced)
    delivered, dead, suppressed = produced.counts
    counts = {what: len(some) for what, some in found.items()}
    assert (counts.pop("delivered", 0), counts.pop("suppressed", 0), sum(counts.values())) == (
        delivered, suppressed, dead,
    )  # fmt: skip
    assert sorted(one[0] for some in found.values() for one in some) == list(range(len(drawn)))
