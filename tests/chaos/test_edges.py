"""One edge is cut off or dies: it is named and comes back by itself, and the other never notices."""

import signal
import threading
import time

import pytest

from tests.chaos.promptness import keeps_flowing, state_of
from tests.chaos.proxy import DOWN, flapping
from tests.processes import signal_all
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

FAULT_S = 10.0
RECOVERY_S = 30.0
# Three beats and two seconds by central's stamps, and two of a machine that is busy with all the rest.
NAMED_S = 5.0 + 2.0
# What the command itself needs there to start, and to give a silent broker up.
ANSWERED_S = 20.0
BACKLOG = 60_000


class Asked(threading.Thread):
    """Asks for an edge's state beside the test."""

    def __init__(self, trial, edge: str) -> None:
        super().__init__()
        self._ask = lambda: state_of(trial, edge)
        self.state, self.took_s = "", float("inf")
        self.start()

    def run(self) -> None:
        self.state, self.took_s = self._ask()


def named_after(trial, edge: str, fault_s: float) -> float:
    """Seconds from a fault to the hub's word that an edge does not answer."""
    return next(at_s for at_s, told in trial.told_states(edge) if told == "UNREACHABLE" and at_s > fault_s) - fault_s


def test_an_edge_that_is_cut_off_is_named_and_comes_back(trial, lines, arrivals):
    """Fault 5 (I1, I4, I7, I8): reset, then silent one way, then flapping; the other edge flows, once and in order."""
    proxy = lines.proxies["eu"]
    lines.lead(trial, "eu")
    with trial.running("--only", "replicate") as hub, trial.traffic("eu", "us") as produced:
        for edge in produced:
            arrivals[edge].reach(500, hub=hub, timeout=120)
        for name, fault, proof in (
            ("reset", proxy.cut, "refused"),
            ("silent", lambda: proxy.silence(DOWN), "silent-down"),
        ):
            before, fault_s = proxy.seen[proof], time.time()
            fault()
            asked = Asked(trial, "eu")
            flowed = keeps_flowing(arrivals["us"], produced, "us", for_s=FAULT_S, hub=hub)
            held = produced["eu"]
            assert proxy.seen[proof] > before, "the fault did not hit"
            assert arrivals["eu"].count() < held - 500, "nothing waited behind the cut: the fault did not hit"
            asked.join(30)
            proxy.heal()
            took = arrivals["eu"].reach(held, hub=hub, timeout=RECOVERY_S)
            assert asked.state == "UNREACHABLE"
            assert asked.took_s < ANSWERED_S
            named_s = named_after(trial, "eu", fault_s)
            assert named_s < NAMED_S, "named too late"
            wait_for(lambda: state_of(trial, "eu")[0] == "UP", timeout=20, what="the state UP")
            print(f"{name}: named in {named_s:.1f} s, recovered in {took} s, the other edge {flowed}")
        before = proxy.seen["reset"]
        with flapping(proxy):
            flowed = keeps_flowing(arrivals["us"], produced, "us", for_s=FAULT_S, hub=hub)
        assert proxy.seen["reset"] > before + 3, "the fault did not hit"
        took = arrivals["eu"].reach(produced["eu"], hub=hub, timeout=RECOVERY_S)
        print(f"flapping: recovered in {took} s, the other edge {flowed}")
    trial.drain("--only", "replicate")
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)
    assert {body["incarnation"] for body in trial.ledger().values()} == {0}


def test_an_edge_broker_is_killed_while_it_is_read(trial, arrivals):
    """Fault 3 (I1, I4, I7, I8): kill -9 three times, each time started again; the other edge flows."""
    broker = trial.sandbox.edges["eu"]
    trial.produce("eu", BACKLOG)
    landed, total = [], BACKLOG
    with trial.running("--only", "replicate") as hub, trial.traffic("us") as produced:
        for edge in ("us", "eu"):
            arrivals[edge].reach(1, hub=hub, timeout=120)
        for _ in range(3):
            signal_all(hub, signal.SIGSTOP)  # or it has read all as soon as the last is acknowledged
            trial.produce("eu", BACKLOG)
            total += BACKLOG
            pid = broker.pid
            signal_all(hub, signal.SIGCONT)
            time.sleep(0.05)
            broker.kill()
            assert not broker.pid
            flowed = keeps_flowing(arrivals["us"], produced, "us", for_s=3.0, hub=hub)
            landed.append(total - arrivals["eu"].count())
            broker.start()
            assert broker.pid not in {None, pid}
            took = arrivals["eu"].reach(total, hub=hub, timeout=RECOVERY_S)
            print(f"killed with {landed[-1]} records to go: recovered in {took} s, the other edge {flowed}")
    assert max(landed) > 0, "every kill came when all was read: the fault did not hit"
    trial.drain("--only", "replicate")
    trial.check_exactly_once("eu", total, lake=False)
    trial.check_exactly_once("us", produced["us"], lake=False)


def test_an_edge_whose_name_is_not_known(trial, arrivals):
    """Fault 5 (I7, I8): a name that no resolver knows is an edge that is away; the other edge flows."""
    trial.settings["edges"]["eu"]["bootstrap_servers"] = "edge.invalid:9092"
    trial.write()
    with trial.running("--only", "replicate") as hub, trial.traffic("us") as produced:
        arrivals["us"].reach(1, hub=hub, timeout=120)
        flowed = keeps_flowing(arrivals["us"], produced, "us", for_s=FAULT_S, hub=hub)
        state, took_s = state_of(trial, "eu")
    print(f"`status` took {took_s} s, the other edge {flowed}")
    assert state == "UNREACHABLE"
    assert took_s < ANSWERED_S
    trial.drain("--only", "replicate", expect=4)
    trial.check_exactly_once("us", produced["us"], lake=False)
