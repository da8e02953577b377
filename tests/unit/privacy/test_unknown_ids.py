"""A registry that lags: an id that it does not know yet is waited for, in keys and values, for a bounded time."""

import base64
import json
import random
import struct
from dataclasses import replace
from datetime import date, timedelta

import pytest

from aggregator.budgets import UNKNOWN_IDS
from aggregator.errors import HoldError, Reason, Unreachable
from aggregator.privacy.batch.strip import Batch, Rejection, SchemaIdsPending, SchemaIdsUnasked
from aggregator.privacy.ids import unknown_ids
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.review.fixtures import written_ring
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registry import AnswerPending, Listing, SchemaOrigin, UnknownSchema
from aggregator.schema.remote_registry import LISTING_SHARE, WAIT_S
from aggregator.schema.wire import frame
from tests.effort import turns
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

    They are asked in turn and go on when nobody waits for them, which is done for as long as the real budget says.

    Attributes:
        now_s: The time, which waits take.
        known: Id to when it is there.
        asked: Every question: an id, or nothing for a listing.
        slow_s: How long a listing takes at least.
        waits: When the loop waited, and for how long.
    """

    def __init__(self, far_s=0.0, slow_s=0.0):
        super().__init__()
        self.now_s, self.far_s, self.known, self.asked, self.budget = 0.0, far_s, {}, [], AskingBudget(2 * WAIT_S)
        self.slow_s, self.answers, self.free_s, self.waits, self.found = slow_s, {}, {}, [], set()

    def answer(self, about, lane, since_s, say, *, took_s, share=1.0):
        """What is said to a question since a time, and when it was asked; each lane asks one after the other."""
        for _ in range(2):
            asked_s, done_s, said = self.answers.get(about, (float("-inf"), float("-inf"), None))
            if asked_s < since_s and done_s <= self.now_s:
                self.asked.append(about)
                asked_s = max(self.now_s, self.free_s.get(lane, 0.0))
                done_s = self.free_s[lane] = asked_s + took_s
                said = say(asked_s)
                self.answers[about] = asked_s, done_s, said
            wait_s = min(max(0.0, done_s - self.now_s), share * self.budget.left_s(self.now_s, "orders"))
            if wait_s:
                self.now_s += wait_s
                self.budget.spend(self.now_s, wait_s, "orders")
                self.waits.append((self.now_s, wait_s))
            if self.now_s < done_s - 1e-9:
                raise AnswerPending("far")
            if asked_s >= since_s:
                return asked_s, said
        raise AnswerPending("far")

    def schema(self, schema_id, *, requester, since_s):
        if schema_id in self.found:
            self.asked.append(schema_id)
            return ORDER
        asked_s, is_there = self.answer(
            schema_id, requester.source_partition, since_s, lambda at_s: self.has(schema_id, at_s), took_s=self.far_s
        )
        if not is_there:
            raise UnknownSchema(schema_id, "far", asked_s)
        self.found.add(schema_id)
        return ORDER

    def has(self, schema_id, at_s):
        return at_s >= self.known.get(schema_id, float("inf"))

    def listing(self, requester, is_own, *, since_s):
        """Three questions, each as far as the others."""
        assert (requester.topic, is_own("orders-value"), is_own("other-value")) == ("orders", True, False)
        took_s = max(3 * self.far_s, self.slow_s)
        asked_s, ids = self.answer(None, "listing", since_s, self.listed, took_s=took_s, share=LISTING_SHARE)
        return Listing("far", ids, asked_s=asked_s)

    def listed(self, at_s):
        """Ids that are known when a listing begins."""
        return frozenset({1, *(one for one in self.known if self.has(one, at_s))})

    def origin(self, schema_id):
        return SchemaOrigin({"orders-key": schema_id, "orders-value": schema_id}, (), str(schema_id))


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
            key_rings={},
            today=today,
            patience_s=patience_s,
            now_s=lambda: registry.now_s,
        )

    return make


def batch(*values, keys=None):
    """Values, and keys beside them."""
    return Batch(keys or [None] * len(values), values, [None] * len(values))


def read(*values, at=0, source_partition=0):
    """Values as they lie in a partition from an offset on."""
    return replace(batch(*values), source_partition=source_partition, offsets=range(at, at + len(values)))


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


def flowed(strip, registry, *values, most=5000, most_s=3000.0):
    """The places of a partition's dead letters, as a slot reads it: what stands before what waits goes on."""
    at, dead, since_s, gone_s = 0, [], None, registry.now_s + most_s
    while at < len(values):
        assert registry.now_s < gone_s, f"it stands at {at}"
        part, place = values[at : at + most], None
        try:
            found = strip.strip(read(*part, at=at))
        except Unreachable as error:
            place, is_soon = getattr(error, "place", 0), isinstance(error, SchemaIdsUnasked)
            part = part[:place]
            found = strip.strip(read(*part, at=at)) if place else None
        if found is not None:
            dead += [at + one for one in found.rejected]
            at, since_s = at + len(part), None
        if place is not None:
            since_s = registry.now_s if since_s is None else since_s
            registry.now_s += min(2.0 if is_soon else 30.0, 0.5 + registry.now_s - since_s)
    for ended_s, _ in registry.waits:
        assert sum(took_s for at_s, took_s in registry.waits if ended_s - 5.0 < at_s <= ended_s) <= 2.0
    return dead


def senseless(count):
    """Values of so many ids that no registry has."""
    return [frame(10_000 + n, BODY) for n in range(count)]


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
    dead = Rejection(Reason.UNKNOWN_SCHEMA, 7) if place == "value" else Rejection(Reason.BAD_KEY)
    strip = topic(registry)
    out, took_s = passed(strip, registry, records)
    assert out.rejected == {0: dead}
    assert PATIENCE_S <= took_s <= 2 * PATIENCE_S
    registry.now_s += 3600
    out, took_s = passed(strip, registry, records)
    assert (out.rejected, took_s) == ({0: dead}, 0.0)


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
    """Twenty batches of 1,000 new ids each: one wait, then some questions each, two seconds of them in any five."""
    registry = LateRegistry(far_s)
    registry.known = {5: 0.0}
    strip, took_s = topic(registry), 0.0
    for number in range(20):
        flood = [frame(1000 * (number + 1) + n, b"") for n in range(1000)]
        out, waited_s = passed(strip, registry, read(*flood, frame(5, BODY), at=1001 * number))
        assert sorted(out.rejected) == list(range(1000))
        took_s += waited_s
        registry.now_s += 0.5
    assert took_s < 2 * PATIENCE_S + 20 * batch_s


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
        except SchemaIdsUnasked as error:
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
    registry.listed = lambda _: frozenset()
    with pytest.raises(SchemaIdsUnasked, match="far lists less than the topic is known to have"):
        topic(registry, 0.0).strip(batch(*(frame(1000 + n, b"") for n in range(300))))
    assert registry.asked.count(None) == 1


def test_a_slow_listing_judges_what_was_read_before_it_was_asked_for(topic):
    """It goes on while the flow waits; of records that were read after it began it decides nothing."""
    registry = LateRegistry(0.7, slow_s=3.0)
    strip, flood = topic(registry, 0.0), [frame(1000 + n, b"") for n in range(10)]
    with pytest.raises(SchemaIdsUnasked, match="no answer yet") as raised:
        strip.strip(read(*flood))
    assert raised.value.place == 1, "one was asked about alone"
    registry.known = {5: registry.now_s}
    registry.now_s += 6.0
    with pytest.raises(SchemaIdsUnasked) as raised:
        strip.strip(read(*flood, frame(5, BODY)))
    assert raised.value.place == 10, "the listing was too early for the last one"
    assert sorted(strip.strip(read(*flood)).rejected) == list(range(10)), "what stands before goes on"
    registry.now_s += 6.0
    out, _ = passed(strip, registry, replace(batch(frame(5, BODY)), source_partition=0, offsets=[10]))
    assert out.rejected == {}


def test_an_id_is_asked_about_that_another_topic_missed_a_moment_ago(topic):
    """The registry's client remembers that it was missing; meanwhile it may have been registered."""
    registry = LateRegistry()
    assert topic(registry, 0.0).strip(batch(frame(6, BODY), frame(5, BODY))).rejected.keys() == {0, 1}
    registry.known, registry.now_s = {5: 0.0}, 0.001
    assert topic(registry, 0.0).strip(batch(frame(6, BODY), frame(5, BODY))).rejected.keys() == {0}


def test_what_stands_before_an_id_that_is_waited_for_goes_on(topic):
    """Nothing behind it does; it waits no longer for that."""
    registry = LateRegistry()
    registry.known = {1: 0.0}
    strip, good = topic(registry), frame(1, BODY)
    with pytest.raises(SchemaIdsPending, match=r"schema id 7 .* yet, nor are 1 more: waited for up to 10 s") as raised:
        strip.strip(read(good, good, frame(7, b""), good, frame(8, b"")))
    assert raised.value.place == 2
    assert strip.strip(read(good, good)).rejected == {}
    registry.now_s += PATIENCE_S
    out = strip.strip(read(frame(7, b""), good, frame(8, b""), at=2))
    assert sorted(out.rejected) == [0, 2]


def test_a_key_that_the_registry_fails_at_holds_up_no_value_before_it(topic):
    """It is asked about first; what the values before it name is asked about all the same, and then nothing more."""
    registry, schema = LateRegistry(), LateRegistry.schema

    def failing(self, schema_id, **by):
        if schema_id > 100:
            self.asked.append(schema_id)
            raise Unreachable(f"{schema_id} fails", hint="")
        return schema(self, schema_id, **by)

    registry.known, registry.schema = {1: 0.0, 2: 0.0}, failing.__get__(registry)
    values, keys = [frame(one, BODY) for one in (1, 101, 2, 102)], [None, None, frame(103, b""), None]
    strip = topic(registry)
    with pytest.raises(SchemaIdsUnasked, match="101 fails") as raised:
        strip.strip(replace(read(*values), keys=keys))
    assert (raised.value.place, raised.value.is_soon, registry.asked) == (1, False, [103, 1, 101])
    assert strip.strip(read(values[0])).rejected == {}


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


@pytest.mark.parametrize("flood", [1, 3, 9, 300])
@pytest.mark.parametrize("far_s", [0.001, 0.02, 0.2, 0.7, 2.5])
@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.slow
def test_an_id_that_comes_within_its_patience_is_delivered_behind_any_flood(topic, flood, far_s, is_silent):
    """However slow the registry is, and whether its listings say something: each try is judged by a newer answer."""
    registry = LateRegistry(far_s)
    registry.known = {5: 4.0}
    registry.listed = (lambda _: frozenset()) if is_silent else registry.listed
    dead = flowed(topic(registry), registry, *senseless(flood), frame(5, BODY))
    assert dead == list(range(flood))


@pytest.mark.parametrize("far_s", [2.5, 4.0])
def test_answers_that_come_later_than_one_waits_count(topic, far_s):
    """Each is kept with the time at which it was asked for; none is thrown away and asked for again."""
    registry = LateRegistry(far_s)
    assert flowed(topic(registry), registry, frame(7, b"x")) == [0]
    assert registry.now_s < 2 * PATIENCE_S + 2 * far_s
    assert len(registry.asked) <= 1 + registry.now_s / far_s


@pytest.mark.parametrize("patience_s", [0.0, PATIENCE_S])
@pytest.mark.slow
def test_a_flood_goes_on_id_by_id_where_no_listing_judges(topic, patience_s):
    """The ids of the oldest records first; a known one behind them is delivered."""
    registry = LateRegistry(0.02)
    registry.known, registry.listed = {5: 0.0}, lambda _: frozenset()
    dead = flowed(topic(registry, patience_s), registry, *senseless(1500), frame(5, BODY))
    assert dead == list(range(1500))
    assert registry.now_s < 2 * PATIENCE_S + 1500 * 0.05
    assert len(registry.asked) < 1500 + 1000


def test_no_record_is_judged_by_what_was_asked_before_it_was_read(topic):
    """Not even behind older ones of its partition which that listing judges, and whatever comes in between."""
    registry = LateRegistry(0.02, slow_s=30.0)
    strip, flood = topic(registry, 0.0), senseless(100)
    with pytest.raises(SchemaIdsUnasked):
        strip.strip(read(*flood))
    registry.now_s = 20.0
    registry.known = {5: 20.0}
    later = frame(5, BODY)
    with pytest.raises(SchemaIdsUnasked):
        strip.strip(read(*flood, *senseless(300)[100:], later))
    registry.now_s = 31.0
    assert 300 not in flowed(strip, registry, *flood, *senseless(300)[100:], later)


@pytest.mark.slow
@pytest.mark.parametrize("_turn", turns(1, 4))
def test_only_an_answer_from_after_its_deadline_makes_an_id_a_dead_letter(topic, _turn):
    """Property over registries, floods and times: what is there when it is read, or comes in time, is delivered."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(15):
        registry = LateRegistry(draw.choice([0.0, 0.001, 0.02, 0.3, 2.5]), slow_s=draw.choice([0.0, 1.0, 12.0]))
        patience_s = draw.choice([0.0, PATIENCE_S])
        ids = draw.sample(range(10, 10_000), draw.choice([1, 5, 9, 40, 500]))
        never = {one for one in ids if draw.random() < 0.7}
        registry.known = {one: draw.uniform(0, 0.4 * patience_s) for one in ids if one not in never}
        registry.listed = draw.choice([registry.listed, lambda _: frozenset()])
        values = [frame(one, BODY) for one in ids]
        dead = flowed(topic(registry, patience_s), registry, *values, most=draw.choice([7, 100, 5000]))
        assert {ids[place] for place in dead} == never


def test_more_ids_than_are_remembered_pass(topic, monkeypatch):
    """Of those that were forgotten the deadline is the same: partitions do not keep each other from going on."""
    monkeypatch.setattr(unknown_ids, "_MOST", 100)
    registry = LateRegistry(0.02)
    strip, floods = topic(registry), [[frame(1000 * log + n, BODY) for n in range(60)] for log in range(1, 4)]
    left = dict(enumerate(floods))
    while left:
        assert registry.now_s < 4 * PATIENCE_S, "they never pass"
        for log, flood in list(left.items()):
            try:
                assert len(strip.strip(read(*flood, source_partition=log)).rejected) == 60
                del left[log]
            except Unreachable:
                registry.now_s += 0.3


def test_a_batch_that_is_tried_in_halves_is_judged_by_the_same_answers(topic):
    """A record that holds its flow stands among others, which had been read as early as it."""
    registry, told = LateRegistry(0.02), LateRegistry.origin
    registry.known = {6: 0.0}
    registry.origin = lambda one: SchemaOrigin({"other-value": 1}, (), "6") if one == 6 else told(registry, one)
    strip, values = topic(registry, 0.0), senseless(5)
    with pytest.raises(HoldError, match="other-value"):
        strip.strip(read(*values, frame(6, BODY)))
    registry.now_s += 1.0
    assert len(strip.strip(read(*values)).rejected) == 5
    assert len(registry.asked) == 6


def test_a_guid_that_gets_another_number_is_in_the_listing_that_is_at_hand():
    """Numbers are forgotten in a flood; a listing from before has the GUID, and not the number that it has now."""
    latecomers, number = unknown_ids.PendingIds(0.0, int), 2**31 + 7
    numbers = [frozenset({1}), frozenset({1, number})]
    for now_s, ids, listed in ((0.0, [2, number - 1], numbers[0]), (1.0, [3, number], numbers[1])):
        latecomers.begin(now_s, numbered=True, source_partition=0, offsets=range(20))
        latecomers.expect(range(20))
        asks = [
            latecomers.should_ask(one, 0, 2**31, lambda _, ids=listed: Listing("far", ids, asked_s=0.5)) for one in ids
        ]
    assert asks == [False, True]


def test_bytes_of_a_record_that_has_no_frame_are_told_as_no_schema_id():
    """A long as key, or text behind a zero byte: what stands where an id would is the record's own."""
    policy = parse_policy("policy: p\nversion: 1\ntopics: {t: {key: {pseudonymize: {key: k, domain: d}}}}\n")
    keys = {"k": written_ring({1: base64.b64encode(bytes(range(32))).decode()})}
    strip = topic_strip(
        policy=policy,
        edge_topic="t",
        central_topic="t",
        edge_registry=MemoryRegistry(),
        central_registry=MemoryRegistry(),
        key_rings=keys,
        today=lambda: date(2026, 1, 1),
        now_s=lambda: 0.0,
        edge="eu",
        patience_s=0.0,
    )
    card = struct.pack(">q", 4539578763621486)
    out = strip.strip(Batch([card, b"\0\0\0\0\7x", b"x"], [None, None, b"\0JaneDoe"], [None] * 3))
    assert [out.rejected[place].reason.value for place in range(3)] == ["bad_key", "bad_key", "unknown_schema"]
    assert [out.rejected[place].schema_id for place in range(3)] == [None, None, None]
