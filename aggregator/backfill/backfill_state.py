"""One backfill as central knows it: its plan, the person who asked for it, how far it has come, and its state.

Invariant: pure. The state follows from the records of a backfill; nothing stores it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.ranges import Ranges, difference, intersection, offset_count, offsets_of
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.state.ledger import LedgerRecord

_COUNTED = ("delivered", "dead", "suppressed")


class BackfillState(StrEnum):
    """Names the states of a backfill."""

    UNFINISHED = "unfinished"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Signed:
    """Records who did something, and when."""

    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class End:
    """Records how a backfill ended.

    Attributes:
        at_ms: When it ended, in milliseconds since 1970.
        lost: Offsets of the plan that could not be read any more, by flow.
    """

    at_ms: int
    lost: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Backfill:
    """One backfill, as central knows it.

    Attributes:
        plan: What it writes.
        started: The person who asked for it, and the time.
        rate: Records a second at most; None: no bound.
        cancelled: The person who cancelled it, and the time.
        end: The record of its end.
        entries: Its ledger records.
        running: Whether a driver holds the lease for it.
        removed: Rows that a restate takes out of tables, because the policy lets them pass no more, by flow.
        policies: Policies with which a restate began, by edge topic.
    """

    plan: Plan
    started: Signed
    rate: float | None = None
    cancelled: Signed | None = None
    end: End | None = None
    entries: Mapping[EdgePartition, LedgerRecord] = field(default_factory=dict)
    running: bool = False
    removed: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> BackfillState:
        """The state of the backfill."""
        if self.end is not None:
            return BackfillState.FINISHED
        if self.cancelled is not None:
            return BackfillState.CANCELLED
        return BackfillState.RUNNING if self.running else BackfillState.UNFINISHED

    def passed(self, one: PartitionPlan) -> Ranges:
        """Offsets of a partition's plan that were written, or decided."""
        return difference(self._behind(one), self.lost(one))

    def lost(self, one: PartitionPlan) -> Ranges:
        """Offsets of a partition's plan that the edge no longer had when they were to be read."""
        entry = self.entries.get(one.source)
        return intersection(self._behind(one), offsets_of(entry.unread)) if entry else ()

    def _behind(self, one: PartitionPlan) -> Ranges:
        entry = self.entries.get(one.source)
        if entry is None or entry.topic_id != one.topic_id:
            return ()
        return intersection(offsets_of(one.segments), [OffsetRange(0, entry.next_offset)])

    @property
    def offsets(self) -> int:
        """Count the offsets of the whole plan."""
        return sum(one.offsets for one in self.plan.writes)

    @property
    def behind(self) -> int:
        """Offsets of the plan that need nothing more: read, lost, or in the end written by another backfill."""
        return self.offsets if self.end else sum(offset_count(self._behind(one)) for one in self.plan.writes)

    def counts(self) -> dict[str, int]:
        """How many of the read records were delivered, dead and suppressed."""
        return {name: sum(getattr(entry, name) for entry in self.entries.values()) for name in _COUNTED}

    def counts_of(self, one: PartitionPlan) -> dict[str, int]:
        """What the ledger has counted for one partition of the plan."""
        entry = self.entries.get(one.source)
        return {name: getattr(entry, name) if entry else 0 for name in _COUNTED}

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a backfill."""
        return {
            "id": self.plan.id,
            "state": self.state.value,
            "mode": self.plan.mode.value,
            "into": self.plan.into or None,
            "by": self.started.by,
            "at_ms": self.started.at_ms,
            "rate": self.rate,
            "offsets": self.offsets,
            "offsets_done": self.behind,
            **self.counts(),
            "cancelled_by": self.cancelled.by if self.cancelled else None,
            "lost": {
                flow: [list(one) for one in ranges] for flow, ranges in (self.end.lost if self.end else {}).items()
            },
        }
