"""The rules that backfills rest on, each removed: a schedule of backfills must find it."""

from tests.simulation.mutants import MUTANTS as ALL
from tests.simulation.protocol import Mutant

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
        [(READERS, "epoch > newest and self._hold_if_truncated_ahead(flow, newest)", "False")],
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
                "letter_copy(self.hub, record.key, record.value) if tp[0] in self.letters else record.copy",
                "record.copy",
            )
        ],
        situation=INTERNAL,
    ),
]
