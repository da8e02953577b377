"""How a backfill's position moves through the parts of a log, and how its throttle holds it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.backfill.pace import Load, next_rate
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.replicate.flow.cursor import PendingRetry
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.route import SEEK_OFFSETS, Route
from aggregator.replicate.slot.throttle import TokenBucket
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

PARTS = (
    IncarnationRange(0, OffsetRange(2, 5)),
    IncarnationRange(0, OffsetRange(8, 9)),
    IncarnationRange(1, OffsetRange(12, 20)),
)
INSIDE = [offset for _, part in PARTS for offset in range(*part)]


def chunk(offsets) -> Chunk:
    count = len(offsets)
    return Chunk("t", 0, [None] * count, [b""] * count, [None] * count, [0] * count, list(offsets), 7)


def flow(parts=PARTS) -> Flow:
    entry = LedgerRecord(parts[0].incarnation, "id", parts[0].offsets.start, 1, 0)
    plan = FlowPlan(
        EdgePartition("eu", "t", 0),
        entry,
        is_new_position=True,
        central_topic="eu.t",
        by_key=False,
        limits=TopicLimits(),
        segments=parts,
        until=parts[-1].offsets.end,
        skips_gaps=True,
    )
    return Flow(plan, entry, persisted=True)


@given(st.integers(0, 30), st.sets(st.integers(0, 29), min_size=1).map(sorted))
def test_nothing_but_the_parts_is_taken(cursor, offsets):
    """Whatever the edge sends: inside of a part, at or after the cursor, each under its own incarnation."""
    pieces = list(Route(PARTS).pieces(chunk(offsets), cursor))
    assert [offset for _, piece in pieces for offset in piece.offsets] == [
        offset for offset in offsets if offset in INSIDE and offset >= cursor
    ]
    for position, piece in pieces:
        assert position == Position(1 if piece.offsets[0] >= 12 else 0, piece.offsets[0])


@given(st.integers(0, 30))
def test_a_position_is_in_a_part_or_behind_the_last(offset):
    """Between two parts there is nothing to read: a position is never there."""
    later = [inside for inside in INSIDE if inside >= offset]
    found = Route(PARTS).position(offset)
    assert found == (Position(1 if later[0] >= 12 else 0, later[0]) if later else Position(1, 20))


@given(st.lists(st.sets(st.integers(0, 25), min_size=1).map(sorted), max_size=6))
def test_a_flow_takes_every_record_of_its_parts_once(polls):
    """Chunks that repeat, overlap or skip: positions only grow, and what was taken is not taken again."""
    moving, taken = flow(), []
    for offsets in polls:
        before = moving.position
        for piece in moving.pieces(chunk(offsets)):
            taken += piece.offsets
            moving.cursor = moving.cursor.with_chunk(piece, dead=0, suppressed=0, stripped=0, schemas=())
        moving.advance(offsets[-1] + 1)
        assert moving.position >= before
    assert taken == sorted(set(taken))
    assert set(taken) <= set(INSIDE)
    assert moving.is_done is (moving.position.next_offset >= 20)


@given(st.sets(st.integers(0, 25), min_size=1).map(sorted), st.integers(0, 6))
def test_a_flow_that_stands_still_stands_before_what_was_not_taken(offsets, takes):
    """A registry that is away, a closed partition: the parts behind it wait, too, though the poll had brought them."""
    moving, taken = flow(), []
    for piece in moving.pieces(chunk(offsets)):
        if len(taken) == takes:
            moving.cursor = moving.cursor.with_waiting(PendingRetry(0.0, 1.0, "the registry does not answer"))
        else:
            taken.append(piece)
            moving.cursor = moving.cursor.with_chunk(piece, dead=0, suppressed=0, stripped=0, schemas=())
    left = [offset for offset in offsets if offset in INSIDE and (not taken or offset > taken[-1].offsets[-1])]
    assert not moving.is_readable or not left
    if left:
        assert moving.position.next_offset <= left[0]


def test_a_far_part_is_asked_for_and_a_near_one_is_read_up_to():
    """A leap costs a round trip; what lies in the prefetch queue anyway is dropped."""
    near = flow((IncarnationRange(0, OffsetRange(0, 5)), IncarnationRange(0, OffsetRange(9, 10))))
    assert near.advance(5) is False
    assert near.position.next_offset == 9
    far = flow(
        (IncarnationRange(0, OffsetRange(0, 5)), IncarnationRange(0, OffsetRange(6 + SEEK_OFFSETS, 10 + SEEK_OFFSETS)))
    )
    assert far.advance(5) is True


def test_a_leader_epoch_goes_as_far_as_was_read():
    """That of a poll holds for every piece of it; before a part that nobody has read up to, none is known."""
    moving = flow((IncarnationRange(0, OffsetRange(0, 5)), IncarnationRange(0, OffsetRange(9, 20))))
    for piece in moving.pieces(chunk(range(4))):
        assert piece.leader_epoch == 7
        moving.cursor = moving.cursor.with_chunk(piece, dead=0, suppressed=0, stripped=0, schemas=())
    moving.advance(4, 7)
    assert moving.cursor.start == StartPosition(4, 7)
    moving.advance(6, 7)
    assert moving.cursor.start == StartPosition(9, None)
    moving.advance(8, 7)
    assert moving.cursor.start == StartPosition(9, None), "what was read lies before the position"
    moving.advance(12, 7)
    assert moving.cursor.start == StartPosition(12, 7)


def test_what_retention_took_is_passed_over_on_record_and_a_cut_is_not():
    """A backfill goes on behind deleted records and says so in its ledger record; a log that was cut holds it."""
    moving = flow()
    lost = Gap(GapKind.EXPIRED, 2, 4, 1)
    assert moving.may_skip(lost)
    moving.skip(lost)
    assert (moving.position, moving.cursor.entry.unread) == (Position(0, 4), (IncarnationRange(0, OffsetRange(2, 4)),))
    moving.rewind()
    assert (moving.position, moving.cursor.entry.unread) == (Position(0, 2), ())
    moving.skip(Gap(GapKind.EXPIRED, 2, 30, 1))
    assert moving.is_done
    assert not moving.may_skip(Gap(GapKind.TRUNCATED, 3, None, 1))


@given(st.floats(1, 10_000), st.lists(st.floats(0, 0.5), min_size=1, max_size=50))
def test_no_more_passes_than_the_rate_allows(rate, pauses):
    """Over any stretch: the rate times its seconds, and a second's worth at once."""
    throttle, now, passed = TokenBucket(rate, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        most = throttle.available(now, 4000)
        throttle.consume(most)
        passed += most
        assert passed <= rate * now + 1
    assert TokenBucket(None, 0.0).available(0.0, 4000) == 4000


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_a_slow_rate_still_moves(rate):
    """Less than a record a look adds up to one."""
    throttle = TokenBucket(rate, 0.0)
    passed = 0
    for tick in range(1, 101):
        most = throttle.available(tick / 10, 10)
        throttle.consume(most)
        passed += most
    assert passed == pytest.approx(rate * 10, abs=1)


@given(st.none() | st.floats(1, 10_000), st.floats(1, 10_000), st.floats(0, 100), st.floats(0, 2))
def test_another_rate_holds_from_its_moment_on(before, rate, at, later):
    """Nothing is saved up for it, and the same rate once more changes nothing."""
    throttle = TokenBucket(before, 0.0)
    throttle.consume(throttle.available(at, 4000))
    throttle.set_rate(rate, at)
    most = throttle.available(at + later, 100_000)
    assert most <= rate * later + 1 or before == rate
    throttle.set_rate(rate, at + later + 1)
    assert throttle.available(at + later, 100_000) == most


LOADS = st.builds(Load, st.floats(0, 1e6), st.integers(0, 10**9))


@given(st.none() | st.floats(1, 1e6), LOADS)
def test_live_flows_that_fall_behind_go_first(asked, load):
    """A fiftieth of what they take is left to a backfill, never nothing, and never more than was asked for."""
    now = next_rate(asked, asked, load)
    if load.keeps_up:
        assert now == asked
    else:
        assert now == pytest.approx(min(asked or 1e9, max(200.0, load.per_s / 50)))


def test_a_backfill_comes_back_step_by_step_to_what_was_asked_for():
    """Once the live flows keep up; a hub that stands still takes nothing away."""
    for asked in (None, 20_000.0):
        rates = [next_rate(asked, asked, Load(100_000.0, 90_000))]
        while rates[-1] != asked:
            rates.append(next_rate(rates[-1], asked, Load()))
        assert rates[:3] == [2000.0, 3000.0, 4500.0]
        assert len(rates) < 22
    assert Load(0.0, 500).keeps_up
    assert not Load(0.0, 501).keeps_up
