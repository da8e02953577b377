"""The protocol under drawn schedules: it holds, and it stops to hold when any of its rules is removed.

A failing seed is printed with the environment that replays it.
"""

import os

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.protocol import protocol
from tests.simulation.schedule import SITUATIONS, Schedule

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "200"))
CHUNKS = 5
MUTANT_SCHEDULES = 3000


def violation(seed: int, situation: str, under_test) -> str:
    """What a schedule violates, or nothing."""
    try:
        Schedule(seed, SITUATIONS[situation], under_test).run()
    except AssertionError as error:
        return str(error) or type(error).__name__
    return ""


def drawn() -> list[tuple[str, range]]:
    """What to run: every situation's seeds in chunks, or the one that SIMULATION_SEED and SIMULATION_SITUATION name."""
    if "SIMULATION_SEED" in os.environ:
        seed = int(os.environ["SIMULATION_SEED"])
        return [(os.environ["SIMULATION_SITUATION"], range(seed, seed + 1))]
    each = -(-SCHEDULES // len(SITUATIONS) // CHUNKS)
    return [(name, range(chunk * each, (chunk + 1) * each)) for name in SITUATIONS for chunk in range(CHUNKS)]


@pytest.mark.parametrize(("situation", "seeds"), drawn())
def test_the_protocol_holds(situation, seeds):
    """I1, I4, conservation and progress in every schedule, on the real slot, epoch, planning, ledger and log code."""
    real = protocol()
    found = {seed: what for seed in seeds if (what := violation(seed, situation, real))}
    failed = [f"SIMULATION_SEED={seed} SIMULATION_SITUATION={situation!r}: {what}" for seed, what in found.items()]
    assert not failed, "\n".join(failed[:5])


@pytest.mark.mutation
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_rule_is_needed(mutant):
    """Without this rule some schedule delivers twice, loses, reorders, miscounts, or makes no progress."""
    without = protocol(mutant)
    assert any(violation(seed, mutant.situation, without) for seed in mutant.seeds(MUTANT_SCHEDULES)), (
        "the removal was not found"
    )
