"""Floods of unknown ids before a registry of real HTTP: what they cost it and the slot, and whom they hold up."""

import json
import time
from dataclasses import replace
from datetime import date

import pytest

from aggregator.budgets import SCHEMA_REFERENCES, SUBJECT_VERSIONS
from aggregator.errors import Unreachable
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.confluent import ConfluentRegistry
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import AnswerPending, Requester
from aggregator.schema.wire import frame
from tests.reference.reference import ReferenceStrip

pytestmark = pytest.mark.slow

POLICY = "policy: p\nversion: 1\ntopics: {{{topic}: {{fields: {{x: keep}}{more}}}}}\n"
BODY = b"\2"


def text(*names):
    """A schema of some numbers."""
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in names]})


def topic(registry, name="orders", patience_s=0.0, more=""):
    """Its strip, in real time."""
    return ReferenceStrip(
        policy=parse_policy(POLICY.format(topic=name, more=more)),
        edge_topic=name,
        central_topic=f"eu.{name}",
        edge_registry=registry,
        central_registry=MemoryRegistry(),
        key_rings={},
        today=lambda: date(2026, 11, 1),
        now_s=time.monotonic,
        patience_s=patience_s,
    )


class Flow:
    """A partition, as a slot reads it, with shorter pauses."""

    def __init__(self, strip, ids, log=0):
        self.strip, self.ids, self.log, self.at, self.dead, self.retry_s = strip, ids, log, 0, set(), 0.0

    def poll(self):
        """Try what comes next, unless that was tried a moment ago."""
        if self.at < len(self.ids) and time.monotonic() >= self.retry_s:
            self.deliver(len(self.ids) - self.at)

    def deliver(self, count):
        values = [frame(one, BODY) for one in self.ids[self.at : self.at + count]]
        batch = Batch([None] * count, values, [None] * count)
        try:
            found = self.strip.strip(replace(batch, source_partition=self.log, offsets=range(self.at, self.at + count)))
        except Unreachable as error:
            if place := getattr(error, "place", 0):
                self.deliver(place)
            self.retry_s = time.monotonic() + 0.05
        else:
            self.dead |= {self.at + place for place in found.rejected}
            self.at += count


def through(*flows, most_s=20.0):
    """How long it took."""
    began_s = time.monotonic()
    while any(flow.at < len(flow.ids) for flow in flows):
        assert time.monotonic() - began_s < most_s, [flow.at for flow in flows]
        for flow in flows:
            flow.poll()
        time.sleep(0.001)
    return time.monotonic() - began_s


def delayed(double, seconds, *, after=()):
    """Every answer of the double takes so long, those to some paths for ever."""
    told = double.answer

    def answer(method, path, body, **query):
        stopped.wait(30.0 if path in after else seconds)
        return told(method, path, body, **query)

    stopped = double.released
    double.answer = answer


def test_a_slow_registry_of_one_topic_is_no_other_topic_s(double):
    """Every answer takes longer than one waits: a new id of another topic comes through beside an unknown one."""
    double.add("orders-value", text("x"))
    new = double.add("other-value", text("y"))
    registry = ConfluentRegistry(double.address, {}, wait_s=0.1)
    delayed(double, 0.25)
    slow, other = Flow(topic(registry), [1001]), Flow(topic(registry, "other"), [new])
    through(slow, other)
    assert (slow.dead, other.dead) == ({0}, set())
    assert double.asked.count("GET /schemas/ids/1001") <= 2, "a late answer is one"


def test_a_question_that_hangs_holds_up_its_own_topic_only(double):
    """Another topic does not wait for it at all."""
    known = double.add("other-value", text("y"))
    registry = ConfluentRegistry(double.address, {}, wait_s=0.1)
    delayed(double, 0.0, after=["/schemas/ids/1001"])
    hung = [Flow(topic(registry), [1001], log) for log in range(30)]
    for flow in hung:
        flow.poll()
    assert through(Flow(topic(registry, "other"), [known])) < 2.0
    double.released.set()


def test_the_loop_waits_for_ids_of_other_kinds_no_longer_than_for_unknown_ones(double):
    """What is not Avro is asked about, too; over all partitions that takes no more of the slot's time."""
    for n in range(60):
        double.add("shapes-value", json.dumps({"n": n}), kind="JSON", schema_id=5000 + n)
    double.add("orders-value", text("x"), schema_id=1)
    registry = ConfluentRegistry(double.address, {}, wait_s=0.2)
    delayed(double, 0.02)
    longest_s, began_s = 0.0, time.monotonic()
    strip = topic(registry)
    flows = [Flow(strip, list(range(5000 + 10 * log, 5010 + 10 * log)), log) for log in range(6)]
    while any(flow.at < 10 for flow in flows):
        assert time.monotonic() - began_s < 20
        turn_s = time.monotonic()
        for flow in flows:
            flow.poll()
        longest_s = max(longest_s, time.monotonic() - turn_s)
        time.sleep(0.01)
    assert {place for flow in flows for place in flow.dead} == set(range(10))
    assert longest_s < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("patience_s", [0.0, 1.0])
@pytest.mark.parametrize("listing", ["none", "denied", "a sibling of too many versions"])
def test_a_flooded_partition_goes_on_whatever_its_listing_says(double, listing, patience_s):
    """A topic without a subject, a right that is missing, a sibling that anybody may register."""
    good = double.add("orders-value" if listing != "none" else "orders.R", text("x"))
    if listing == "denied":
        double.instead["/subjects"] = 403, {"error_code": 40301, "message": "no"}
    if listing.startswith("a sibling"):
        double.contexts["."].subjects["orders-Evil"] = [good] * (SUBJECT_VERSIONS.limit + 1)
    strip = topic(open_registry(double.address), patience_s=patience_s, more=", subjects: {'orders\\.R': because}")
    flow = Flow(strip, [*range(1001, 1101), good])
    through(flow, most_s=40.0)
    assert flow.dead == set(range(100))


def test_a_listing_that_lags_judges_no_id(double):
    """A follower of a registry lists less than the topic is known to have; what it does not list may be there."""
    seen, new = (double.add("orders-value", text(name)) for name in "xy")
    registry = open_registry(double.address)
    strip = topic(registry)
    through(Flow(strip, [seen], log=1))
    double.add("orders-other", text("z"))
    told, flow = double.answer, Flow(strip, [*range(1001, 1021), new])

    def answer(method, path, *of, **by):
        lags = path == "/subjects/orders-value/versions" and flow.at < 20
        return (200, []) if lags else told(method, path, *of, **by)

    double.answer = answer
    through(flow)
    assert flow.dead == set(range(20))


def test_two_policies_of_one_topic_share_no_listing(double):
    """Where one of them opens a subject, the other's listing says nothing of its ids."""
    double.add("orders-value", text("x"))
    good = double.add("com.R", text("y"))
    registry = ConfluentRegistry(double.address, {}, wait_s=0.1)
    opens, bare = topic(registry, more=", subjects: {'com\\.R': because}"), topic(registry)
    delayed(double, 0.1)
    flood = list(range(1001, 1201))
    wide, narrow = Flow(opens, [*flood, good], log=1), Flow(bare, [one + 1000 for one in flood])
    narrow.poll()
    through(wide, narrow)
    assert wide.dead == set(range(200))


def test_a_subject_made_anew_with_the_same_newest_version_is_noticed(double):
    """The older ones are compared in turn."""
    registry = ConfluentRegistry(double.address, {}, wait_s=60.0)
    double.add("a", text("x"), schema_id=1)
    double.add("a", text("x", "y"), schema_id=2)
    assert registry.listing(Requester("a"), bool).ids == {1, 2}
    double.rebuild()
    double.add("a", text("z"), schema_id=50)
    double.add("a", text("x", "y"), schema_id=2)
    assert registry.listing(Requester("a"), bool).ids == {50, 2}


@pytest.mark.parametrize("damage", [b'["orders-v', b"", b"<html>"])
def test_a_damaged_answer_among_many_costs_one_more_question(double, damage):
    """Of a listing, and of a subject's history; what was answered before is not asked again."""
    for n in range(30):
        double.add("orders-value", text("x", f"f{n}"))
    registry, told, count = ConfluentRegistry(double.address, {}, wait_s=60.0), double.answer, []

    def answer(method, path, body, **query):
        count.extend([path] if "/versions/" in path else [])
        broken = len(count) % 7 == 6 and "/versions/" in path
        double.instead = {path: damage} if broken else {}
        return told(method, path, body, **query)

    double.answer = answer
    assert len(registry.listing(Requester("orders"), lambda name: name == "orders-value").ids) == 30
    assert len(registry.history("orders-value", 30)) == 30
    assert len(count) < 60 + 15


def test_a_history_comes_to_its_end_at_a_registry_that_limits_the_rate(double):
    """Every try asks on where the former one was refused; begun anew each time it would never end."""
    for n in range(30):
        double.add("orders-value", text("x", f"f{n}") if n else "{}", kind="AVRO" if n else "JSON")
    registry, told, room = ConfluentRegistry(double.address, {}, wait_s=60.0), double.answer, []

    def answer(*of, **by):
        room.pop() if room else None
        return told(*of, **by) if room else (429, {"error_code": 42901, "message": "slow down"})

    double.answer = answer
    for _ in range(2):
        room[:] = range(14)
        with pytest.raises(Unreachable, match="429"):
            registry.history("orders-value", 30)
    room[:] = range(14)
    assert [one.version for one in registry.history("orders-value", 30)] == list(range(2, 31))


def test_a_schema_that_is_refused_while_it_is_asked_for_is_asked_for_once(double, monkeypatch):
    """What it refers to is more than its budget: that costs no questions again for each batch."""
    monkeypatch.setattr("aggregator.schema.confluent.SCHEMA_REFERENCES", SCHEMA_REFERENCES._replace(limit=3))
    double.add("n-0", text("x"))
    for n in range(1, 6):
        before = {"name": f"n{n - 1}", "subject": f"n-{n - 1}", "version": 1}
        large = double.add(f"n-{n}" if n < 5 else "orders-value", text("x", f"f{n}"), references=[before])
    strip = topic(open_registry(double.address))
    first, again = Flow(strip, [large], log=1), Flow(strip, [large, large], log=2)
    through(first)
    asked = len(double.asked)
    through(again)
    assert (first.dead, again.dead, len(double.asked)) == ({0}, {0, 1}, asked)


def test_a_version_of_id_zero_stands_in_no_one_s_way(double):
    """Some registries count from 0; an answer without an id is none."""
    double.add("a", text("x"), schema_id=7)
    found = double.answer("GET", "/subjects/a/versions/1", None)[1]
    registry = ConfluentRegistry(double.address, {}, wait_s=60.0)
    double.instead["/subjects/a/versions/1"] = 200, found | {"id": 0}
    assert registry.listing(Requester("a"), bool).ids == {0}
    registry.refresh()
    double.instead["/subjects/a/versions/1"] = 200, {name: found[name] for name in found if name != "id"}
    with pytest.raises(Unreachable):
        registry.listing(Requester("a"), bool)


def test_what_is_known_by_a_late_second_look_is_noticed(double):
    """An id that means another schema since an epoch's begin, and is told so after one stopped waiting."""
    double.add("orders-value", text("x"), schema_id=1)
    registry = ConfluentRegistry(double.address, {}, wait_s=0.2)
    assert registry.schema(1) == text("x")
    assert dict(registry.origin(1).versions) == {"orders-value": 1}
    double.rebuild()
    double.add("orders-key", text("x", "y"), schema_id=1)
    registry.refresh()
    delayed(double, 2.0)
    assert registry.schema(1) == text("x"), "what is known counts on"
    deadline = time.monotonic() + 10
    while registry.schema(1) != text("x", "y"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while True:
        try:
            assert dict(registry.origin(1).versions) == {"orders-key": 1}
            break
        except Unreachable:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_what_a_late_answer_needs_next_is_asked_behind_it(double):
    """Where a schema is registered, and its subject's history: neither costs a try. Foreign ones are left alone."""
    new = double.add("orders-value", text("x"))
    double.add("foreign-value", text("x"))
    registry, requester = ConfluentRegistry(double.address, {}, wait_s=0.05), Requester("orders")
    delayed(double, 0.1)
    with pytest.raises(AnswerPending):
        registry.schema(new, requester=requester, since_s=0.0)
    deadline = time.monotonic() + 10
    while not registry._questions._pending["schema", new].done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert registry.schema(new, requester=requester, since_s=0.0) == text("x")
    assert set(registry.origin(new).versions) == {"orders-value", "foreign-value"}
    assert [one.schema_id for one in registry.history("orders-value", 1)] == [new]
    assert not any("foreign" in path for path in double.asked)
