"""The lake's commits under drawn schedules: rule G holds, and stops to hold when any part of it is removed."""

import logging

import pytest

from tests.simulation.lake import LakeCode, LakeSchedule
from tests.simulation.mutants import LAKE_MUTANTS

SCHEDULES = 500


@pytest.fixture(autouse=True)
def _quiet():
    """Conflicts and lost answers are the point here, and each is a line of the product's log."""
    logging.getLogger("copy.aggregator.lake").setLevel(logging.ERROR)


def violation(seed: int, code: LakeCode) -> str:
    """What a schedule violates, or nothing."""
    try:
        LakeSchedule(seed, code).run()
    except Exception as error:  # noqa: BLE001 - a driver that fails shows a missing rule, too
        return f"seed {seed}: {type(error).__name__} {error}"
    return ""


def test_rule_g_holds():
    """I2 and progress in every schedule of several drivers, crashes, lost answers and short reads."""
    code = LakeCode()
    found = [what for seed in range(SCHEDULES) if (what := violation(seed, code))]
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize("mutant", LAKE_MUTANTS, ids=lambda mutant: mutant.name)
def test_every_part_of_it_is_needed(mutant):
    """Without this part some schedule loses, doubles, removes what is committed, or fails."""
    without = LakeCode(mutant)
    assert any(violation(seed, without) for seed in range(SCHEDULES)), "the removal was not found"
