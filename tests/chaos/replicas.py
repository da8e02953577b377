"""Faults of a mixed trial that only a cluster of three brokers can go through.

Invariant: each asserts that it hit: a leader or a controller has moved, or none could; and leaves all replicas in sync.
"""

import contextlib
import time

from tests.trial import wait_for


def roll(trial, _edge: str) -> float:
    """Each of three brokers in turn, by a controlled shutdown; none of them leads while it is stopped."""

    def leads_no_more(broker) -> None:
        assert _leader(trial) not in {None, broker}

    trial.replicated.roll(leads_no_more)
    return time.monotonic()


def kill_leader(trial, _edge: str) -> float:
    """SIGKILL of the leader of a data partition."""
    return _lose(trial, lambda: _leader(trial))


def lose_controller(trial, _edge: str) -> float:
    """SIGKILL of the broker that leads the quorum."""
    return _lose(trial, trial.replicated.controller)


def lose_most(trial, _edge: str) -> float:
    """SIGKILL of two brokers of three: what is left is fewer than `min.insync.replicas`."""
    doomed = trial.rng.sample(trial.replicated.brokers, 2)
    feed = trial.feeds.get(trial.replicated.name)  # its producer would give up an edge that takes nothing for a minute
    with feed.paused() if feed else contextlib.nullcontext():
        for broker in doomed:
            kill(broker)
        time.sleep(trial.rng.uniform(2, 20))
        assert [broker.pid is None for broker in trial.replicated.brokers].count(True) == len(doomed)
        for broker in doomed:
            broker.spawn()
        _whole_again(trial)
    return time.monotonic()


def kill(broker) -> None:
    """SIGKILL of a broker, or of all that a cluster has."""
    pid = broker.pid
    assert pid is not None
    broker.kill()
    assert broker.pid is None


def _lose(trial, office) -> float:
    """Kill the broker that holds an office until another one does, and at times longer than a transaction lasts."""
    broker = office()
    kill(broker)
    wait_for(lambda: office() not in {None, broker}, timeout=60, what="a successor")
    time.sleep(trial.rng.choice((0, 5, 20)))
    broker.spawn()
    _whole_again(trial)
    return time.monotonic()


def _whole_again(trial) -> None:
    trial.replicated.wait_ready()
    trial.replicated.wait_in_sync()


def _leader(trial):
    """Who leads a partition of the data that the replicated cluster holds."""
    at_central = trial.replicated is trial.trial.sandbox.central
    return trial.replicated.leader(f"eu.{trial.trial.topic}" if at_central else trial.trial.topic, 0)


REPLICATED = {
    "roll": roll,
    "kill leader": kill_leader,
    "lose controller": lose_controller,
    "too few replicas": lose_most,
}
