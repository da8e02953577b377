"""Discovery on a real edge of three brokers: a topic that nobody answers for is named, and hides no other."""

import json
import time

import pytest
from confluent_kafka.admin import AclOperation, NewTopic

from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition
from aggregator.observe.probe import EdgeProbe
from aggregator.replicate.discovery.discovery import snapshot, unanswered_holds
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.state.ledger import LedgerRecord
from aggregator.threads import Threads
from tests.chaos.lines import AUTHORIZER, lined, right
from tests.trial import Trial, settle, wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]

EDGE = "eu"
# A look that asks a partition without a leader takes half a minute and fails.
QUICK_S = 8.0
# So long a question for ends waits for a partition without a leader.
ASKED_S = 2.0


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    """Central and one edge of three brokers, whose principals have rights: (sandbox, lines)."""
    with lined(tmp_path_factory.mktemp("discovery"), (EDGE,), {EDGE: 3}, more=AUTHORIZER) as made:
        yield made


class TwoTopics(Trial):
    """A hub that wants two topics of the edge: `topic`, and `other`, which is in trouble."""

    other: str


@pytest.fixture
def trial(edge, tmp_path):
    sandbox, _ = edge
    made = TwoTopics(sandbox, tmp_path, match="orders-.*")
    made.other = f"{made.topic}-other"
    first = made.topic
    made.replace_policies(made.other)
    made.replace_policies(first)
    made.settings["topics"][0]["match"] = f"{first}|{made.other}"
    made.write()
    made.create(EDGE)
    yield made
    made.close()


def test_a_topic_whose_settings_are_refused_hides_no_other(trial, edge):
    """Without DescribeConfigs on one topic the others are discovered and delivered; it is named, and comes later."""
    _, lines = edge
    lines.guard(trial, EDGE)
    trial.create(EDGE, topic=trial.other)
    reading = (AclOperation.READ, AclOperation.DESCRIBE)
    for topic, some in ((trial.topic, (*reading, AclOperation.DESCRIBE_CONFIGS)), (trial.other, reading)):
        settle(trial.admin(EDGE).create_acls([right(topic, one) for one in some]))
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["replication"]["drain_patience"] = "2s"
    trial.write()
    trial.produce(EDGE, 30)
    trial.produce_raw(EDGE, [(b"k", trial.value(n), n % 3) for n in range(30)], topic=trial.other)
    (held,) = [one for one in json.loads(trial.typed("plan", "-o", "json").stdout)["flows"] if one["held"]]
    assert (held["topic"], held["partitions"]) == (trial.other, 3)
    assert "uthoriz" in held["held"][0]
    done = trial.drain_here("--only", "replicate", expect=4)
    assert f"held: {EDGE}/{trial.other}/0 and 2 more (discovery)" in done.stderr
    assert "uthoriz" in done.stderr
    assert len(trial.central_records(EDGE)) == 30
    settle(trial.admin(EDGE).create_acls([right(trial.other, AclOperation.DESCRIBE_CONFIGS)]))
    trial.drain_here("--only", "replicate")
    assert len(trial.central_records(EDGE, f"{EDGE}.{trial.other}")) == 30


def test_a_partition_without_a_leader_hides_no_other(trial, edge):
    """A broker of the edge is away, and with it the only replica of a partition: all else is discovered at once.

    The topic is named, and found when it is back.
    """
    sandbox, _ = edge
    away = sandbox.edges[EDGE].brokers[2]
    replicas = [[1], [3], [2]]
    alone = [NewTopic(trial.topic + "-r", 3, replica_assignment=[[1], [2], [1]])]
    settle(trial.admin(EDGE).create_topics([*alone, NewTopic(trial.other, 3, replica_assignment=replicas)]))
    trial.settings["topics"][0]["match"] += f"|{trial.topic}-r"
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["edges"][EDGE]["bootstrap_servers"] = sandbox.edges[EDGE].brokers[0].bootstrap
    trial.write()
    config, stop = load_config(trial.config, {}), Threads()
    away.kill()
    try:
        wait_for(lambda: snapshot(config, EDGE, {}).unanswered, timeout=60, what="a partition without a leader")
        began = time.monotonic()
        shown = snapshot(config, EDGE, {})
        took_s = time.monotonic() - began
        assert took_s < QUICK_S, took_s
        assert {trial.topic, f"{trial.topic}-r"} <= shown.topics.keys()
        assert shown.unanswered[trial.other].why.startswith("no broker leads partition 1")
        assert [str(one.source) for one in unanswered_holds({EDGE: shown})] == [
            f"{EDGE}/{trial.other}/{p}" for p in range(3)
        ]
        began = time.monotonic()
        assert snapshot(config, EDGE, shown.topics, shown.unanswered).topics.keys() == shown.topics.keys()
        assert time.monotonic() - began < 1.0, "nobody waits twice for the same leader"
        watch = EdgeWatch(config, EDGE, lambda *_: "")
        watch.start(stop)
        wait_for(lambda: watch.topics, timeout=20, what="the watch's first answer")
        assert trial.other not in watch.topics
    finally:
        away.start()
    wait_for(lambda: trial.other in watch.topics, timeout=60, what="the topic with its leader")
    watch.stop()
    assert watch.shown.unanswered == {}


def test_a_known_topic_stays_known_while_a_partition_has_no_leader(trial, edge):
    """What was discovered goes on; the monitor's probe knows the ends of all other partitions."""
    sandbox, _ = edge
    away = sandbox.edges[EDGE].brokers[2]
    settle(trial.admin(EDGE).create_topics([NewTopic(trial.other, 3, replica_assignment=[[1], [3], [2]])]))
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["edges"][EDGE]["bootstrap_servers"] = sandbox.edges[EDGE].brokers[0].bootstrap
    trial.write()
    config = load_config(trial.config, {})
    wait_for(lambda: trial.other in snapshot(config, EDGE, {}).topics, timeout=30, what="all leaders")
    known = snapshot(config, EDGE, {}).topics
    flows = {
        EdgePartition(EDGE, name, partition): LedgerRecord(0, known[name].topic_id, 0, 0, 0)
        for name in (trial.topic, trial.other)
        for partition in range(3)
    }
    watch = EdgeWatch(config, EDGE, lambda *_: "", discovers=False)
    probe = EdgeProbe(config, watch, lambda: flows)
    away.kill()
    try:
        wait_for(lambda: trial.other in snapshot(config, EDGE, {}).unanswered, timeout=60, what="a missing leader")
        assert snapshot(config, EDGE, known).topics == known
        began = time.monotonic()
        watch.ask()
        assert time.monotonic() - began < ASKED_S, "nobody waits for a leader that is known to be missing"
        probe.ask()
        seen = probe.snapshot
        assert EdgePartition(EDGE, trial.other, 1) not in seen.answer.ends
        assert len(seen.answer.ends) >= 3, seen
        assert EdgePartition(EDGE, trial.other, 0) in seen.answer.ends
        assert seen.logs is not None
        assert EdgePartition(EDGE, trial.other, 1) in seen.logs.unanswered
        assert seen.gaps == {}
    finally:
        away.start()
