"""Backfills under drawn schedules: beside live drivers, killed, doubled, overlapping: everything once, nothing lost."""

import os

import pytest

from tests.simulation.backfills import SITUATIONS, BackfillSchedule
from tests.simulation.mutants import MUTANTS as ALL
from tests.simulation.protocol import Mutant, protocol

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "200")) // 10
MUTANT_SCHEDULES = 300
SLOT, FLOW, READERS = (
    "aggregator.replicate.slot.slot",
    "aggregator.replicate.flow.flow",
    "aggregator.replicate.slot.readers",
)
SETTLEMENT = "aggregator.replicate.leadership.settlement"
LEDGER_SETTLEMENT = "aggregator.replicate.leadership.ledger_settlement"
EPOCH = "aggregator.replicate.epoch.opening"
INTERNAL = "late, internal markers dropped"
MUTANTS = [
    *(mutant for mutant in ALL if mutant.name.startswith(("A: ", "F: no rewind", "B: reading"))),
    Mutant("a backfill takes whatever comes", [(SLOT, "for piece in flow.pieces(chunk):", "for piece in [chunk]:")]),
    Mutant(
        "a backfill reads behind a cut that the live flow has not met",
        [(READERS, "epoch > newest and self._is_truncated_ahead(flow, newest)", "False")],
        situation="late, cut",
    ),
    Mutant(
        "a backfill that has all waits for its edge to say so",
        [(READERS, "or flow.is_done or confirmed)", "or confirmed)")],
    ),
    Mutant(
        "a flow that stands still goes on behind what it stands before",
        [
            (
                FLOW,
                "            if not self.is_readable:\n                return\n            known",
                "            known",
            )
        ],
        situation="late, registry away",
    ),
    Mutant(
        "settling: what a backfill left undecided is nobody's",
        [(SETTLEMENT, "bool(copy.backfill) == self.backfills else None", "not copy.backfill else None")],
        situation="late, markers dropped",
    ),
    Mutant(
        "settling: what another backfill left undecided is judged by one's own ledger",
        [
            (
                SETTLEMENT,
                "self._ledgers[backfill] = self._central.read_backfill_ledger(backfill)",
                'self._ledgers[backfill] = self._ledgers[""]',
            )
        ],
        situation="late, markers dropped",
    ),
    Mutant(
        "settling the ledger: dead letters and resolutions of a backfill are no evidence",
        [(LEDGER_SETTLEMENT, "if flow.backfill or entry.dead > (known.dead if known else 0):", "if False:")],
        situation=INTERNAL,
        seed=1331,
    ),
    Mutant(
        "settling the ledger: a backfill's is not settled",
        [(EPOCH, "    settle_ledger(central, found, epoch, owner)\n", "")],
        situation=INTERNAL,
    ),
    Mutant(
        "settling the ledger: what a live flow may hide is taken for aborted",
        [(LEDGER_SETTLEMENT, "    if evidence.hiding:\n", "    if False:\n")],
        situation=INTERNAL,
        seed=21441,
    ),
    Mutant(
        "settling: a letter or resolution is nobody's",
        [
            (
                SETTLEMENT,
                "letter_copy(self.hub, record.key, record.value) if at[0] in self.letters else record.copy",
                "record.copy",
            )
        ],
        situation=INTERNAL,
    ),
]


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
