"""Decides which offsets a cycle reads, cuts them into tasks, and decides which staged outcomes may be committed.

Invariant: for each central partition the committed ranges follow each other without a gap and without an overlap, from
the table's own position on. A position that central no longer has, or does not have yet, is refused.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.lake.storage.files import StagedFile

# A position that moved only over transaction markers gets a commit of its own after so many offsets.
SPARSE_OFFSETS = 10_000
# So many ranges of a commit are written into the table's history, because every kept version holds them.
SHOWN_RANGES = 16


class Span(NamedTuple):
    """Offsets of one central partition that one task reads."""

    partition: CentralPartition
    offsets: OffsetRange


class TableHold(NamedTuple):
    """Says why a central partition cannot go on. Without a partition it says why the whole table cannot.

    Attributes:
        partition: The partition, which the reason does not name: partitions with the same reason are told as one.
        reason: The reason, and the next step.
    """

    partition: CentralPartition | None
    reason: str

    def __str__(self) -> str:
        return f"{self.partition.place}: {self.reason}" if self.partition else self.reason


class SpanProgress(NamedTuple):
    """Says how far a task came in one span. If that is before the span's end, it also says why."""

    span: Span
    next_offset: int
    held: str = ""


@dataclass(frozen=True, slots=True)
class StagingOutcome:
    """Describes what one task staged. It is committed as a whole or not at all.

    Attributes:
        reached: Position that the task reached in each span.
        files: Files with the staged rows.
        left_out: Origins of what a restate read and left out; no rows, and in no commit.
    """

    reached: tuple[SpanProgress, ...]
    files: tuple[StagedFile, ...]
    left_out: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """The offsets that a table has not read yet, and the partitions that cannot go on."""

    spans: tuple[Span, ...]
    held: tuple[TableHold, ...]


@dataclass(frozen=True, slots=True)
class CommittableOutcomes:
    """The outcomes that follow the table's positions, the positions after them, and the outcomes that do not follow."""

    accepted: tuple[StagingOutcome, ...]
    positions: Mapping[CentralPartition, int]
    dropped: tuple[StagingOutcome, ...]

    @property
    def files(self) -> list[StagedFile]:
        """The files that the accepted outcomes staged."""
        return [file for outcome in self.accepted for file in outcome.files]

    def worth_a_commit(self) -> bool:
        """Whether there are files, or a long way without rows, to commit."""
        moved = sum(one.next_offset - one.span.offsets.start for outcome in self.accepted for one in outcome.reached)
        return bool(self.files) or moved > SPARSE_OFFSETS

    def note(self) -> dict[str, str]:
        """What a commit of it says of itself in the table's history: rows, partitions, and the offsets of some."""
        ranges: dict[CentralPartition, OffsetRange] = {}
        for one in (one for outcome in self.accepted for one in outcome.reached):
            start = ranges.get(one.span.partition, one.span.offsets).start
            ranges[one.span.partition] = OffsetRange(start, one.next_offset)
        longest = sorted(ranges, key=lambda one: (-len(ranges[one]), one))[:SHOWN_RANGES]
        return {
            "hub.rows": str(sum(file.rows for file in self.files)),
            "hub.partitions": str(len(ranges)),
            "hub.ranges": json.dumps({f"{one.topic}-{one.partition}": ranges[one] for one in sorted(longest)}),
        }


def backlog(
    positions: Mapping[CentralPartition, int], bounds: Mapping[CentralPartition, OffsetRange], *, records: int
) -> Backlog:
    """The spans to read in the next cycle, and the partitions that are held.

    Args:
        positions: The table's next offsets; a partition without one begins at its first offset.
        bounds: The offsets that each partition holds.
        records: Bound of one cycle in offsets; a longer backlog is cut in proportion, so that no partition starves.
    """
    spans, held = [], []
    for partition, (first, end) in bounds.items():
        start = positions.get(partition, first)
        if start < first:
            held.append(TableHold(partition, f"offsets {start} to {first - 1} were removed before the lake read them"))
        elif start > end:
            held.append(TableHold(partition, f"it ends at {end}, before the lake's next offset {start}"))
        elif start < end:
            spans.append(Span(partition, OffsetRange(start, end)))
    return Backlog(tuple(_cut(spans, records)), tuple(held))


def _cut(spans: list[Span], records: int) -> Iterable[Span]:
    total = sum(len(span.offsets) for span in spans)
    for partition, (start, end) in spans:
        share = end - start if total <= records else max(1, (end - start) * records // total)
        yield Span(partition, OffsetRange(start, start + share))


def tasks(spans: Sequence[Span], *, parallel: int, records: int, fewest: int = 5_000) -> list[tuple[Span, ...]]:
    """Cut and pack spans into tasks of about equal length.

    A long span is cut into tasks of its own; short ones share a task and its file. A task never holds a piece of a span
    beside other spans: a held record in the piece before would drop them too.

    Args:
        spans: At most one per partition.
        parallel: Tasks that run at a time.
        records: Bound of one task in offsets.
        fewest: No span is cut below it: a file costs more than the records in it.
    """
    total = sum(len(span.offsets) for span in spans)
    # A quarter above an even share: a span that is a little longer than its neighbour does not justify another task.
    size = min(records, max(fewest, -(-total * 5 // (4 * max(1, parallel)))))
    cut: list[tuple[Span, ...]] = []
    shared: list[Span] = []
    for span in spans:
        if len(span.offsets) > size:
            cut += [(piece,) for piece in _pieces(span, size)]
        elif sum(len(one.offsets) for one in shared) + len(span.offsets) > size:
            cut.append(tuple(shared))
            shared = [span]
        else:
            shared.append(span)
    return [*cut, tuple(shared)] if shared else cut


def _pieces(span: Span, size: int) -> Iterable[Span]:
    start, end = span.offsets
    count = -(-(end - start) // size)
    edges = [start + (end - start) * index // count for index in range(count + 1)]
    for left, right in itertools.pairwise(edges):
        yield Span(span.partition, OffsetRange(left, right))


def committable(outcomes: Sequence[StagingOutcome], positions: Mapping[CentralPartition, int]) -> CommittableOutcomes:
    """Keep the outcomes that begin where the table, or the outcome before them, ends.

    After a conflict it is asked again with the fresh positions: what another writer committed drops out here.

    Args:
        outcomes: In the order of the plan.
        positions: The table's next offsets.
    """
    reached = dict(positions)
    accepted, dropped = [], []
    for outcome in outcomes:
        starts = [(one.span.partition, one.span.offsets.start) for one in outcome.reached]
        if all(reached.get(partition, start) == start for partition, start in starts):
            accepted.append(outcome)
            reached |= {one.span.partition: one.next_offset for one in outcome.reached}
        else:
            dropped.append(outcome)
    moved = {partition: offset for partition, offset in reached.items() if offset > positions.get(partition, -1)}
    return CommittableOutcomes(tuple(accepted), moved, tuple(dropped))
