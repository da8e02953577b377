"""Plans what a cycle does for one table, decides which tables are done together, and makes the table's report.

Invariant: pure. Plans that are staged together hold about as many offsets as one table's cycle may. A long backlog is
therefore committed in pieces of that size, and a stop is noticed after each piece, however many tables there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import RetryError, Unreachable
from aggregator.lake.cycle.ranges import Backlog, TableHold
from aggregator.lake.cycle.report import TableReport
from aggregator.lake.quality.publication import Published
from aggregator.lake.tables.port import TableHandle
from aggregator.state.releases import Release

OffsetBounds = Mapping[CentralPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What one cycle is to stage and publish for a table.

    Attributes:
        name: The table.
        handle: Its newest version, None before its first commit.
        positions: Its next offsets.
        limits: What its central partitions hold.
        todo: Spans to stage.
        is_decided: Whether a quarantine's commit decided these ranges already.
        release: Somebody's word that they may pass the gate.
    """

    name: str
    handle: TableHandle | None
    positions: Mapping[CentralPartition, int]
    limits: OffsetBounds
    todo: Backlog
    is_decided: bool = False
    release: Release | None = None

    @property
    def records(self) -> int:
        """Count the offsets that the cycle reads for the table."""
        return sum(len(span.offsets) for span in self.todo.spans)

    @property
    def topics(self) -> frozenset[str]:
        """The central topics that are read."""
        return frozenset(one.topic for one in self.limits)

    def idle(self, still_held: Iterable[TableHold] = ()) -> TableReport:
        """The report of a cycle that stages nothing for it."""
        known, ends = next_offsets(self.positions, self.limits), end_offsets(self.limits)
        return TableReport(self.name, next_offsets=known, end_offsets=ends, held=(*self.todo.held, *still_held))

    def report(self, published: Published) -> TableReport:
        """The report of a cycle that published what was staged."""
        result, files = published.result, published.result.files
        # The outcome that did not fit beside the committed ones is staged again under the table's new columns. It is
        # then held at its record.
        unfit = (*result.held, *published.held) if result.version is None else ()
        reached = [one for outcome in result.settled.accepted for one in outcome.reached]
        held = [*self.todo.held, *unfit, *(TableHold(one.span.partition, one.held) for one in reached if one.held)]
        return TableReport(
            self.name,
            sum(file.rows for file in files),
            len(files),
            result.version,
            next_offsets({**self.positions, **result.positions}, self.limits),
            end_offsets(self.limits),
            tuple(held),
            verdict="" if published.verdict is None else published.verdict.value,
            diverted=published.diverted,
            audit_s=published.audit_s,
            commit_s=published.commit_s,
        )


def table_limits(
    sources: Mapping[str, frozenset[str]],
    bounds: Mapping[CentralPartition, OffsetRange],
    silent: Mapping[str, str],
) -> dict[str, OffsetBounds | RetryError]:
    """The contents of each table's central partitions, or the error for a topic without an answer.

    Args:
        sources: Central topics by table.
        bounds: Offsets that each of their partitions holds.
        silent: Topics that nothing, or not all, was told of, with the reason.
    """
    by_topic: dict[str, dict[CentralPartition, OffsetRange]] = {}
    for one, offsets in bounds.items():
        by_topic.setdefault(one.topic, {})[one] = offsets
    limits: dict[str, OffsetBounds | RetryError] = {}
    for name, topics in sorted(sources.items()):
        limits[name] = {one: offsets for topic in sorted(topics) for one, offsets in by_topic.get(topic, {}).items()}
        for topic in sorted(topics & silent.keys())[:1]:
            limits[name] = Unreachable(f"central: {topic}: {silent[topic]}", hint="check the brokers of central")
    return limits


def plan_batches(
    plans: Iterable[TablePlan], records: int, *, apart: frozenset[str] = frozenset()
) -> Iterator[list[TablePlan]]:
    """Plans cut into rounds, in their order; a longer one is a round by itself.

    Args:
        plans: Plans of one cycle.
        records: Offsets of one round, at most.
        apart: Tables that are rounds by themselves, behind all others.
    """
    found: list[TablePlan] = []
    total, last = 0, list[TablePlan]()
    for plan in plans:
        if plan.name in apart:
            last.append(plan)
            continue
        if found and total + plan.records > records:
            yield found
            found, total = [], 0
        found.append(plan)
        total += plan.records
    if found:
        yield found
    yield from ([plan] for plan in last)


def released_spans(
    released: Mapping[CentralPartition, Release], limits: OffsetBounds
) -> dict[CentralPartition, OffsetRange]:
    """The contents of partitions, up to the end of their releases."""
    return {
        one: OffsetRange(limits[one].start, min(release.offsets.end, limits[one].end))
        for one, release in released.items()
    }


def next_offsets(positions: Mapping[CentralPartition, int], limits: OffsetBounds) -> dict[CentralPartition, int]:
    """Positions of all partitions; one that was never committed begins at the partition's first offset."""
    return {one: positions.get(one, first) for one, (first, _) in limits.items()}


def end_offsets(limits: OffsetBounds) -> dict[CentralPartition, int]:
    """The end offset of each partition."""
    return {one: end for one, (_, end) in limits.items()}
