"""kill -9 of the whole run, again and again, while records flow: every record once, in order, at central and lake."""

import signal
import time

import pytest

from tests.processes import kill_all, members, signal_each
from tests.trial import seeded, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

# Records of one edge per kill: what waits at the start, and what there is in the end.
BACKLOG = 1_000
TOTAL = 10_000
PHASES = ("start", "flow", "flow", "flow", "lake")


@pytest.mark.parametrize(
    "kills", [pytest.param(5, marks=pytest.mark.ci), pytest.param(50, marks=pytest.mark.timeout(3600))]
)
def test_kills_in_a_row(trial, kills):
    """Faults 1 and 21 (I1, I2, I4): killed while it starts, delivers or commits to the lake, it resumes by itself."""
    rng = seeded()
    phases = [*PHASES] * (kills // len(PHASES))
    rng.shuffle(phases)
    edges, backlog, total = ("eu", "us"), BACKLOG * kills, TOTAL * kills
    for edge in edges:
        trial.produce(edge, backlog)
    landed = []
    with trial.traffic(*edges, batch=4, pause_s=0.02, most=total - backlog) as produced:
        for phase in phases:
            arguments = rng.choice([(), ("--take-over",)])
            with trial.running(*arguments) as hub:
                _await_phase(trial, hub, phase, rng.random() * (sum(produced.values()) + len(edges) * backlog))
                time.sleep(rng.uniform(0, 0.5))
                assert hub.poll() is None, hub.log.read_text()
                doomed = members(hub)  # to find them takes as long as a record's way to central
                there = sum(produced.values()) + len(edges) * backlog
                signal_each(doomed, signal.SIGKILL)
                kill_all(hub)
            assert hub.returncode == -9
            landed.append((phase, sum(trial.central_count(edge) for edge in edges), there))
    print(landed)
    assert any(0 < at_central < there for _, at_central, there in landed), f"no kill while records flowed: {landed}"
    for edge in edges:
        trial.produce(edge, total - backlog - produced[edge])
    trial.drain()
    for edge in edges:
        trial.check_exactly_once(edge, total)


def _await_phase(trial, hub, phase, goal) -> None:
    at_central, in_lake = _ends(trial), trial.lake_version()
    reached = {
        "start": lambda: "epoch " in hub.log.read_text(),
        "flow": lambda: _ends(trial) > max(goal, at_central),
        "lake": lambda: trial.lake_version() > in_lake,
    }[phase]
    wait_for(lambda: hub.poll() is not None or reached(), timeout=120, what=f"the phase {phase}")


def _ends(trial) -> int:
    """How far the central copies have grown, markers included; cheap enough to be asked often."""
    return sum(trial.ends(f"{edge}.{trial.topic}") for edge in trial.sandbox.edges)
