"""Backfills under drawn schedules: beside live drivers, killed, doubled, overlapping: everything once, nothing lost."""

import os

import pytest

from tests.simulation.backfill_mutants import MUTANTS
from tests.simulation.backfills import SITUATIONS, BackfillSchedule
from tests.simulation.protocol import protocol

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "200")) // 10
MUTANT_SCHEDULES = 300


def violation(seed: int, situation: str, under_test, **options) -> str:
    """What a schedule violates, or nothing."""
    try:
        BackfillSchedule(seed, SITUATIONS[situation], under_test, **options).run()
    except AssertionError as error:
        return str(error) or type(error).__name__
    return ""


@pytest.mark.parametrize("situation", SITUATIONS)
def test_backfills_hold(situation):
    """I1 and progress in every schedule: whatever was before the start comes once, whoever dies on the way."""
    real = protocol()
    found = {seed: what for seed in range(SCHEDULES) if (what := violation(seed, situation, real))}
    assert not found, "\n".join(f"seed {seed} of {situation}: {what}" for seed, what in list(found.items())[:5])


@pytest.mark.mutation
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_rule_is_needed(mutant):
    """Without it some schedule delivers twice, loses, or makes no progress."""
    without = protocol(mutant)
    situation = mutant.situation if mutant.situation in SITUATIONS else "late"
    assert any(violation(seed, situation, without) for seed in mutant.seeds(MUTANT_SCHEDULES)), (
        "the removal was not found"
    )


@pytest.mark.parametrize("forgets", ["other backfills", "what was fenced"])
def test_what_others_wrote_is_seen_after_they_were_fenced(forgets):
    """Without looking at other backfills, or looking before their ids are fenced, some schedule delivers twice."""
    real = protocol()
    assert any(violation(seed, "late", real, forgets=forgets) for seed in range(1500)), "the removal was not found"


def test_what_is_left_out_is_told():
    """Where a restate's slots tell nothing, some schedule reads a record of which there is neither copy nor notice."""
    real = protocol()
    found = (violation(seed, "late, truncated", real, forgets="what is left out") for seed in range(100))
    assert any("told" in what for what in found), "the removal was not found"
