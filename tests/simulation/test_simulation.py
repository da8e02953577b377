"""The protocol under drawn schedules: it holds, and it stops to hold when any of its rules is removed.

A failing seed is printed with the environment that replays it.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.protocol import protocol
from tests.simulation.schedule import SITUATIONS, Schedule

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "5000"))
CHUNK = 50
MUTANT_SCHEDULES = 3000


def violation(seed: int, situation: str, under_test) -> str:
    """What a schedule violates, or nothing."""
    try:
        Schedule(seed, SITUATIONS[situation], under_test).run()
    except AssertionError as error:
        return str(error) or type(error).__name__
    return ""


def violations(situation: str, first: int, count: int) -> list[str]:
    """Replayable sentences of all seeds of a chunk that fail."""
    real = protocol()
    found = [(seed, violation(seed, situation, real)) for seed in range(first, first + count)]
    return [f"SIMULATION_SEED={seed} SIMULATION_SITUATION={situation!r}: {what}" for seed, what in found if what]


def test_the_protocol_holds():
    """I1, I4, conservation and progress in every schedule, on the real slot, epoch, planning, ledger and log code."""
    if "SIMULATION_SEED" in os.environ:
        seed, situation = int(os.environ["SIMULATION_SEED"]), os.environ["SIMULATION_SITUATION"]
        assert not violation(seed, situation, protocol())
        return
    each = -(-SCHEDULES // len(SITUATIONS))
    chunks = [(name, first, min(CHUNK, each - first)) for name in SITUATIONS for first in range(0, each, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = [line for lines in pool.map(violations, *zip(*chunks, strict=True)) for line in lines]
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_rule_is_needed(mutant):
    """Without this rule some schedule delivers twice, loses, reorders, miscounts, or makes no progress."""
    without = protocol(mutant)
    assert any(violation(seed, mutant.situation, without) for seed in range(MUTANT_SCHEDULES)), (
        "the removal was not found"
    )
