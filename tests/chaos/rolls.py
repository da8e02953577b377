"""What a hub is judged by after brokers were restarted."""

from dataclasses import replace

from tests.chaos.steady_load import EDGES
from tests.chaos.truth import Truth

START_S = 120.0


RECOVERY_S = 60.0


def judged(trial, *, lake: bool = True) -> None:
    """I1, I2, I4, of all that the edges have: nothing lost, doubled or reordered, at central and in the lake."""
    truth = Truth(trial)
    for edge in EDGES:
        truth.absorb(edge)
    verdict = truth.judge(set())
    print(verdict)
    assert (verdict if lake else replace(verdict, unlike=0)).clean
