"""Which new topics running slots take, which end the epoch, and how slots are told."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange
from aggregator.errors import FatalError, TransactionAborted
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch.additions import RunningFlows, new_topics, obstacles, plan_additions
from aggregator.replicate.epoch.edge_follower import give_flows
from aggregator.replicate.flow.added_flows import added, unknown_flows
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.plan import SlotPlan, with_added_flows
from aggregator.state.control import AddedFlows, ControlState, Target
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from tests.unit.replicate.plan_inputs import CONFIG

NAMES = {"a": (("id-a", 1), None), "b": (("id-b", 2), None)}
RULE = {"match": "orders.*", "policy": Path("p.yaml")}
HUB = CONFIG.model_copy(update={"topics": type(CONFIG)(**CONFIG.model_dump() | {"topics": (RULE,)}).topics})
LEDGER = EdgePartition("eu", "orders-old", 0)


def topic(name: str, partitions: int = 2, end: int = 7) -> EdgeTopic:
    """A topic whose flows begin at its beginning."""
    begins, ends = (0,) * partitions, (end,) * partitions
    return EdgeTopic(name, f"id-{name}", begins, begins, ends, (None,) * partitions, leader_epochs=(3,) * partitions)


def running(**changes) -> RunningFlows:
    """Two slots: the first reads `eu`, both read `us`."""
    eu, us = EdgePartition("eu", "orders", 0), [EdgePartition("us", "orders", at) for at in range(3)]
    given = {0: [eu, us[0], us[1]], 1: [us[2]]}
    return replace(RunningFlows(7, 2, given, [LEDGER, eu, *us], {"eu.orders", "us.orders"}), **changes)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"eu": NAMES}, {"eu": NAMES}, {}),
        ({"eu": {}}, {"eu": NAMES}, {"eu": {"a", "b"}}),
        ({"eu": {"a": NAMES["a"]}, "us": {}}, {"eu": NAMES, "us": {}}, {"eu": {"b"}}),
        ({"eu": NAMES}, {"eu": {"a": NAMES["a"]}}, None),
        ({"eu": NAMES}, {"eu": NAMES | {"a": (("another", 1), None)}}, None),
        ({"eu": NAMES}, {"eu": NAMES | {"a": (("id-a", 2), None), "c": NAMES["a"]}}, None),
        ({"eu": NAMES}, {"eu": NAMES | {"a": (("id-a", 1), {"retention.ms": "5"})}}, None),
        ({"eu": {}}, {"eu": {}, "us": NAMES}, None),
        ({"eu": {}, "us": {}}, {"eu": NAMES}, None),
    ],
)
def test_only_topics_that_are_new_make_no_other_change(before, now, found):
    """A wider topic, another id, other settings, an edge that answers for the first time: these end the epoch."""
    assert new_topics(before, now) == found


def obstacle(name: str = "orders-new", edge: str = "eu", *, hub=HUB, shown=None, paused=(), partitions=2, **changes):
    """The first one, if any."""
    fresh = {edge: {name: topic(name, partitions)}}
    return next(obstacles(hub, fresh, running(**changes), shown or fresh, paused), "")


def test_a_new_topic_goes_to_running_slots():
    """Nobody had a flow of it, and it is written where nothing else is."""
    assert obstacle() == ""


def test_what_ends_the_epoch_instead():
    """Each for its reason."""
    by_name = HUB.model_copy(update={"topics": (HUB.topics[0].model_copy(update={"central": "{topic}"}),)})
    mirrored = {"topics": ({**RULE, "start": "mirrormaker2"},)}
    from_mirror = type(CONFIG)(**CONFIG.model_dump() | mirrored)
    limited = type(CONFIG)(**CONFIG.model_dump() | {
        "topics": (RULE,), "edges": {"eu": {"bootstrap_servers": "e:1", "rate_limit": "1MB/s"}}
    })  # fmt: skip
    comes_back = {"eu": {"orders-new": topic("orders-new")}, "us": {"eu.orders-new": topic("eu.orders-new")}}
    assert obstacle("orders-old") == "the ledger knows flows of them"
    assert obstacle(written={"eu.orders-new"}) == "flows of other topics write the same central topic"
    assert obstacle(hub=by_name) == "records could come back through an edge"
    assert obstacle(shown=comes_back) == "records could come back through an edge"
    assert obstacle(written={"orders-new"}) == "records could come back through an edge"
    assert obstacle(paused=("eu",)) == "an edge is paused"
    assert obstacle(hub=from_mirror) == "MirrorMaker 2 may have copied some of them"
    assert obstacle(hub=limited, by_slot={}) == "no slot has a share of an edge's rate limit"
    beats = {0: [EdgePartition("eu", "heartbeats", 0)]}
    assert obstacle(hub=limited, by_slot=beats) == "no slot has a share of an edge's rate limit"
    assert obstacle(hub=limited) == ""
    more = plan_additions(limited, {"eu": {"orders-new": topic("orders-new")}}, {}, running(
        by_slot=beats | {1: [EdgePartition("eu", "orders", 0)]}), now_ms=0)  # fmt: skip
    assert more.keys() == {1}, "who reads only heartbeats is not limited"
    assert obstacle(partitions=1001) == "they are many"


def test_a_slot_that_reads_the_edge_takes_them():
    """The one with the fewest flows of it; any, where no slot reads the edge."""
    fresh = {"eu": {"orders-new": topic("orders-new")}, "us": {"orders-new": topic("orders-new", 3)}}
    more = plan_additions(HUB, fresh, {}, running(), now_ms=0)
    found = {slot: [plan.source for plan in plans] for slot, plans in more.items()}
    eu, us = ([EdgePartition(edge, "orders-new", at) for at in range(3)] for edge in ("eu", "us"))
    assert found == {0: [eu[0], eu[1], us[1]], 1: [us[0], us[2]]}
    for slot, plans in more.items():
        for plan in plans:
            assert plan.is_new_position
            assert (plan.entry.epoch, plan.entry.slot, plan.entry.incarnation, plan.entry.next_offset) == (
                7,
                slot,
                0,
                0,
            )
    alone = plan_additions(HUB, {"eu": fresh["eu"]}, {}, running(by_slot={}), now_ms=0)
    assert {slot: len(plans) for slot, plans in alone.items()} == {0: 1, 1: 1}


def test_what_is_held_or_takes_small_records_is_not_added():
    """A hold is told when an epoch opens; a batch of a slot's producer may be a megabyte long."""
    fresh = {"eu": {"orders-new": topic("orders-new")}}
    assert plan_additions(HUB, fresh, {}, running(), now_ms=0, refused={("eu", "orders-new"): "no"}) is None
    named = {f"orders-{'x' * 235}-{number}": None for number in range(200)}
    long = {"eu": {name: topic(name) for name in named}}
    assert plan_additions(HUB, long, {}, running(), now_ms=0) is not None
    eu_alone = running(by_slot={0: [EdgePartition("eu", "orders", 0)]})
    assert plan_additions(HUB, {"eu": {name: topic(name, 3) for name in named}}, {}, eu_alone, now_ms=0) is None
    small = {"eu.orders-new": {"max.message.bytes": "999999"}}
    assert plan_additions(HUB, fresh, small, running(), now_ms=0) is None


class Control:
    """Takes entries, or refuses them."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses, self.entries = refuses, []

    def publish(self, *entries) -> None:
        if self.refuses:
            raise TransactionAborted("refused")
        self.entries += entries


def test_the_note_where_flows_write_comes_with_the_flows():
    """In one transaction; what central refuses was given to nobody."""
    fresh, now = {"eu": {"orders-new": topic("orders-new")}}, running()
    more = plan_additions(HUB, fresh, {}, now, now_ms=0)
    assert not give_flows(HUB, Control(refuses=True), now, fresh, more)
    assert (now.given, "eu.orders-new" in now.written) == ({}, False)
    central = Control(refuses=False)
    assert give_flows(HUB, central, now, fresh, more)
    assert central.entries == [Target("eu", "orders-new", "eu.orders-new"), added(7, 0, more[0])]
    assert "eu.orders-new" in now.written
    again = {"eu": {"orders-newer": topic("orders-newer")}}
    assert give_flows(HUB, central, now, again, plan_additions(HUB, again, {}, now, now_ms=0))
    told = unknown_flows(central.entries[-1], 7, ())
    assert [plan.source.topic for plan in told] == ["orders-new"] * 2 + ["orders-newer"] * 2, "all that it was given"


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)
OFFSETS = st.integers(0, 2**62)
PLANS = st.builds(
    FlowPlan,
    source=st.builds(EdgePartition, TEXTS, TEXTS, st.integers(0, 2**31 - 1)),
    entry=st.builds(
        LedgerRecord, st.just(0), TEXTS, OFFSETS, st.just(7), st.just(1),
        leader_epoch=st.none() | st.integers(0, 2**31 - 1), first_partitions=st.integers(1, 100),
        unread=st.lists(st.builds(IncarnationRange, st.just(0), st.builds(OffsetRange, OFFSETS, OFFSETS))).map(tuple),
    ),
    is_new_position=st.just(True),
    central_topic=TEXTS,
    by_key=st.booleans(),
    limits=st.builds(TopicLimits, OFFSETS, st.booleans(), st.none() | OFFSETS, st.none() | OFFSETS),
    skips_gaps=st.booleans(),
)  # fmt: skip


@given(st.lists(PLANS, max_size=5))
def test_a_slot_hears_what_was_said(plans):
    """Whatever stands in a plan; of another epoch, or of what it has, it hears nothing."""
    said = added(7, 1, plans)
    assert unknown_flows(said, 7, ()) == tuple(plans)
    assert unknown_flows(said, 8, ()) == unknown_flows(None, 7, ()) == ()
    assert unknown_flows(said, 7, {plan.source for plan in plans}) == ()


def test_a_slot_goes_on_with_a_plan_that_has_more_flows():
    """It looks twenty times a second, and what says nothing new costs nothing."""
    more = plan_additions(HUB, {"eu": {"orders-new": topic("orders-new")}}, {}, running(), now_ms=0)
    plan = SlotPlan(HubNames("h"), 7, "d", 0, (), CommitPolicy(1.0, 1), drain=False, patience_s=1.0)
    assert with_added_flows(plan, ControlState()) is plan
    assert with_added_flows(plan, ControlState(added={1: added(7, 1, more[0])})) is plan
    seen = ControlState(added={0: added(7, 0, more[0])})
    grown = with_added_flows(plan, seen)
    assert grown.flows == more[0]
    assert with_added_flows(grown, seen) is grown


@pytest.mark.parametrize("text", ["", "[", "[[]]", '[{"source": 1}]', "null"])
def test_what_no_hub_wrote_is_refused_without_being_quoted(text):
    """By slot and epoch."""
    with pytest.raises(FatalError, match="gives slot 1 flows of epoch 7") as told:
        unknown_flows(AddedFlows(7, 1, text), 7, ())
    assert text == "" or text not in str(told.value)
