"""A registry that lags: an id that it does not know yet is waited for, in keys and values, for a bounded time."""

import json
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from aggregator.budgets import UNKNOWN_IDS
from aggregator.errors import Reason, Unreachable
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.strip import Batch, Rejection, Unasked
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registry import Flooded, Listing, Origin, UnknownSchema
from aggregator.schema.remote_registry import WAIT_S
from aggregator.schema.wire import frame
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.kernel.drawing import TODAY

PATIENCE_S = 10.0
POLICY = "policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {orders: {key: keep, fields: {x: keep}}}\n"
ORDER = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "x", "type": "int"}, {"name": "mail", "type": "string", "confluent:tags": ["PII"]}]})  # fmt: skip
BODY = b"\2\x10jane@x.y"
LEFT = b"\2"


class LateRegistry(MemoryRegistry):
    """A registry whose schemas come later, at so many seconds; questions take time, as they do behind an address.

    Attributes:
        now_s: The time, which questions take.
        known: Id to when it is there.
        asked: Every question: an id, or nothing for a listing.
        slow_s: How long a listing takes behind the back of who asks, once it takes longer than one waits.
    """

    def __init__(self, far_s=0.0, slow_s=0.0):
        super().__init__()
        self.now_s, self.far_s, self.known, self.asked, self.budget = 0.0, far_s, {}, [], AskingBudget()
        self.slow_s, self.pending = slow_s, None

    def schema(self, schema_id, *, topic=""):
        if self.budget.is_spent(self.now_s, "t"):
            raise Flooded("far")
        self.asked.append(schema_id)
        self.now_s += self.far_s
        if self.now_s >= self.known.get(schema_id, float("inf")):
            return ORDER
        self.budget.spend(self.now_s, self.far_s, "t")
        raise UnknownSchema(schema_id, "far")

    def listing(self, topic, is_own, *, prefix=""):
        """Three questions, each as far as the others; a slow one goes on while nobody waits."""
        assert (topic, is_own("orders-value"), is_own("other-value")) == ("orders", True, False)
        if self.budget.is_spent(self.now_s, "t"):
            raise Flooded("far")
        self.asked.append(None)
        took_s = min(3 * self.far_s, WAIT_S)
        if self.pending is None:
            self.pending = Listing("far", self.now_there(), asked_s=self.now_s)
        self.now_s += took_s
        self.budget.spend(self.now_s, took_s, "t")
        if self.now_s < self.pending.asked_s + self.slow_s:
            raise Unreachable("far: no answer yet")
        listing, self.pending = self.pending, None
        return listing

    def now_there(self):
        """Ids that are known when a listing begins."""
        return frozenset({1, *(one for one, since_s in self.known.items() if self.now_s >= since_s)})

    def origin(self, schema_id):
        return Origin({"orders-key": schema_id, "orders-value": schema_id}, (), str(schema_id))


@pytest.fixture(params=[ReferenceStrip, KernelStrip])
def topic(request):
    """Makes the strip of a topic beside a registry's clock."""

    def make(registry, patience_s=PATIENCE_S, today=lambda: TODAY):
        return request.param(
            policy=parse_policy(POLICY),
            edge_topic="orders",
            central_topic="eu.orders",
            edge_registry=registry,
            central_registry=MemoryRegistry(),
            keys={},
            today=today,
            patience_s=patience_s,
            now_s=lambda: registry.now_s,
        )

    return make


def batch(*values, keys=None):
    """Values, and keys beside them."""
    return Batch(keys or [None] * len(values), values, [None] * len(values))


def read(*values):
    """Values as they lie in a partition from offset 0 on."""
    return replace(batch(*values), log=0, offsets=range(len(values)))


def passed(strip, registry, records, *, most_s=1000.0):
    """The batch after as many tries as it takes, as a slot makes them, and how long they took."""
    since_s = registry.now_s
    while True:
        try:
            return strip.strip(records), registry.now_s - since_s
        except Unreachable:
            waited_s = registry.now_s - since_s
            assert waited_s < most_s, "it never passes"
            registry.now_s += min(30.0, 0.5 + waited_s)


@pytest.mark.parametrize("place", ["value", "key"])
def test_an_id_that_comes_in_time_loses_no_record(topic, place):
    """Nothing of the batch is decided while an id of it may come; then all of it is, in one piece."""
    registry = LateRegistry()
    registry.known = {1: 0.0, 7: 3.0}
    late, good = frame(7, BODY), frame(1, BODY)
    records = batch(good, late) if place == "value" else batch(good, good, keys=[None, late])
    strip = topic(registry)
    with pytest.raises(Unreachable, match=r"schema id 7 .* yet"):
        strip.strip(records)
    out, took_s = passed(strip, registry, records)
    assert out.rejected == {}
    assert took_s < PATIENCE_S
    assert [value[5:] for value in out.values] == [LEFT, LEFT]
    assert sum(row.seen for row in strip.report() if row.path == "x") == 2, "what waited counts once"


@pytest.mark.parametrize("place", ["value", "key"])
def test_an_id_that_never_comes_is_a_dead_letter_after_its_time(topic, place):
    """The wait is bounded, and ends as it always did; the same id is not waited for again."""
    registry = LateRegistry()
    registry.known = {1: 0.0}
    late, good = frame(7, b"x"), frame(1, BODY)
    records = batch(late, good) if place == "value" else batch(good, good, keys=[late, None])
    reason = Reason.UNKNOWN_SCHEMA if place == "value" else Reason.BAD_KEY
    strip = topic(registry)
    out, took_s = passed(strip, registry, records)
    assert out.rejected == {0: Rejection(reason, 7)}
    assert PATIENCE_S <= took_s <= 2 * PATIENCE_S
    registry.now_s += 3600
    out, took_s = passed(strip, registry, records)
    assert (out.rejected, took_s) == ({0: Rejection(reason, 7)}, 0.0)


def test_keys_and_values_wait_at_the_same_time(topic):
    """An id in a key and another one in a value: one wait for both."""
    registry = LateRegistry()
    out, took_s = passed(topic(registry), registry, batch(frame(8, b"x"), keys=[frame(7, b"x")]))
    assert out.rejected == {0: Rejection(Reason.UNKNOWN_SCHEMA, 8)}
    assert PATIENCE_S <= took_s <= 2 * PATIENCE_S


@pytest.mark.parametrize("unknown", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_unknown_ids_wait_at_the_same_time(topic, unknown):
    """Any number of ids at a registry of 20 ms costs one wait and a bounded number of questions."""
    registry = LateRegistry(0.02)
    out, took_s = passed(topic(registry), registry, batch(*(frame(1000 + n, b"") for n in range(unknown))))
    assert len(out.rejected) == unknown
    assert took_s < 2 * PATIENCE_S
    assert len(registry.asked) < UNKNOWN_IDS.limit + 20


@pytest.mark.slow
@pytest.mark.parametrize(("far_s", "batch_s"), [(0.001, 0.15), (0.02, 0.4), (0.5, 20.0)])
def test_a_flood_of_new_ids_costs_a_bounded_share_of_the_time(topic, far_s, batch_s):
    """40 batches of 1,000 ids each, all new: one wait, then some questions each, two seconds of them in any five."""
    registry = LateRegistry(far_s)
    registry.known = {5: 0.0}
    strip, took_s = topic(registry), 0.0
    for number in range(40):
        flood = [frame(1000 * (number + 1) + n, b"") for n in range(1000)]
        out, waited_s = passed(strip, registry, batch(*flood, frame(5, BODY)))
        assert sorted(out.rejected) == list(range(1000))
        took_s += waited_s
        registry.now_s += 0.5
    assert took_s < 2 * PATIENCE_S + 40 * batch_s


def test_senseless_ids_do_not_hide_one_that_comes(topic):
    """Each id that is waited for is asked about again in its turn, though others before it never come."""
    registry = LateRegistry(0.02)
    registry.known = {5000: 2.0}
    out, _ = passed(topic(registry), registry, batch(*(frame(1000 + n, b"") for n in range(60)), frame(5000, BODY)))
    assert sorted(out.rejected) == list(range(60))
    assert out.values[60][5:] == LEFT


@pytest.mark.slow
def test_a_flow_of_senseless_ids_goes_on(topic):
    """New senseless ids in every batch cost a small share of the time; the allowance comes back."""
    registry = LateRegistry(0.001)
    strip, waited_s = topic(registry), 0.0
    for number in range(400):
        _, took_s = passed(strip, registry, batch(frame(1000 + number, b"")))
        waited_s += took_s
        registry.now_s += 0.5
    assert waited_s < 2 * PATIENCE_S + 0.15 * registry.now_s
    registry.now_s += 20 * PATIENCE_S
    registry.known[9] = registry.now_s + 4
    out, _ = passed(strip, registry, batch(frame(9, BODY)))
    assert out.rejected == {}


@pytest.mark.parametrize("place", ["value", "key"])
@pytest.mark.parametrize(("patience_s", "far_s"), [(0.0, 0.0), (0.0, 0.02), (PATIENCE_S, 0.0)])
def test_a_flood_makes_no_dead_letter_of_what_the_registry_has(topic, place, patience_s, far_s):
    """It may stand behind any number of senseless ones."""
    registry, delivered, flood = LateRegistry(far_s), [], 300
    registry.known = {5: 0.0}
    strip, all_ = topic(registry, patience_s), [*(frame(1000 + n, BODY) for n in range(flood)), frame(5, BODY)]
    most = len(all_)
    while len(delivered) < len(all_):
        part, none = all_[len(delivered) :][:most], [None] * len(all_)
        keys, values = (none, part) if place == "value" else (part, none)
        try:
            out = strip.strip(Batch(keys[: len(part)], values[: len(part)], none[: len(part)]))
            delivered += [at not in out.rejected for at in range(len(part))]
            most = len(all_)
        except Unasked as error:
            assert error.place < len(part)
            most = error.place or most
            registry.now_s += 0.5
        except Unreachable:
            registry.now_s += 2.0
    assert delivered == [False] * flood + [True]


def test_a_known_id_keeps_its_place_on_another_day(topic):
    """Its program is compiled anew; whether it is there is no question any more, whatever else a batch names."""
    registry, days = LateRegistry(), iter([TODAY, *[TODAY + timedelta(days=1)] * 1000])
    registry.known = {5: 0.0}
    strip = topic(registry, 0.0, lambda: next(days))
    assert strip.strip(batch(frame(5, BODY))).rejected == {}
    flood = [frame(1000 + n, BODY) for n in range(300)]
    assert sorted(strip.strip(batch(*flood, *[frame(5, BODY)] * 3)).rejected) == list(range(300))
    assert registry.asked.count(5) == 2


@pytest.mark.parametrize("patience_s", [0.0, PATIENCE_S])
def test_a_lost_id_that_is_registered_later_is_delivered_in_the_middle_of_a_flood(topic, patience_s):
    """However often it was missing: the registry says anew, for each batch, that it does not have it."""
    registry, flood = LateRegistry(0.02), [frame(1000 + n, b"") for n in range(2000)]
    strip = topic(registry, patience_s)
    assert 2000 in passed(strip, registry, batch(*flood, frame(5, BODY)))[0].rejected
    registry.known = {5: registry.now_s + 0.1}
    registry.now_s += 5.0
    out, took_s = passed(strip, registry, batch(*flood, frame(5, BODY)))
    assert sorted(out.rejected) == list(range(2000))
    assert took_s < 1.0


def test_a_listing_that_says_nothing_is_asked_for_once_in_a_batch(topic):
    """A registry that lists nothing, as a proxy does: no id is judged by it, and the error says so."""
    registry = LateRegistry(0.02)
    registry.now_there = frozenset
    with pytest.raises(Unasked, match="far lists less than the topic is known to have"):
        topic(registry, 0.0).strip(batch(*(frame(1000 + n, b"") for n in range(300))))
    assert registry.asked.count(None) == 1


def test_a_slow_listing_judges_what_was_read_before_it_was_asked_for(topic):
    """It goes on while the flow waits; of records that were read after it began it decides nothing."""
    registry = LateRegistry(0.7, slow_s=3.0)
    strip, flood = topic(registry, 0.0), [frame(1000 + n, b"") for n in range(10)]
    with pytest.raises(Unasked, match="no answer yet") as raised:
        strip.strip(read(*flood))
    assert raised.value.place == 1, "one was asked about alone"
    registry.known = {5: registry.now_s}
    registry.now_s += 6.0
    with pytest.raises(Unasked) as raised:
        strip.strip(read(*flood, frame(5, BODY)))
    assert raised.value.place == 10, "the listing was too early for the last one"
    assert sorted(strip.strip(read(*flood)).rejected) == list(range(10)), "what stands before goes on"
    registry.now_s += 6.0
    out, _ = passed(strip, registry, replace(batch(frame(5, BODY)), log=0, offsets=[10]))
    assert out.rejected == {}


def test_an_id_is_asked_about_that_another_topic_missed_a_moment_ago(topic):
    """The registry's client remembers that it was missing; meanwhile it may have been registered."""
    registry = LateRegistry()
    assert topic(registry, 0.0).strip(batch(frame(6, BODY), frame(5, BODY))).rejected.keys() == {0, 1}
    registry.known = {5: 0.0}
    assert topic(registry, 0.0).strip(batch(frame(6, BODY), frame(5, BODY))).rejected.keys() == {0}


def test_no_patience_is_no_wait(topic):
    """What tries a policy out, or reads a file, has nothing to wait for."""
    registry = LateRegistry()
    assert passed(topic(registry, 0.0), registry, batch(frame(7, b"x")))[1] == 0.0


@pytest.mark.slow
def test_what_comes_within_its_time_is_delivered(topic):
    """Property over ids, times and distances: in time, delivered; never known, dead; and no wait beyond its bound."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(40):
        registry = LateRegistry(draw.choice([0.0, 0.001, 0.02]))
        ids = draw.sample(range(1, 10_000), draw.randint(1, 40))
        never = {one for one in ids if draw.random() < 0.3}
        registry.known = {one: draw.uniform(0, PATIENCE_S / 2) for one in ids if one not in never}
        out, took_s = passed(topic(registry), registry, batch(*(frame(one, BODY) for one in ids)))
        assert {ids[place] for place in out.rejected} == never
        assert took_s <= 2 * PATIENCE_S + 5
