"""Sums a plan up in one sentence: how much a run would add and change, what it would hold, and what is unknown.

Invariant: pure. The counts are those of the plan's lines, and everything is counted once.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from aggregator.count_text import format_count
from aggregator.plan.actions import CREATE, DEAD, REFUSED, REGISTER, UNKNOWN, WIDEN_TABLE, WIDEN_TOPIC

if TYPE_CHECKING:
    from aggregator.plan.run_plan import HubPlan

ADDS = {"topic": CREATE, "schema": REGISTER, "table": CREATE}
CHANGES = {"topic": WIDEN_TOPIC, "table": WIDEN_TABLE}


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts what a run would add, change and hold.

    Attributes:
        add: Things that a run would make, by kind.
        change: Things that it would widen, by kind.
        settings: Settings that `plan --apply` would give to topics.
        held: What it would not begin with, by kind: partitions to read, schemas to register, tables to fill.
        dead: Edge topics all of whose records that were looked at would be dead letters.
        waiting_records: Of the edges that answer, at most.
        unknown: What could not be asked.
    """

    add: dict[str, int]
    change: dict[str, int]
    settings: int
    held: dict[str, int]
    dead: int
    waiting_records: int
    unknown: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a summary."""
        total = {"held": sum(self.held.values()), "held_by": self.held}
        return asdict(self) | total | {"unknown": list(self.unknown)}

    def lines(self) -> list[str]:
        """The lines that sum a plan up, which are shown before it."""
        head = f"{sum(self.add.values()):,} to add, {sum(self.change.values()):,} to change"
        parts = [
            _counts_text("to add: ", self.add),
            _counts_text("to change: ", self.change),
            f"{format_count(self.settings, 'setting')} for --apply" if self.settings else "",
            f"{format_count(self.waiting_records, 'record')} waiting, at most" if self.waiting_records else "",
            _counts_text("would stand still: ", self.held),
            f"{format_count(self.dead, 'topic')} of nothing but dead letters" if self.dead else "",
        ]
        unknown = f"; more is unknown: {', '.join(self.unknown)}" if self.unknown else ""
        told = "; ".join(part for part in parts if part)
        return [f"{head}{unknown}", told] if told else [f"{head}{unknown}"]


def plan_summary(plan: "HubPlan") -> Summary:
    """Count what a plan adds, changes and holds."""
    schemas = {(one.subject, one.text): one.action for one in plan.schemas if one.text}
    actions = {
        "topic": [one.action for one in plan.topics],
        "schema": list(schemas.values()),
        "table": [one.action for one in plan.tables],
    }
    held = {
        "partition": sum(len(one.held) for one in plan.flows),
        "schema": _count([one.action for one in plan.schemas], REFUSED),
        "table": _count(actions["table"], REFUSED),
    }
    dead = {(one.edge, one.topic) for one in plan.flows if one.dead}
    dead |= {(one.edge, one.topic) for one in plan.schemas if one.action == DEAD}
    foreign_clusters = {one.name for one in plan.clusters if one.why}
    stores = [f"table {one.table}" for one in plan.tables if one.action == UNKNOWN]
    return Summary(
        {kind: _count(actions[kind], action) for kind, action in ADDS.items()},
        {kind: _count(actions[kind], action) for kind, action in CHANGES.items()},
        sum(len(given) for given in plan.changes().values()),
        held,
        len(dead),
        sum(one.waiting_records or 0 for one in plan.flows),
        (*(_unasked(edge, foreign_clusters) for edge in plan.unreachable), *stores),
    )


def _unasked(edge: str, foreign_clusters: Collection[str]) -> str:
    return f"edge {edge} leads to another cluster" if edge in foreign_clusters else f"edge {edge} does not answer"


def _count(actions: Iterable[str], action: str) -> int:
    return sum(one == action for one in actions)


def _counts_text(head: str, counts: dict[str, int]) -> str:
    said = ", ".join(format_count(count, kind) for kind, count in counts.items() if count)
    return f"{head}{said}" if said else ""
