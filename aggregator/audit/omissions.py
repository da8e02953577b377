"""Describes what an audit did not compare, and why: at the edge, at central, in the lake, or of a whole flow.

Invariant: pure. What was not compared is never called equal. The omission is final where nothing is left to compare, or
nothing is configured. Otherwise a person has to act, and the audit is not OK.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.audit.tally import Sums
from aggregator.coordinates import IncarnationRange, OffsetRange
from aggregator.state.ledger import LedgerRecord

EDGE, CENTRAL, LAKE, FLOW = "edge", "central", "lake", "flow"
# The kinds of omissions of records that wait at the edge.
WAITING = ("held", "not_read")


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that was not compared.

    Attributes:
        place: `edge`, `central`, `lake`, or `flow`: nothing of it.
        kind: One word; a contract.
        reason: The same as a sentence.
        offsets: Where, at the edge; empty where nobody knows.
        records: How many, None where nobody knows.
        final: Nothing is left or configured to be compared, whatever anybody does.
    """

    place: str
    kind: str
    reason: str
    offsets: tuple[OffsetRange, ...] = ()
    records: int | None = None
    final: bool = False

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`; ranges are [start, end)."""
        return {
            "place": self.place,
            "kind": self.kind,
            "reason": self.reason,
            "offsets": [[one.start, one.end] for one in self.offsets],
            "records": self.records,
            "final": self.final,
        }


@dataclass(frozen=True, slots=True)
class AuditWindow:
    """What was asked for of one flow, and what its edge has.

    Attributes:
        log: [first offset, last stable offset) at the edge.
        window: Offsets that were asked for.
        bounded: Somebody named the end of the window.
        held: Why the hub does not read the flow, as it last said; empty: it reads.
    """

    log: OffsetRange
    window: OffsetRange
    bounded: bool = False
    held: str = ""


def at_edge(asked: AuditWindow, entry: LedgerRecord, segments: Sequence[IncarnationRange]) -> list[Omission]:
    """The offsets that the edge no longer has, and those that the hub has not read yet.

    Args:
        asked: What was asked for.
        entry: The flow's ledger record.
        segments: What was compared.
    """
    found, (first, end), window = [], asked.log, asked.window
    if window.start < min(first, entry.next_offset):
        gone = OffsetRange(window.start, min(first, entry.next_offset))
        found.append(Omission(EDGE, "gone", "the edge no longer has them", (gone,), final=True))
    oldest = min((one.incarnation for one in segments), default=entry.incarnation)
    if oldest > 0:
        why = "the edge no longer has an earlier life of the topic"
        found.append(Omission(EDGE, "former_life", why, final=True))
    waits = OffsetRange(max(entry.next_offset, window.start), min(end, window.end))
    if waits.start < waits.end:
        why = asked.held or "the hub has not read them yet"
        kind = "held" if asked.held else "not_read"
        # If nobody named the window's end, it ends where the hub stands, unless the hub does not read the flow.
        final = not (asked.held or asked.bounded)
        found.append(Omission(EDGE, kind, why, (waits,), len(waits), final))
    return found


def at_central(sums: Sums, suppressed: int, *, in_lake: bool) -> list[Omission]:
    """The records at central about which nothing can be told any more.

    Args:
        sums: Counts of the flow.
        suppressed: Absent records that are explained by their number.
        in_lake: What central has expired is looked for in the lake.
    """
    expired = 0 if in_lake else sums.expired
    counts = (
        ("expired", expired, "central's retention deleted them; whether they had arrived cannot be told"),
        (
            "compacted",
            sums.compacted,
            "central's compaction may have removed them; whether they arrived cannot be told",
        ),
        ("suppressed", suppressed, "they are as many as were suppressed, which are known by their number only"),
        (
            "never_read",
            sums.never_read,
            "they lie before the flow's start, or behind a gap that came back: aggregator backfill plan",
        ),
    )
    return [Omission(CENTRAL, kind, why, (), count, final=True) for kind, count, why in counts if count]


def in_table(sums: Sums) -> list[Omission]:
    """The records of a flow's table about which nothing can be told any more.

    Args:
        sums: Counts of the flow.
    """
    counts = (
        ("compacted", sums.compacted, "central no longer has them, so that nobody can tell whether the table should"),
        ("restated", sums.restated, "they are as many as restates took out, which are known by their number only"),
    )
    return [Omission(LAKE, kind, why, (), count, final=True) for kind, count, why in counts if count]


NO_TABLE = Omission(LAKE, "no_lake", "no table is configured for it", final=True)
RECREATED = "the edge has another topic of this name, or none: there is nothing left to compare"
