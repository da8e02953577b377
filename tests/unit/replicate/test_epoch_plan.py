"""Planning an epoch from the ledger and the edges' snapshots."""

from dataclasses import replace

import pytest
from msgspec import structs

from aggregator.coordinates import EdgePartition
from aggregator.replicate.discovery.central_topics import central_topics
from aggregator.replicate.epoch.plan import entry_of, plan_flows, undecided_elsewhere
from aggregator.state.control import Target, encode
from aggregator.state.ledger import LedgerRecord
from tests.unit.replicate.plan_inputs import BEATS, CONFIG, FLOW, ORDERS, SETTINGS, SNAPSHOTS


def test_a_flow_without_a_record_begins_where_its_rule_says():
    """`start: latest` is resolved once, into a first position that the slot must persist (rule D)."""
    entry, fresh = entry_of(None, FLOW, ORDERS, first_partitions=2)
    assert (entry.position, fresh) == ((0, 80), True)


def test_a_known_flow_goes_on_with_its_counters():
    """The winning record holds; counters are cumulative over epochs."""
    known = LedgerRecord(0, "id-1", 42, epoch=1, slot=0, delivered=40, dead=2)
    entry, fresh = entry_of(known, FLOW, ORDERS, first_partitions=0)
    assert (entry.position, entry.delivered, entry.dead, fresh) == ((0, 42), 40, 2, False)


def test_trap_5_another_topic_id_starts_a_new_incarnation_at_zero():
    """A recreated topic may already be longer than the old position: the id decides, not the offsets."""
    known = LedgerRecord(2, "gone", 1_000_000, epoch=1, slot=0, delivered=7)
    entry, fresh = entry_of(known, FLOW, ORDERS, first_partitions=0)
    assert (entry.position, entry.topic_id, entry.delivered, fresh) == ((3, 0), "id-1", 7, True)


def test_fault_15_a_partition_added_later_is_read_from_its_beginning():
    """Even under `start: latest`: what was written to it before we saw it would be lost in silence."""
    ledger = {FLOW: LedgerRecord(0, "id-1", 85, epoch=1, slot=0)}
    flows = plan_flows(CONFIG, ledger, SNAPSHOTS, SETTINGS, epoch=2, drain=False, now_ms=0)
    (added,) = [one for slot in flows.by_slot.values() for one in slot if one.source == ("eu", "orders", 1)]
    assert (added.entry.position, added.entry.epoch, added.is_new_position) == ((0, 0), 2, True)


def test_old_records_before_its_start_do_not_refuse_a_flow():
    """`start: latest` reads none of what central would delete at once; a recreated topic is read from its beginning."""
    now_ms = 4000 * 86_400_000
    old = replace(ORDERS, oldest_ms=(0, 0), initial_timestamps_ms=(None, None), settings={"retention.ms": "-1"})
    settings = {"eu.orders": {"retention.ms": "604800000"}, "eu.heartbeats": {}}
    shown = {"eu": {"orders": old}}
    flows = plan_flows(CONFIG, {}, shown, settings, epoch=2, drain=False, now_ms=now_ms)
    assert flows.holds == ()
    gone = {FLOW: LedgerRecord(0, "gone", 85, epoch=1, slot=0)}
    flows = plan_flows(CONFIG, gone, shown, settings, epoch=2, drain=False, now_ms=now_ms)
    assert {(str(hold.source), hold.reason) for hold in flows.holds} == {
        ("eu/orders/0", "retention"),
        ("eu/orders/1", "retention"),
    }


@pytest.mark.parametrize("held", [{("old.orders", 1): "why"}, {("h.letters", 0): "why"}])
def test_a_flow_waits_for_what_is_undecided_where_it_was_written_before(held):
    """Past it, what had been aborted there would count as committed: the record would come twice."""
    now, told = [Target("eu", "orders", "eu.orders")], [Target("eu", "orders", "old.orders")]
    beside = undecided_elsewhere(now, [*now, *told], held, "h.letters")
    entry = LedgerRecord(0, "id-1", 85, epoch=1, slot=0)
    ledger = {FLOW: entry, FLOW._replace(partition=1): entry}
    flows = plan_flows(
        CONFIG, ledger, {"eu": {"orders": ORDERS}}, SETTINGS, epoch=2, drain=False, now_ms=0, elsewhere=beside
    )
    assert [(hold.source.partition, hold.reason, hold.detail) for hold in flows.holds] == [
        (0, "undecided", "why"),
        (1, "undecided", "why"),
    ]
    assert undecided_elsewhere(now, now, {("old.orders", 1): "why"}, "h.letters") == {}, "never written there"


def test_a_flow_waits_for_every_partition_that_a_former_division_by_key_wrote():
    """By key a record of partition 0 may lie in any of central's; by number the flow asks about its own alone."""
    held, flow = {("eu.orders", 1): "why"}, ("eu", "orders")
    by_number, by_key = Target(*flow, "eu.orders"), Target(*flow, "eu.orders", by_key=True)
    assert undecided_elsewhere([by_number], [by_key, by_number], held, "h.letters") == {flow: "why"}
    assert undecided_elsewhere([by_key], [by_key, by_number], held, "h.letters") == {}, "asks about all of them itself"
    assert {encode(by_number)[0], encode(by_key)[0]} == {
        "target/eu/orders/eu.orders",
        "target/eu/orders/eu.orders/by_key",
    }


@pytest.mark.parametrize(
    ("sibling", "offset"),
    [
        (LedgerRecord(0, "id-1", 85, epoch=1, slot=0, first_partitions=2), 70),
        (LedgerRecord(0, "id-1", 85, epoch=1, slot=0, first_partitions=1), 0),
        (LedgerRecord(1, "id-1", 85, epoch=1, slot=0, first_partitions=0), 0),
        (LedgerRecord(0, "gone", 85, epoch=1, slot=0, first_partitions=2), 0),
    ],
)
def test_a_sibling_s_record_does_not_make_a_partition_a_later_one(sibling, offset):
    """`start: latest` holds for all partitions of the first plan, whichever were written down before a crash."""
    flows = plan_flows(CONFIG, {FLOW: sibling}, SNAPSHOTS, SETTINGS, epoch=2, drain=False, now_ms=0)
    own = [one for slot in flows.by_slot.values() for one in slot if one.source.topic == "orders"]
    (other,) = [one for one in own if one.source != FLOW]
    assert (other.entry.position, other.is_new_position) == ((0, offset), True)
    lives = {one.entry.first_partitions for one in own}
    assert lives == {sibling.first_partitions if sibling.topic_id == "id-1" else 0}


def test_a_first_position_at_the_end_knows_the_leader_s_epoch():
    """A log that is cut below it before the first record comes is found by that; inside a log none would hold."""
    seen = replace(ORDERS, leader_epochs=(4, 5))
    flows = plan_flows(CONFIG, {}, {"eu": {"orders": seen}}, SETTINGS, epoch=0, drain=False, now_ms=0)
    starts = {one.source.partition: one.entry for slot in flows.by_slot.values() for one in slot}
    assert [(starts[p].next_offset, starts[p].leader_epoch) for p in (0, 1)] == [(80, None), (70, 5)]
    undecided = replace(seen, undecided=(0, 3))
    assert undecided.leader_epoch_before(1, 70) is None


def test_central_topics_follow_the_edge():
    """As many partitions, the same cleanup policy, whatever time records have; heartbeats carry central's own time."""
    specs = {spec.name: spec for spec in central_topics(CONFIG, SNAPSHOTS)}
    assert specs["eu.orders"].partitions == 2
    assert specs["eu.orders"].settings["cleanup.policy"] == "compact"
    assert specs["eu.orders"].settings["message.timestamp.after.max.ms"] == str(2**63 - 1)
    assert specs["eu.heartbeats"].settings["message.timestamp.type"] == "LogAppendTime"


def test_a_setting_that_the_configuration_asks_for_is_never_left_out():
    """The bound on times ahead undoes a default of newer brokers, which older ones lack; a person's own is needed."""
    specs = {spec.name: spec for spec in central_topics(CONFIG, SNAPSHOTS)}
    assert specs["eu.orders"].dispensable == {"message.timestamp.after.max.ms"}
    assert specs["eu.heartbeats"].dispensable == frozenset()
    rule = CONFIG.topics[0].model_copy(update={"central_config": {"message.timestamp.after.max.ms": "1000"}})
    asked = central_topics(CONFIG.model_copy(update={"topics": (rule,)}), SNAPSHOTS)
    assert [spec.dispensable for spec in asked] == [frozenset()] * len(asked)


def test_a_new_generation_goes_on_where_the_old_one_ended():
    """Another `central:` is another topic for the same flow: its position and counters stay, nothing is read twice."""
    rule = CONFIG.topics[0].model_copy(update={"central": "{edge}.{topic}.v2"})
    renewed = CONFIG.model_copy(update={"topics": (rule,)})
    ledger = {FLOW: LedgerRecord(0, "id-1", 85, epoch=1, slot=0, delivered=5)}
    assert {spec.name for spec in central_topics(renewed, SNAPSHOTS)} == {"eu.orders.v2", "eu.heartbeats"}
    settings = {"eu.orders.v2": {}, "eu.heartbeats": {}}
    flows = plan_flows(renewed, ledger, SNAPSHOTS, settings, epoch=2, drain=False, now_ms=0)
    (plan,) = [plan for slot in flows.by_slot.values() for plan in slot if plan.source == FLOW]
    assert (plan.central_topic, plan.entry.position, plan.entry.delivered, plan.is_new_position) == (
        "eu.orders.v2",
        (0, 85),
        5,
        False,
    )


def test_plans_cover_every_flow_once_and_know_where_a_drain_ends():
    """Each edge partition is in exactly one slot; `until` is what existed when the edge was first seen."""
    flows = plan_flows(CONFIG, {}, SNAPSHOTS, SETTINGS, epoch=0, drain=True, now_ms=0)
    plans = [plan for slot in flows.by_slot.values() for plan in slot]
    assert sorted(plan.source for plan in plans) == [
        EdgePartition("eu", "heartbeats", 0),
        FLOW,
        EdgePartition("eu", "orders", 1),
    ]
    by_source = {plan.source: plan for plan in plans}
    assert by_source[FLOW].until == 90
    assert by_source[FLOW].limits.record_bytes == 1000
    assert all(plan.entry.slot == slot for slot, owned in flows.by_slot.items() for plan in owned)


def test_a_flow_that_its_policy_refuses_is_held_with_the_reason():
    """The others go on; it is in no slot, and the hold names it."""
    refused = {("eu", "orders"): "eu.orders is compacted at central, and this policy drops its keys"}
    flows = plan_flows(CONFIG, {}, SNAPSHOTS, SETTINGS, epoch=0, drain=True, now_ms=0, refused=refused)
    assert [(hold.source, hold.reason, hold.detail) for hold in flows.holds] == [
        (EdgePartition("eu", "orders", partition), "policy", refused["eu", "orders"]) for partition in (0, 1)
    ]
    assert [plan.source.topic for slot in flows.by_slot.values() for plan in slot] == ["heartbeats"]


def test_another_edge_and_another_topic_change_nothing_for_a_flow():
    """Each flow is decided by its own record and its own topic: the order of the snapshots decides nothing."""
    other = {"orders": ORDERS, "heartbeats": BEATS}
    settings = SETTINGS | {"us.orders": {}, "us.heartbeats": {}}
    ledger = {FLOW: LedgerRecord(0, "id-1", 42, epoch=1, slot=1, delivered=40)}
    alone = plan_flows(CONFIG, ledger, SNAPSHOTS, settings, epoch=3, drain=True, now_ms=0)
    for snapshots in ({"eu": SNAPSHOTS["eu"], "us": other}, {"us": other, "eu": SNAPSHOTS["eu"]}):
        flows = plan_flows(CONFIG, ledger, snapshots, settings, epoch=3, drain=True, now_ms=0)
        found = {plan.source: plan for slot in flows.by_slot.values() for plan in slot}
        assert len(found) == 6
        expected = {plan.source: plan for slot in alone.by_slot.values() for plan in slot}
        for source, plan in expected.items():
            moved = structs.replace(plan.entry, slot=found[source].entry.slot)
            assert found[source] == plan._replace(entry=moved)
