"""The lake's commits under drawn schedules: rule G holds in both formats, and not when any part of it is removed."""

import logging
import os

import pytest

from tests.simulation.lake import FORMS, LakeCode, LakeSchedule
from tests.simulation.mutants import LAKE_MUTANTS

# Of each form.
SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "200")) // 10
MUTANT_SCHEDULES = 150
CASES = [(form, mutant) for form in FORMS for mutant in LAKE_MUTANTS if mutant.situation in ("mixed", form)]


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


@pytest.mark.parametrize("form", FORMS)
def test_rule_g_holds(form):
    """I2 and progress in every schedule of several drivers, crashes, lost answers and short reads."""
    code = LakeCode(form)
    found = [what for seed in range(SCHEDULES) if (what := violation(seed, code))]
    assert not found, "\n".join(found[:5])


@pytest.mark.mutation
@pytest.mark.parametrize(("form", "mutant"), CASES, ids=[f"{form}: {mutant.name}" for form, mutant in CASES])
def test_every_part_of_it_is_needed(form, mutant):
    """Without this part some schedule loses, doubles, removes what is committed, or fails."""
    without = LakeCode(form, mutant)
    assert any(violation(seed, without) for seed in range(MUTANT_SCHEDULES)), "the removal was not found"
