"""Flows that begin where MirrorMaker 2 stands: which they are, where they begin, and what holds them."""

from pathlib import Path

from msgspec import structs

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange
from aggregator.errors import HoldError
from aggregator.mirrormaker.connect_offsets import SourceOffsets
from aggregator.plan.flows import takeover_steps
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch import takeover
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.epoch.takeover import (
    MirrorMakerRuns,
    SourceProgress,
    find_takeovers,
    take_over,
    takeover_lines,
)
from aggregator.state.ledger import LedgerRecord

CONFIG = HubConfig(
    hub="h",
    central={"bootstrap_servers": "c:1"},
    edges={"eu": {"bootstrap_servers": "e:1"}, "us": {"bootstrap_servers": "u:1"}},
    topics=(
        {"match": "orders", "policy": Path("p.yaml"), "start": "mirrormaker2"},
        {"match": "plain", "policy": Path("p.yaml")},
    ),
)
ORDERS = EdgeTopic("orders", "id-1", (5, 0, 0), (5, 0, 0), (90, 70, 7), (0, 0, 0), {"retention.ms": "-1"})
PLAIN = EdgeTopic("plain", "id-2", (0,), (0,), (3,), (None,))
SNAPSHOTS = {"eu": {"orders": ORDERS, "plain": PLAIN}}
SETTINGS = {"eu.orders": {}, "eu.plain": {}}
LEFT = SourceProgress(SourceOffsets({("orders", 0): 80, ("orders", 1): 70}), tasks=0)


def planned(monkeypatch, answer, ledger=None, settings=SETTINGS, **more):
    """What an epoch begins with when central answers so about MirrorMaker 2."""
    asked = []

    def left(_, names, *, fences):
        asked.append((names.group, fences))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(takeover, "source_progress", left)
    found = take_over(CONFIG, ledger or {}, SNAPSHOTS, fences=True)
    flows = plan_flows(CONFIG, ledger or {}, found.snapshots, settings, epoch=1, drain=False, now_ms=0, **more)
    at = {str(flow.source): flow for slot in flows.by_slot.values() for flow in slot}
    return found, at, flows.holds, asked


def test_a_flow_begins_behind_the_last_copied_offset(monkeypatch):
    """A partition without an offset begins at its start, as MirrorMaker 2 itself would; other rules go on as ever."""
    found, at, holds, asked = planned(monkeypatch, LEFT)
    assert {flow: one.entry.next_offset for flow, one in at.items()} == {
        "eu/orders/0": 80,
        "eu/orders/1": 70,
        "eu/orders/2": 0,
        "eu/plain/0": 0,
    }
    first = at["eu/orders/0"].entry
    assert (first.copied, first.unread, first.first_partitions) == (80, (IncarnationRange(0, OffsetRange(0, 80)),), 3)
    assert (holds, asked) == ((), [("eu-mm2", True)])
    (sentence,) = takeover_lines(found.topics)
    assert sentence.endswith("at 0: 80, 1: 70; without an offset of its own, and begun at the start: 2")


def test_while_it_lives_its_flows_are_held_and_no_others(monkeypatch):
    """By name, with what to do next; its group is what is watched until it has left."""
    why = MirrorMakerRuns("MirrorMaker 2 lives: its group eu-mm2", hint="stop it")
    found, at, holds, _ = planned(monkeypatch, why)
    assert set(at) == {"eu/plain/0"}
    assert {(str(hold.source), hold.reason, hold.detail) for hold in holds} == {
        (f"eu/orders/{partition}", "mirrormaker", str(why)) for partition in range(3)
    }
    assert found.groups == {"eu-mm2"}
    found, _, _, _ = planned(monkeypatch, HoldError("no topic", hint="name it"))
    assert found.groups == frozenset()


def test_the_ledger_wins_once_a_flow_has_begun(monkeypatch):
    """Nobody is asked any more; a partition that was added later begins at its start; a held one still waits for it."""
    first = LedgerRecord(0, "id-1", 85, epoch=1, slot=0, first_partitions=2)
    ledger = {EdgePartition("eu", "orders", partition): first for partition in range(2)}
    _, at, holds, asked = planned(monkeypatch, LEFT, ledger)
    assert (at["eu/orders/0"].entry.next_offset, at["eu/orders/2"].entry.next_offset) == (85, 0)
    assert (holds, asked) == ((), [])
    assert at["eu/orders/2"].entry.copied == 0
    waits = {EdgePartition("eu", "orders", 0): structs.replace(first, first_partitions=3)}
    assert [one.partitions for one in find_takeovers(CONFIG, waits, SNAPSHOTS)] == [(1, 2)]
    again = {
        EdgePartition("eu", "orders", partition): structs.replace(first, topic_id="gone") for partition in range(3)
    }
    assert list(find_takeovers(CONFIG, again, SNAPSHOTS)) == []


def test_what_goes_on_is_not_judged_by_its_age(monkeypatch):
    """Central's retention refuses what begins with records that it would delete at once; that is partition 2 alone."""
    keeps = {"eu.orders": {"retention.ms": "604800000"}, "eu.plain": {}}
    monkeypatch.setattr(takeover, "source_progress", lambda *_, **__: LEFT)
    found = take_over(CONFIG, {}, SNAPSHOTS, fences=False)
    flows = plan_flows(CONFIG, {}, found.snapshots, keeps, epoch=1, drain=False, now_ms=4000 * 86_400_000)
    assert [(str(hold.source), hold.reason) for hold in flows.holds] == [("eu/orders/2", "retention")]


def test_a_plan_tells_each_position(monkeypatch):
    """And what is wrong with one: none of its own, or one that the edge's log has never reached."""
    beyond = SourceProgress(SourceOffsets({("orders", 0): 80, ("orders", 1): 71}), tasks=2)
    found, *_ = planned(monkeypatch, beyond)
    rows = [
        (one.partition, one.position, one.copied, one.exactly_once, one.note)
        for one in takeover_steps(found.topics, found.snapshots)
    ]
    assert rows == [
        (0, 80, True, True, ""),
        (1, 71, True, True, "the edge's log ends at 70: a run holds it as a truncated log"),
        (2, 0, False, True, "MirrorMaker 2 has no offset: from the start, as there"),
    ]
    found, *_ = planned(monkeypatch, MirrorMakerRuns("it lives"))
    assert {(one.position, one.note) for one in takeover_steps(found.topics, found.snapshots)} == {(None, "not now")}
