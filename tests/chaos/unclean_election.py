"""An edge elects a leader that lacks records: every one that was lost is in a named gap, under a hub that reads on."""

import contextlib
from collections import Counter

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tests.chaos.log_lines import told
from tests.chaos.rolls import START_S
from tests.chaos.supervisor import supervised
from tests.trial import read_all, settle, wait_for


def open_gaps(trial) -> list[dict]:
    """What `gaps list` calls open."""
    return [gap for gap in told(trial, "gaps", "list") if gap["state"] == "open"]


def log_of(cluster, topic: str) -> list:
    """What a topic holds; nothing while a leader does not know yet that it is one."""
    with contextlib.suppress(KafkaException):
        return read_all(cluster.bootstrap, topic)
    return []


def unclean_election(trial, *, grows_again: bool) -> None:
    """The whole of it, with a hub that runs; the broker that led first comes back as a follower."""
    eu = trial.sandbox.edges["eu"]
    leader, follower = eu.brokers[:2]
    two = [[leader.node, follower.node]] * 3
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    settle(trial.admin("eu").create_topics([NewTopic(trial.topic, 3, replica_assignment=two, config=config)]))
    trial.create("us")
    try:
        trial.produce("us", 60)
        trial.produce("eu", 60)
        with supervised(trial, "--only", "replicate"):
            wait_for(lambda: trial.central_count("eu") == 60, timeout=START_S, what="the first orders")
            follower.kill()
            wait_for(lambda: len(eu.lagging()) >= 3, timeout=30, what="a follower out of sync")
            trial.produce("eu", 60)
            wait_for(lambda: trial.central_count("eu") == 120, timeout=60, what="what the leader alone had")
            before = read_all(eu.bootstrap, trial.topic)
            leader.kill()
            follower.start()
            wait_for(lambda: eu.leader(trial.topic, 0) == follower, timeout=60, what="the unclean election")
            left = wait_for(lambda: log_of(eu, trial.topic), timeout=60, what="an answer of the new leader")
            ends = Counter(m.partition() for m in left)
            assert ends == Counter({0: 20, 1: 20, 2: 20}), "nothing was cut: the fault did not hit"
            more = 150 if grows_again else 30
            trial.produce("eu", more)
            wait_for(lambda: len(open_gaps(trial)) == 3, timeout=60, what="three gaps")
            leader.start()
            eu.wait_in_sync()
        gaps = open_gaps(trial)
        print(gaps)
        assert {(gap["partition"], gap["kind"], gap["from"]) for gap in gaps} == {
            (p, "truncated", 20) for p in range(3)
        }
        assert trial.central_count("eu") == len(before) == 120
        told(trial, "gaps", "accept", "--edge", "eu", "--topic", trial.topic, "--reason", "unclean election", "--yes")
        trial.drain()
        found = Counter(trial.origins("eu"))
        old = {(p, 0, o) for p in range(3) for o in range(40)}
        new = {(m.partition(), 1, m.offset()) for m in read_all(eu.bootstrap, trial.topic) if m.offset() >= 20}
        assert found == Counter(old | new), "lost, doubled or invented"
        assert len(new) == more
    finally:
        trial.close()
        eu.start()
