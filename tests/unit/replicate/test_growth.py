"""When an epoch ends for topics that were added: once for many that come one after the other, at once for a change."""

from aggregator.coordinates import EdgePartition
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic, Unanswered
from aggregator.replicate.epoch.epochs import group_holds_by_reason
from aggregator.replicate.epoch.growth import MAX_S, Growth
from aggregator.replicate.flow.cursor import Hold, HoldReason


def topic(name: str, topic_id: str = "id", partitions: int = 1) -> EdgeTopic:
    """An empty topic."""
    some = (0,) * partitions
    return EdgeTopic(name, topic_id, some, some, some, (None,) * partitions)


def look(*names: str, waiting: tuple[str, ...] = (), **topics: EdgeTopic) -> DiscoveredTopics:
    """One answer of an edge, another object each time."""
    return DiscoveredTopics(
        {name: topic(name) for name in names} | topics, {one: Unanswered(1, "why") for one in waiting}
    )


class Epoch:
    """An epoch that opened with what edges showed."""

    def __init__(self, **shown: DiscoveredTopics) -> None:
        self._growth = Growth(shapes(shown), shown)

    def ends(self, now_s: float, **shown: DiscoveredTopics) -> bool:
        return self._growth.is_over(shapes(shown), shown, now_s)


def shapes(shown):
    """As an epoch compares them."""
    return {edge: {name: (one.shape, None) for name, one in seen.topics.items()} for edge, seen in shown.items()}


def test_topics_that_trickle_in_end_one_epoch():
    """While each look finds more, flows go on; the look that finds no more ends it."""
    epoch, us = Epoch(eu=look("a"), us=look("a")), look("a")
    assert not epoch.ends(1.0, eu=look("a", "b"), us=us)
    assert not epoch.ends(2.0, eu=look("a", "b", "c"), us=us)
    assert not epoch.ends(3.0, eu=look("a", "b", "c", "d"), us=us)
    assert epoch.ends(4.0, eu=look("a", "b", "c", "d"), us=us)


def test_one_look_asked_twice_is_no_calm():
    """The driver asks ten times a second, an edge is looked at once: the same answer says nothing new."""
    epoch, same = Epoch(eu=look("a")), look("a", "b")
    assert not epoch.ends(1.0, eu=same)
    assert not epoch.ends(1.9, eu=same)
    assert epoch.ends(2.0, eu=look("a", "b"))


def test_a_new_topic_without_leaders_is_waited_for():
    """It comes with the next look or the one after; another epoch for it alone would be another halt."""
    epoch = Epoch(eu=look("a"))
    assert not epoch.ends(1.0, eu=look("a", "b", waiting=("c",)))
    assert not epoch.ends(2.0, eu=look("a", "b", waiting=("c",)))
    assert not epoch.ends(3.0, eu=look("a", "b", "c"))
    assert epoch.ends(4.0, eu=look("a", "b", "c"))


def test_a_topic_that_nobody_answered_for_before_is_not_waited_for():
    """A right that is missing, a broker that is away: that may last."""
    epoch = Epoch(eu=look("a", waiting=("z",)))
    assert not epoch.ends(1.0, eu=look("a", "b", waiting=("z",)))
    assert epoch.ends(2.0, eu=look("a", "b", waiting=("z",)))


def test_growth_without_an_end_is_cut_off():
    """A new topic waits for so long at most."""
    epoch = Epoch(eu=look("a"))
    names = ["a"]
    for second in range(int(MAX_S)):
        names.append(f"t{second}")
        assert not epoch.ends(100.0 + second, eu=look(*names))
    assert epoch.ends(100.0 + MAX_S, eu=look(*names, "last"))


def test_what_changes_for_a_flow_that_runs_ends_it_at_once():
    """Another id, a topic that is gone, an edge that answers for the first time; also beside what was added."""
    began = look("a", "b")
    for now in (look("b", a=topic("a", "other")), look("a"), look("b", "c", a=topic("a", "other")), look("a", "c")):
        assert Epoch(eu=began).ends(1.0, eu=now)
    assert Epoch(eu=began).ends(1.0, eu=began, us=look("a"))


def test_more_partitions_are_growth():
    """Their records wait at the edge like those of a new topic."""
    epoch = Epoch(eu=look(a=topic("a", partitions=1)))
    wider = topic("a", partitions=3)
    assert not epoch.ends(1.0, eu=look(a=wider))
    assert epoch.ends(2.0, eu=look(a=wider))


def test_every_edge_that_grows_has_to_be_calm():
    """Topics are made at several edges at once."""
    epoch = Epoch(eu=look("a"), us=look("a"))
    assert not epoch.ends(1.0, eu=look("a", "b"), us=(us := look("a", "b")))
    assert not epoch.ends(2.0, eu=look("a", "b"), us=us)
    assert epoch.ends(3.0, eu=look("a", "b"), us=look("a", "b"))


def test_holds_of_one_reason_are_one_line():
    """A log line for each partition of two hundred topics hides everything else."""
    holds = [Hold(EdgePartition("eu", f"t{n}", 0), HoldReason.DISCOVERY, "no leader") for n in range(3)]
    holds.append(Hold(EdgePartition("us", "t", 0), HoldReason.DISCOVERY, "no leader"))
    assert list(group_holds_by_reason(holds)) == [
        ("eu/t0/0, eu/t1/0, eu/t2/0 are", "no leader"),
        ("us/t/0 is", "no leader"),
    ]
