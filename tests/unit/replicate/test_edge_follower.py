"""What becomes of an epoch when its edges change: flows for running slots, an end, or another look."""

from dataclasses import replace

import pytest

from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import TransactionAborted, Unreachable
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic
from aggregator.replicate.epoch.additions import RunningFlows
from aggregator.replicate.epoch.edge_follower import EdgeFollower
from aggregator.state.control import AddedFlows, Target
from tests.unit.replicate.plan_inputs import CONFIG

RULE = {"match": "orders.*", "policy": "p.yaml"}
HUB = type(CONFIG)(**CONFIG.model_dump() | {"topics": (RULE,)})
KEEPS = {HUB.topics[0].policy: parse_policy("policy: p\nversion: 1\ntopics: {'.*': {default: keep, key: drop}}\n")}


def topic(name: str, topic_id: str = "id", partitions: int = 1) -> EdgeTopic:
    """An empty topic."""
    some = (0,) * partitions
    return EdgeTopic(name, topic_id, some, some, some, (None,) * partitions)


def look(*topics: EdgeTopic) -> dict[str, DiscoveredTopics]:
    """One answer of `eu`, another object each time."""
    return {"eu": DiscoveredTopics({one.name: one for one in topics})}


class Central:
    """Takes entries; some partitions have no leader, or an open transaction."""

    def __init__(self) -> None:
        self.entries, self.leaderless, self.open, self.refuses = [], False, 0, False

    def publish(self, *entries) -> None:
        if self.refuses:
            raise TransactionAborted("refused")
        self.entries += entries

    def read_undecided(self, partitions):
        return {} if self.leaderless else {at: OffsetRange(0, self.open) for at in partitions}


class Topics:
    """Makes central's topics, if central answers."""

    syncs = False

    def __init__(self) -> None:
        self.made, self.settings, self.is_away = [], {}, False

    def ensure(self, snapshots):
        if self.is_away:
            raise Unreachable("away")
        names = [target(HUB, edge, name) for edge, topics in snapshots.items() for name in topics]
        self.made.append(names)
        return dict.fromkeys(names, self.settings), [(name, 0) for name in names]


class Epoch:
    """An epoch that opened with one topic."""

    def __init__(self, *, drain: bool = False, paused: tuple[str, ...] = ()) -> None:
        self.central, self.topics, known = Central(), Topics(), EdgePartition("eu", "orders", 0)
        running = RunningFlows(7, 1, {0: [known]}, [known], {"eu.orders"})
        opened = look(topic("orders"))
        self._follower = EdgeFollower(
            HUB, self.central, self.topics, KEEPS, running, shown=opened, drain=drain, paused=paused
        )

    def ends(self, *others: EdgeTopic, orders: EdgeTopic | None = None) -> bool:
        return self._follower.has_to_end(look(orders or topic("orders"), *others))

    def given(self) -> list[str]:
        """What slots were told, one by one."""
        return [one.plans for one in self.central.entries if isinstance(one, AddedFlows)]


def test_a_new_topic_is_given_once():
    """Each look shows it, and the slots heard of it; the next one follows."""
    epoch = Epoch()
    assert not epoch.ends()
    for _ in range(3):
        assert not epoch.ends(topic("orders-a"))
    assert len(epoch.given()) == 1
    assert epoch.central.entries[0] == Target("eu", "orders-a", "eu.orders-a")
    assert epoch.topics.made == [["eu.orders-a"]], "only what is new"
    assert not epoch.ends(topic("orders-a"), topic("orders-b"))
    assert len(epoch.given()) == 2


@pytest.mark.parametrize("fault", ["leaderless", "open", "refuses", "is_away"])
def test_what_central_is_not_ready_for_is_tried_again(fault):
    """A slot that waits for a leader, or for what is undecided, keeps its other flows waiting."""
    epoch = Epoch()
    at = epoch.topics if fault == "is_away" else epoch.central
    setattr(at, fault, True)
    same = look(topic("orders"), topic("orders-a"))
    assert not epoch._follower.has_to_end(same)
    assert epoch.given() == []
    setattr(at, fault, False)
    assert not epoch._follower.has_to_end(same)
    assert len(epoch.given()) == 1


@pytest.mark.parametrize("fault", ["leaderless", "open", "refuses", "is_away"])
def test_what_central_is_not_ready_for_ends_the_epoch_in_the_end(fault):
    """Once a whole look found no more; the next epoch knows what to do."""
    epoch = Epoch()
    setattr(epoch.topics if fault == "is_away" else epoch.central, fault, True)
    assert not epoch.ends(topic("orders-a"))
    assert epoch.ends(topic("orders-a"))
    assert epoch.given() == []


def test_a_compacted_topic_that_would_lose_its_keys_is_not_given():
    """It is held, which the next epoch tells."""
    epoch = Epoch()
    epoch.topics.settings = {"cleanup.policy": "compact"}
    assert not epoch.ends(topic("orders-a"))
    assert epoch.ends(topic("orders-a"))
    assert epoch.given() == []


def test_a_drain_and_a_paused_edge_are_given_nothing():
    """A drain has an end; a paused edge is not read."""
    drain = Epoch(drain=True)
    assert drain.ends(topic("orders-a"))
    paused = Epoch(paused=("eu",))
    assert not paused.ends(topic("orders-a"))
    assert paused.ends(topic("orders-a"))
    assert drain.given() == paused.given() == []


def test_any_other_change_ends_it():
    """At once, if it is about a flow that runs; central has its topics by then."""
    for changed in (topic("orders", "another"), replace(topic("orders"), topic_id="third")):
        assert Epoch().ends(orders=changed)
    epoch = Epoch()
    assert not epoch.ends(topic("orders-a"), orders=topic("orders", partitions=2))
    assert epoch.ends(topic("orders-a"), orders=topic("orders", partitions=2))
    assert epoch.topics.made == [["eu.orders", "eu.orders-a"]]
    assert epoch.given() == []
