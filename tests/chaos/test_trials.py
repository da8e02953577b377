"""Mixed faults, drawn by a seed: `make chaos TRIALS=300 SEED=1 TABLE=docs/trials.md`; one trial without these."""

import os
import random
from pathlib import Path

import pytest

from tests.chaos.mixed import MixedTrial
from tests.chaos.table import HEAD, keep, kept, recoveries, row

TRIALS = int(os.environ.get("TRIALS") or 1)
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(600 * TRIALS)]


@pytest.mark.ci
def test_what_topics_go_through(clusters, lines, tmp_path):
    """Faults 10, 14, 15 and 16 under traffic (I1, I2, I4, I6): recreated, widened, truncated, poisoned; all named."""
    faults = ("recreate topic", "add partition", "truncate, accept", "poison")
    outcome = MixedTrial(clusters, lines, tmp_path / "topics", 1, faults).run()
    print(row(outcome))
    assert outcome.clean
    assert (outcome.verdict.dead, outcome.verdict.gap > 0) == (20, True)


def test_mixed_faults(clusters, lines, tmp_path):
    """I1, I2, I4, I6, I8 after any mix of faults; each trial's seed is printed, and replays its draw."""
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(2**32))
    table = Path(os.environ["TABLE"]) if os.environ.get("TABLE") else None
    done = {seed for seed, outcome in kept(table).items() if outcome.clean} if table else set()
    outcomes = []
    for line in HEAD:
        print(line)
    for seed in (seed for seed in range(first, first + TRIALS) if seed not in done):
        print(f"SEED={seed}", flush=True)
        trial = MixedTrial(clusters, lines, tmp_path / str(seed), seed)
        try:
            trial.run()
        except AssertionError as failure:  # the others are worth running
            hit = [*trial.outcome.faults, "the end"][len(trial.outcome.recovered_s)]
            trial.outcome.failure = f"{hit}: {failure}".partition("\n")[0][:200]
            print(failure)
        outcomes.append(trial.outcome)
        print(row(trial.outcome), flush=True)
        if table:
            keep(table, trial.outcome)
    for line in recoveries(outcomes):
        print(line)
    assert not [outcome.seed for outcome in outcomes if not outcome.clean]
