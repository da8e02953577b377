"""Planning and settling: no hole, no overlap, no partition that starves another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome, backlog, committable, tasks
from aggregator.lake.storage.files import StagedFile

PARTS = [CentralPartition("t", "id", number) for number in range(4)]


def span(number: int, start: int, end: int) -> Span:
    return Span(PARTS[number], OffsetRange(start, end))


def done(*spans: Span, files: int = 1, short: int = 0) -> StagingOutcome:
    reached = tuple(SpanProgress(one, one.offsets.end - short, "held" if short else "") for one in spans)
    return StagingOutcome(reached, tuple(StagedFile(f"f{n}", 1, 1, "{}", b"") for n in range(files)))


lengths = st.lists(st.integers(1, 50_000), min_size=1, max_size=4)


@given(lengths, st.integers(1, 4), st.integers(100, 20_000))
@pytest.mark.slow
def test_tasks_cover_every_span_once(sizes, parallel, records):
    """Together the tasks read every offset once, none reads more than its bound, and pieces never share a task."""
    spans = [span(number, 10, 10 + size) for number, size in enumerate(sizes)]
    plan = tasks(spans, parallel=parallel, records=records, fewest=50)
    offsets = sorted((one.partition, *one.offsets) for task in plan for one in task)
    for partition, (start, end) in spans:
        mine = [(left, right) for owner, left, right in offsets if owner == partition]
        assert [mine[0][0], *(right for _, right in mine)] == [*(left for left, _ in mine), end]
        assert mine[0][0] == start
    for task in plan:
        assert sum(len(one.offsets) for one in task) <= records
        assert len(task) == 1 or all(one in spans for one in task)


def test_a_span_that_is_a_little_longer_is_no_task_more():
    """A third task for the last records would start a third worker."""
    spans = [span(0, 0, 101_000), span(1, 0, 99_000)]
    assert tasks(spans, parallel=2, records=500_000) == [(spans[0],), (spans[1],)]


@given(lengths, st.integers(10, 100_000))
def test_a_long_backlog_is_cut_in_proportion(sizes, records):
    """A cycle stays within its bound, and every partition with a backlog gets a share."""
    bounds = {PARTS[number]: OffsetRange(0, size) for number, size in enumerate(sizes)}
    cut = backlog({}, bounds, records=records).spans
    assert {one.partition for one in cut} == set(bounds)
    assert sum(len(one.offsets) for one in cut) <= records + len(sizes)


def test_positions_that_central_does_not_have_are_held():
    """Removed records and a shrunk partition are named; the others are read; none begins at its first offset."""
    bounds = dict(zip(PARTS, [OffsetRange(5, 9), OffsetRange(0, 3), OffsetRange(2, 8), OffsetRange(0, 4)], strict=True))
    todo = backlog({PARTS[0]: 3, PARTS[1]: 4, PARTS[3]: 4}, bounds, records=100)
    assert todo.spans == (span(2, 2, 8),)
    removed, shrunk = todo.held
    assert "offsets 3 to 4 were removed" in removed.reason
    assert "ends at 3, before the lake's next offset 4" in shrunk.reason


def test_outcomes_behind_a_held_piece_are_dropped():
    """A piece that stopped short ends its partition there; later pieces of it drop, other partitions go on."""
    held = done(span(0, 0, 10), short=4)
    later, other = done(span(0, 10, 20)), done(span(1, 0, 5), span(2, 0, 5))
    settled = committable([held, later, other], {})
    assert settled.accepted == (held, other)
    assert settled.dropped == (later,)
    assert settled.positions == {PARTS[0]: 6, PARTS[1]: 5, PARTS[2]: 5}


@pytest.mark.parametrize("fresh", [{PARTS[0]: 20}, {PARTS[0]: 15}, {PARTS[0]: 10, PARTS[1]: 1}])
def test_what_another_writer_committed_is_dropped(fresh):
    """After a conflict an outcome is taken only from exactly the fresh positions on."""
    outcome = done(span(0, 10, 20), span(1, 0, 5))
    assert committable([outcome], {PARTS[0]: 10}).accepted == (outcome,)
    settled = committable([outcome], fresh)
    assert settled.accepted == ()
    assert settled.positions == {}


def test_markers_alone_are_not_worth_a_commit():
    """Positions without rows are committed only after a long way."""
    assert not committable([done(span(0, 0, 10_000), files=0)], {}).worth_a_commit()
    assert committable([done(span(0, 0, 10_001), files=0)], {}).worth_a_commit()
    assert committable([done(span(0, 0, 1))], {}).worth_a_commit()
