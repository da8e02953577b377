"""Separate executor processes: the same result as on the local master, and one of them killed."""

import psutil
import pytest

from tests.processes import members
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def test_an_executor_is_killed_and_the_other_slot_goes_on(new_trial):
    """Fault 2 (I1-I4, I7): Spark runs the dead slot's task again in the same epoch; the other slot never notices. Then
    that one's Python worker dies alone.
    """
    trial = new_trial(slots=2, master="local-cluster[3,1,1024]")
    for edge in ("eu", "us"):
        trial.produce(edge, 5000)
    with trial.running() as hub, trial.traffic("eu", "us") as produced:
        wait_for(lambda: _delivers(trial, hub, "eu", 5000), timeout=150, what="delivery from eu")
        wait_for(lambda: _delivers(trial, hub, "us", 5000), timeout=60, what="delivery from us")
        slots = {edge: _slots_of(trial, hub, edge) for edge in ("eu", "us")}
        (_, executor), (other, _) = slots["eu"][0], slots["us"][0]
        wait_for(trial.lake, timeout=60, what="a commit of the lake, on the core that is free of slots")
        assert len({jvm.pid for found in slots.values() for _, jvm in found}) == 2, "two slots in two executors"
        at_kill = {edge: trial.central_count(edge) for edge in produced}
        executor.kill()
        executor.wait(20)
        for edge in ("us", "eu"):
            goal = at_kill[edge] + 500
            wait_for(lambda e=edge, n=goal: _delivers(trial, hub, e, n), timeout=120, what=f"delivery from {edge}")
        assert other.is_running(), "the other slot's worker went on"
        assert {jvm.pid for _, jvm in _slots_of(trial, hub, "eu")} != {executor.pid}
        other.kill()
        other.wait(20)
        at_kill = trial.central_count("us")
        wait_for(lambda: _delivers(trial, hub, "us", at_kill + 500), timeout=120, what="delivery by another worker")
    assert {body["epoch"] for body in trial.ledger().values()} == {0}, "no other epoch was needed"
    trial.drain("--master", "local")
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, 5000 + produced[edge])


def _delivers(trial, hub, edge, count) -> bool:
    assert hub.poll() is None, hub.log.read_text()
    return trial.central_count(edge) >= count


def _slots_of(trial, hub, edge) -> list[tuple[psutil.Process, psutil.Process]]:
    """Python workers of executors that read this edge, each with its executor's JVM."""
    port = int(trial.sandbox.edges[edge].bootstrap.split(":")[1])
    executors = [one for one in members(hub) if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline())]
    return [
        (worker, executor)
        for executor in executors
        for worker in executor.children(recursive=True)
        if any(c.raddr and c.raddr.port == port for c in worker.net_connections(kind="tcp"))
    ]
