"""Which cluster a name stands for: told, kept, changed by a person, and never taken for what it is not."""

import pytest

from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError, ExitCode
from aggregator.kafka.cluster.cluster_metadata import ClusterMetadata
from aggregator.replicate.discovery import edge_watch
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.identity.clusters import (
    KEY_OF_CENTRAL,
    ClusterGuard,
    KnownClusters,
    acceptance_fault,
    foreign_cluster,
    identities,
    refuse_central,
    refuse_duplicate_clusters,
)
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.control import NamedCluster

CONFIG = HubConfig(
    hub="h",
    central={"bootstrap_servers": "127.0.0.1:1"},
    edges={name: {"bootstrap_servers": "127.0.0.1:1"} for name in ("eu", "us")},
    heartbeats={"emit": False},
)
NOTHING = KnownClusters({}, {})


def said(edge: str, cluster_id: str) -> dict[str, ClusterAcceptance]:
    return {edge: ClusterAcceptance(edge, cluster_id, "ada", 5, "moved")}


@pytest.mark.parametrize(
    ("central", "shown", "words"),
    [
        ("C", {"eu": "A", "us": "A"}, ["edge us and edge eu are the same cluster (A): each record would come twice"]),
        ("C", {"eu": "C"}, ["edge eu and central are the same cluster (C): its records would come back"]),
        ("C", {"eu": "C", "us": "C"}, ["edge eu and central", "edge us and central"]),
        ("C", {"eu": "A", "us": "B"}, []),
        ("", {"eu": "", "us": ""}, []),
        ("C", {}, []),
    ],
)
def test_one_cluster_under_two_names_is_refused(central, shown, words):
    """Before the first record, with 78, both names and what to do; a cluster that tells no id is compared with none."""
    if not words:
        refuse_duplicate_clusters(central, shown)
        return
    with pytest.raises(ConfigError) as refused:
        refuse_duplicate_clusters(central, shown)
    assert refused.value.exit_code == ExitCode.CONFIG
    assert len(refused.value.lines) == len(words)
    assert all(word in refused.value.message for word in words)
    assert "bootstrap_servers" in refused.value.hint


@pytest.mark.parametrize(
    ("kept", "acceptances", "shown", "others", "words"),
    [
        ({}, {}, "A", {}, ""),
        ({"eu": "A"}, {}, "A", {}, ""),
        ({"eu": "A"}, {}, "B", {}, "leads to cluster B, and its name stood for cluster A"),
        ({"eu": "A"}, {}, "B", {}, 'aggregator edge accept eu --reason "…"'),
        ({"eu": "A"}, {}, "", {}, "a cluster that tells no id, and its name stood for cluster A"),
        ({"eu": ""}, {}, "A", {}, "and its name stood for a cluster that tells no id"),
        ({"eu": ""}, {}, "", {}, ""),
        ({"eu": "A"}, said("eu", "B"), "B", {}, ""),
        ({"eu": "A"}, said("eu", "B"), "A", {}, ""),
        ({"eu": "B"}, said("eu", "B"), "A", {}, "leads to cluster A, and its name stood for cluster B"),
        ({"eu": "A"}, said("eu", "B"), "D", {}, "leads to cluster D"),
        ({"eu": "A"}, said("eu", ""), "", {}, ""),
        ({}, {}, "C", {}, "leads to central itself"),
        ({"eu": "A"}, said("eu", "C"), "C", {}, "leads to central itself"),
        ({}, {}, "B", {"us": "B"}, "leads to the cluster of edge us"),
        ({"us": "B"}, {}, "B", {}, "leads to the cluster of edge us"),
        ({"eu": "A", "us": "B"}, {}, "B", {}, "that of edge us, and its name stood for cluster A"),
        ({"eu": "A", "us": "B"}, said("eu", "B"), "B", {}, "leads to the cluster of edge us"),
        ({"eu": "A", "us": "B"}, said("eu", "B") | said("us", "A"), "B", {}, ""),
        ({"eu": "A"}, {}, "A", {"eu": "A"}, ""),
    ],
)
def test_who_may_answer_for_an_edge(kept, acceptances, shown, others, words):
    """The cluster of so far, or the one that a person named; two that a person changes places with may do so."""
    why = foreign_cluster("eu", shown, KnownClusters(kept, acceptances), "C", others)
    assert (words in why) if words else why == ""


def test_a_name_that_is_gone_stands_for_nothing():
    """A cluster may have a new name once the former one is out of the configuration."""
    known = KnownClusters.of(CONFIG, {"former": "A", "eu": "B", KEY_OF_CENTRAL: "C"}, said("former", "D"))
    assert known == KnownClusters({"eu": "B", KEY_OF_CENTRAL: "C"}, {})
    assert foreign_cluster("us", "A", known, "C", {}) == ""


def test_a_copied_central_is_refused():
    """Positions speak of the central that they were written at; a person may say that it is the same one."""
    refuse_central("C", NOTHING)
    known = KnownClusters({KEY_OF_CENTRAL: "C"}, {})
    refuse_central("C", known)
    with pytest.raises(ConfigError, match=r"central is cluster X, .* was written at cluster C"):
        refuse_central("X", known)
    refuse_central("X", KnownClusters({KEY_OF_CENTRAL: "C"}, said(KEY_OF_CENTRAL, "X")))


def test_what_a_person_cannot_decide():
    """A name never stands for central, nor for a cluster that another name stands for."""
    known = KnownClusters({"eu": "A", "us": "B"}, {})
    asked = said("eu", "D")["eu"]
    assert acceptance_fault(asked, known, "C", {"eu": "D", "us": "B"}) == ""
    assert "central itself" in acceptance_fault(said("eu", "C")["eu"], known, "C", {"eu": "C"})
    assert "edge us" in acceptance_fault(said("eu", "B")["eu"], known, "C", {"eu": "B", "us": "B"})
    assert acceptance_fault(said(KEY_OF_CENTRAL, "X")[KEY_OF_CENTRAL], known, "X", {}) == ""


def test_what_is_to_be_kept():
    """Ids of what is read, once; a stranger's never; what a person accepted takes the former one's place."""
    guard = ClusterGuard()
    guard.learn("C", KnownClusters({"eu": "A"}, {}))
    assert guard.judge("eu", "B")
    assert guard.judge("us", "B") == ""
    assert guard.unpublished_clusters() == [NamedCluster(KEY_OF_CENTRAL, "C"), NamedCluster("us", "B")]
    guard.keep(guard.unpublished_clusters())
    assert guard.unpublished_clusters() == []
    assert guard.ids == ("C", {"us": "B"})
    assert not guard.is_known("eu")
    word = said("eu", "D")
    assert guard.accept(word) == [word["eu"]]
    assert guard.accept(word) == []
    assert guard.judge("eu", "D") == ""
    assert guard.unpublished_clusters() == [NamedCluster("eu", "D")]


def test_what_a_status_says_of_every_name():
    """Also of clusters that do not answer, and of those that tell no id."""
    found = identities("C", {"eu": None, "us": ""}, KnownClusters({"eu": "A"}, {}))
    assert [(one.name, one.cluster_id, one.known) for one in found] == [
        ("central", "C", None),
        ("eu", None, "A"),
        ("us", "", None),
    ]
    assert ["tells no cluster id" in one.sentence for one in found] == [False, False, True]


class Answers:
    """What the cluster behind an address tells, look by look."""

    def __init__(self, monkeypatch, *ids: str) -> None:
        self._ids = list(ids)
        self.asked_for_topics = 0
        monkeypatch.setattr(edge_watch, "cluster_metadata", self._glance)
        monkeypatch.setattr(edge_watch, "discover_topics", self._discovered)

    def _glance(self, _cluster, *, timeout_s):
        return ClusterMetadata(self._ids.pop(0), (1,), {"orders": (True,)})

    def _discovered(self, _config, _edge, counts, known, before):
        self.asked_for_topics += 1
        topic = EdgeTopic("orders", f"id-{self.asked_for_topics}", (0,), (0,), (9,), (None,))
        return DiscoveredTopics({"orders": topic})


def watch(*, kept: str | None) -> EdgeWatch:
    guard = ClusterGuard()
    guard.learn("C", KnownClusters({} if kept is None else {"eu": kept}, {}))
    return EdgeWatch(CONFIG, "eu", guard.judge)


def test_nothing_of_a_stranger_is_looked_at(monkeypatch):
    """It is as if the edge were away: none of its topics is known, and why is told; its own is taken up again."""
    answers, one = Answers(monkeypatch, "B", "A", "A"), watch(kept="A")
    one.ask()
    assert (one.topics, answers.asked_for_topics) == (None, 0)
    assert "stood for cluster A" in one.answer.foreign == one.answer.trouble
    assert one.answer.answered_s is None
    one.ask()
    assert one.topics is not None
    assert (one.answer.foreign, one.answer.trouble, one.answer.cluster_id) == ("", "", "A")


def test_a_swap_is_not_taken_for_recreated_topics(monkeypatch):
    """Another cluster has topics of other ids: what was known is forgotten, and its topics are not planned."""
    _, one = Answers(monkeypatch, "A", "A", "B"), watch(kept=None)
    one.ask()
    assert one.topics["orders"].topic_id == "id-1"
    one.ask()
    assert one.topics is None
    assert "leads to cluster B, and its name stood for cluster A" in one.answer.foreign


def test_topics_told_between_two_clusters_are_not_taken(monkeypatch):
    """The address turned to another cluster between the question for the id and that for the topics."""
    answers, one = Answers(monkeypatch, "A", "B"), watch(kept="A")
    one.ask()
    assert answers.asked_for_topics == 1
    assert one.topics is None
    assert "leads to cluster B" in one.answer.foreign
