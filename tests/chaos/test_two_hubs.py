"""One name, two hubs: exactly one writes, whoever is started, stopped, frozen or replaced."""

import signal

import pytest

from tests.processes import signal_all
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

EDGES = ("eu", "us")
STEP = 30


class Deliveries:
    """Produces a few records at a time and waits until a hub has delivered all of them."""

    def __init__(self, trial):
        self.trial = trial
        self.produced = 0

    def by(self, hub) -> None:
        for edge in EDGES:
            self.trial.produce(edge, STEP)
        self.produced += STEP

        def arrived() -> bool:
            assert hub.poll() is None, hub.log.read_text()
            return all(self.trial.central_count(edge) == self.produced for edge in EDGES)

        wait_for(arrived, timeout=120, what="the delivery")


def ends_with(hub, code: int, *words: str) -> None:
    """Wait for a hub's end; its code and its words are the contract."""
    assert hub.wait(90) == code, hub.log.read_text()
    for word in words:
        assert word in hub.log.read_text()


@pytest.mark.ci
def test_one_of_two_hubs_writes(trial):
    """Fault 18 (I1-I4): a second start is refused, takes over, stands by or replaces a frozen hub; losers exit 6."""
    deliveries = Deliveries(trial)
    with trial.running() as first:
        deliveries.by(first)
        refused = trial.run("run")
        assert refused.returncode == 6, refused.stderr
        assert f"another hub named {trial.hub} is running" in refused.stderr
        assert "--take-over" in refused.stderr
        deliveries.by(first)
        with trial.running("--take-over") as second:
            ends_with(first, 6, "another hub took over")
            deliveries.by(second)
            with trial.running("--standby") as third:
                wait_for(lambda: "standing by" in third.log.read_text(), timeout=90, what="the standby")
                deliveries.by(second)
                assert "epoch " not in third.log.read_text()
                second.terminate()
                ends_with(second, 0)
                deliveries.by(third)
                with trial.traffic(*EDGES) as flowing:
                    wait_for(lambda: trial.central_count("eu") > deliveries.produced, timeout=60, what="the flow")
                    signal_all(third, signal.SIGSTOP)
                trial.drain()
                signal_all(third, signal.SIGCONT)
                ends_with(third, 6, "another hub took over")
    for edge in EDGES:
        trial.check_exactly_once(edge, deliveries.produced + flowing[edge])
