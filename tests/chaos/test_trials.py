"""Mixed faults, drawn by a seed: `make chaos TRIALS=300 SEED=1 TABLE=<file>`; one trial without these."""

import itertools
import os
import random
from pathlib import Path

import pytest

from tests.chaos.lines import lined
from tests.chaos.mixed_trial import EDGES, Ground, MixedTrial, Outcome, sizes
from tests.chaos.table import HEAD, keep, kept, recoveries, row

PER_HUB = 10
TRIALS = int(os.environ.get("TRIALS") or 1)
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(600 * TRIALS)]


@pytest.mark.ci
def test_what_topics_go_through(clusters, lines, tmp_path):
    """Faults 10, 14, 15 and 16 under traffic (I1, I2, I4, I6): recreated, widened, truncated, poisoned; all named."""
    faults = ("recreate topic", "add partition", "truncate, accept", "poison")
    with Ground(clusters, lines, tmp_path / "topics", trials=1, slots=1) as ground:
        outcome = MixedTrial(ground, 1, faults).run()
    print(row(outcome))
    assert outcome.clean
    assert (outcome.verdict.dead, outcome.verdict.gap > 0) == (20, True)


def test_mixed_faults(tmp_path):
    """I1, I2, I4, I6, I8 after any mix of faults; each trial's seed is printed, and replays its draw."""
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(2**32))
    table = Path(os.environ["TABLE"]) if os.environ.get("TABLE") else None
    done = {seed for seed, outcome in kept(table).items() if outcome.clean} if table else set()
    waiting = sorted((seed for seed in range(first, first + TRIALS) if seed not in done), key=_order)
    outcomes = []
    for line in HEAD:
        print(line)
    for brokers, seeds in itertools.groupby(waiting, sizes):
        folder = tmp_path / ("-".join(brokers) or "single")
        with lined(folder / "clusters", EDGES, brokers) as (clusters, lines):
            for outcome in _campaign(clusters, lines, folder, list(seeds)):
                outcomes.append(outcome)
                if table:
                    keep(table, outcome)
    for line in recoveries(outcomes):
        print(line)
    assert not [outcome.seed for outcome in outcomes if not outcome.clean]


def _order(seed: int) -> tuple[list[str], int]:
    """One after another what runs on the same clusters."""
    return sorted(sizes(seed)), seed


def _campaign(clusters, lines, folder, waiting: list[int]):
    """The outcomes of these seeds, on as few hubs as it takes."""
    while waiting:
        trials, slots = min(PER_HUB, len(waiting)), random.Random(waiting[0]).choice((1, 2))
        with Ground(clusters, lines, folder / str(waiting[0]), trials=trials, slots=slots) as ground:
            for _ in range(trials):
                outcome = _attempt(ground, waiting.pop(0))
                yield outcome
                if not outcome.clean:  # the others are worth running, on a hub that nothing clings to
                    break


def _attempt(ground: Ground, seed: int) -> Outcome:
    print(f"SEED={seed}", flush=True)
    trial = MixedTrial(ground, seed)
    try:
        trial.run()
    except AssertionError as failure:
        hit = [*trial.outcome.faults, "the end"][len(trial.outcome.recovered_s)]
        trial.outcome.failure = f"{hit}: {failure}".partition("\n")[0][:200]
        print(failure)
    print(row(trial.outcome), flush=True)
    return trial.outcome
