"""Explains differences to an audit by backfills: records that they suppressed, and rows that a restate removed from a
table.

Invariant: explanations are limited to what the backfills' own records say. Only offsets of the restate count, and only
as many as were counted there. A restate counts from its commit on, which the table shows, even if the restate was
cancelled at that time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aggregator.audit.tally import AuditFinding
from aggregator.backfill.backfill_state import Backfill
from aggregator.backfill.ranges import difference, intersection, offset_count, offsets_of
from aggregator.backfill.request import Mode
from aggregator.coordinates import CentralPartition, EdgePartition, IncarnationRange


@dataclass(frozen=True, slots=True)
class Restate:
    """A restate of one flow's rows.

    Attributes:
        backfill: Its id.
        at_ms: When it was finished; None: it was not.
        segments: Segments that the restate replaces.
        removed: Rows that its commit takes out.
        mark: The position that a table has with its commit.
    """

    backfill: str
    at_ms: int | None
    segments: tuple[IncarnationRange, ...]
    removed: int
    mark: CentralPartition

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a restate."""
        ranges = [[at, *offsets] for at, offsets in self.segments]
        return {"backfill": self.backfill, "at_ms": self.at_ms, "ranges": ranges, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class BackfillEffects:
    """Holds what the backfills of a hub explain, by flow.

    Attributes:
        suppressed: Records that backfills into live topics kept at the edge.
        restates: Restates of rows of the flow, finished or not.
    """

    suppressed: dict[EdgePartition, int] = field(default_factory=Counter)
    restates: dict[EdgePartition, list[Restate]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, backfills: Iterable[Backfill]) -> "BackfillEffects":
        """Collect the suppressed records and the restates of a hub's backfills."""
        late = cls()
        for backfill in backfills:
            if backfill.plan.mode is Mode.MISSING:
                for source, entry in backfill.entries.items():
                    late.suppressed[source] = late.suppressed.get(source, 0) + entry.suppressed
            elif backfill.plan.mode is Mode.RESTATE:
                at_ms, mark = backfill.end.at_ms if backfill.end else None, backfill.plan.mark
                for one in backfill.plan.writes:
                    removed = backfill.removed.get(str(one.source), 0)
                    late.restates[one.source].append(Restate(backfill.plan.id, at_ms, one.segments, removed, mark))
        return late

    def marks(self) -> list[CentralPartition]:
        """The marks of all restates, sorted and each once."""
        return sorted({one.mark for some in self.restates.values() for one in some})


def explained(findings: Sequence[AuditFinding], restates: Iterable[Restate]) -> tuple[list[AuditFinding], int]:
    """The findings without the rows that restates took out, and the number of these rows.

    Args:
        findings: Findings of one flow.
        restates: Restates of the same flow, committed to its table.
    """
    known = list(restates)
    parts = [part for one in known for part in one.segments]

    def inside(finding: AuditFinding) -> tuple[Any, ...]:
        return intersection(
            finding.offsets, offsets_of(part for part in parts if part.incarnation == finding.incarnation)
        )

    gone = [one for one in findings if (one.kind, one.place) == ("missing", "lake")]
    count = sum(offset_count(inside(one)) for one in gone)
    if not count or count > sum(one.removed for one in known):
        return list(findings), 0
    left = [replace(one, offsets=difference(one.offsets, inside(one))) for one in gone]
    return [*(one for one in findings if one not in gone), *(one for one in left if one.offsets)], count
