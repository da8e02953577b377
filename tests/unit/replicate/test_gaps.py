"""What becomes of a gap: held, decided, gone on from; and how long an edge keeps what is not yet read."""

from dataclasses import replace

import pytest
from msgspec import structs

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.kafka.readers.reader_events import TruncationPoint
from aggregator.replicate.discovery.retention import Margin, margin
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.gaps import truncation_gap, with_decisions
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from tests.unit.replicate.plan_inputs import CONFIG, FLOW, ORDERS, SETTINGS, SNAPSHOTS

HOUR = 3_600_000
EXPIRED = Gap(GapKind.EXPIRED, 10, 15, 1)
TRUNCATED = Gap(GapKind.TRUNCATED, 4, None, 1)
DELETED = Gap(GapKind.DELETED, 10, None, 1)
SKIPPING = CONFIG.model_copy(update={"topics": (CONFIG.topics[0].model_copy(update={"on_gap": "skip"}),)})


def entry(gap=None, offset=10) -> LedgerRecord:
    return LedgerRecord(0, "id-1", offset, 3, 0, delivered=9, gap=gap)


HERE = Position(0, 10)


def decision(gap, position=HERE) -> GapDecision:
    return GapDecision(FLOW, position, gap, "ada", 2, "known")


def plan(ledger, decisions=(), config: HubConfig = CONFIG, snapshots=SNAPSHOTS) -> dict[EdgePartition, FlowPlan]:
    flows = plan_flows(config, ledger, snapshots, SETTINGS, epoch=5, drain=True, now_ms=0, decisions=decisions)
    return {one.source: one for slot in flows.by_slot.values() for one in slot}


@pytest.mark.parametrize(
    ("lost", "cut", "expected"),
    [
        (None, TruncationPoint(30, None), None),
        (None, TruncationPoint(10, None), None),
        (None, TruncationPoint(4, 12), None),
        (None, TruncationPoint(4, 6), 4),
        (TRUNCATED, TruncationPoint(4, None), 4),
        (TRUNCATED, TruncationPoint(2, 2), 2),
        (TRUNCATED, TruncationPoint(30, None), 10),
    ],
)
def test_a_log_was_cut_where_what_we_had_read_ends(lost, cut, expected):
    """Also when it has grown again, over the position even; a false alarm, or only later records, are no gap."""
    found = truncation_gap(lost, cut, 10, since_ms=1)
    assert found == (None if expected is None else Gap(GapKind.TRUNCATED, expected, None, 1))


@pytest.mark.parametrize(
    ("gap", "decisions", "position"),
    [
        (EXPIRED, [], None),
        (EXPIRED, [decision(EXPIRED)], Position(0, 15)),
        (EXPIRED, [decision(replace(EXPIRED, end=18)), decision(EXPIRED)], Position(0, 18)),
        (EXPIRED, [decision(EXPIRED, Position(0, 9))], None),
        (EXPIRED, [decision(EXPIRED, Position(1, 10))], None),
        (EXPIRED, [decision(DELETED)], None),
        (TRUNCATED, [], None),
        (TRUNCATED, [decision(TRUNCATED)], Position(1, 4)),
        (None, [decision(EXPIRED)], Position(0, 15)),
        (DELETED, [], Position(0, 10)),
    ],
)
def test_a_decision_moves_exactly_the_position_that_it_was_made_for(gap, decisions, position):
    """Forward in the same incarnation, back in the next one; a topic that is back needs no decision.

    What is passed over is in the very record that moves the position, so that a backfill knows it.
    """
    before = entry(gap)
    after = with_decisions(before, decisions)
    passed = after.unread
    assert passed == ((IncarnationRange(0, OffsetRange(10, after.next_offset)),) if after.next_offset > 10 else ())
    moves = {"incarnation": position[0], "next_offset": position[1], "gap": None} if position else {}
    assert structs.replace(after, unread=()) == structs.replace(before, **moves)


def test_an_accepted_gap_is_a_first_position_that_the_owning_slot_writes():
    """Until then the flow is planned as held; the new position is persisted before the first poll (rule D)."""
    held = plan({FLOW: entry(EXPIRED)})[FLOW]
    assert (held.is_new_position, held.entry.gap) == (False, EXPIRED)
    flow = Flow(held, held.entry, persisted=False)
    assert (flow.is_readable, flow.cursor.hold and flow.cursor.hold.reason, flow.has_changes) == (False, "gap", False)
    free = plan({FLOW: entry(EXPIRED)}, [decision(EXPIRED)])[FLOW]
    assert (free.is_new_position, free.entry.position, free.entry.gap, free.decision) == (
        True,
        Position(0, 15),
        None,
        None,
    )
    assert Flow(free, free.entry, persisted=False).is_readable


def test_what_the_edge_no_longer_shows_is_held_until_it_is_decided_or_back():
    """A deleted topic, or a partition of it, is a gap with an unknown tail; an edge that is silent deletes nothing."""
    third = EdgePartition("eu", "orders", 2)
    known = {FLOW: entry(), third: entry()}
    lost = plan(known)[third]
    assert (lost.is_new_position, lost.entry.gap, lost.until) == (True, replace(DELETED, since_ms=0), None)
    assert lost.entry.position == Position(0, 10)
    recorded = {third: entry(DELETED)}
    assert plan(recorded)[third].is_new_position is False
    assert third not in plan(recorded, [replace(decision(DELETED), source=third)])
    assert third not in plan(known, snapshots={})
    assert third not in plan(known, config=SKIPPING)
    assert third not in plan(known, config=CONFIG.model_copy(update={"topics": ()}), snapshots={"eu": {}})
    back = plan({FLOW: entry(DELETED)})[FLOW]
    assert (back.is_new_position, back.entry.gap, back.entry.position) == (True, None, Position(0, 10))


def test_a_recreated_topic_says_how_many_records_of_the_former_were_left():
    """The protocol goes on in the next incarnation at 0, and the slot writes what is unknown beside the position."""
    new = plan({FLOW: structs.replace(entry(EXPIRED), topic_id="gone")})[FLOW]
    assert (new.is_new_position, new.entry.position, new.entry.gap) == (True, Position(1, 0), None)
    assert new.decision is not None
    assert (new.decision.gap.kind, new.decision.gap.start, new.decision.gap.end) == (GapKind.RECREATED, 10, None)
    assert new.decision.automatic


def test_a_rule_that_skips_goes_on_from_a_gap_that_an_earlier_rule_held():
    """Changing `on_gap` to `skip` frees the flow, on record; the gap is never forgotten."""
    free = plan({FLOW: entry(EXPIRED)}, config=SKIPPING)[FLOW]
    assert (free.skips_gaps, free.entry.position, free.decision and free.decision.gap) == (
        True,
        Position(0, 15),
        EXPIRED,
    )


@pytest.mark.parametrize(("gap", "position"), [(EXPIRED, Position(0, 15)), (TRUNCATED, Position(1, 4))])
def test_a_skip_is_undone_by_an_abort(gap, position):
    """Cursor and decision belong to the open transaction: what was not committed did not happen (rule F)."""
    planned = plan({FLOW: entry()}, config=SKIPPING)[FLOW]
    flow = Flow(planned, planned.entry, persisted=True)
    flow.skip(gap)
    assert (flow.position, flow.has_changes, [one.gap for one in flow.cursor.decisions]) == (position, True, [gap])
    flow.rewind()
    assert (flow.position, flow.has_changes, flow.cursor.decisions) == (Position(0, 10), False, ())


@pytest.mark.parametrize("gap", [replace(EXPIRED, start=12), replace(TRUNCATED, start=11)])
def test_a_gap_that_an_aborted_transaction_found_is_found_anew(gap):
    """It was seen from a position that never was: accepted, it would pass over what lies before it (rule F)."""
    planned = plan({FLOW: entry()})[FLOW]
    flow = Flow(planned, planned.entry, persisted=True)
    flow.advance(12)
    flow.cursor = flow.cursor.with_gap(gap)
    assert (flow.is_readable, flow.has_changes, flow.cursor.entry.gap) == (False, True, gap)
    flow.rewind()
    assert (flow.is_readable, flow.has_changes, flow.cursor.entry) == (True, False, planned.entry)
    flow.cursor = flow.cursor.with_gap(gap)
    flow.commit()
    flow.rewind()
    assert (flow.is_readable, flow.cursor.entry.gap) == (False, gap), "a committed one stands"


def test_an_entry_without_a_gap_is_unchanged_by_a_topic_that_is_there():
    """The ordinary epoch: nothing fresh, nothing to write."""
    assert ORDERS.topic_id == entry().topic_id
    assert plan({FLOW: entry()})[FLOW].is_new_position is False


@pytest.mark.parametrize(
    ("settings", "unread_h", "oldest_h", "trimmed", "left_h"),
    [
        ({"retention.ms": str(24 * HOUR)}, 20, 20, True, 4),
        ({"retention.ms": str(24 * HOUR)}, 30, 30, True, 0),
        ({"retention.ms": "-1"}, 20, 20, True, None),
        ({"retention.ms": str(24 * HOUR)}, None, None, True, None),
        ({"retention.ms": str(24 * HOUR), "cleanup.policy": "compact"}, 20, 20, True, None),
        ({"retention.ms": str(24 * HOUR), "cleanup.policy": "compact,delete"}, 20, 20, True, 4),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, 3, 10, True, 7),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, 3, 10, False, None),
        ({"retention.ms": str(24 * HOUR), "retention.bytes": "1000"}, 3, 10, True, 7),
    ],
)
def test_the_margin_is_the_time_until_unread_records_are_deleted(settings, unread_h, oldest_h, trimmed, left_h):
    """By time from the record's age; by size from how long the trimmed log is; None where nothing is ever deleted."""
    found = margin(
        settings,
        unread_ms=None if unread_h is None else (100 - unread_h) * HOUR,
        oldest_ms=None if oldest_h is None else (100 - oldest_h) * HOUR,
        trimmed=trimmed,
        now_ms=100 * HOUR,
    )
    assert (found and found.left_ms) == (None if left_h is None else left_h * HOUR)


@pytest.mark.parametrize(
    ("left", "keeps", "short"),
    [
        (30 * HOUR, 240 * HOUR, False),
        (20 * HOUR, 240 * HOUR, True),
        (2 * HOUR, 4 * HOUR, False),
        (HOUR // 2, 4 * HOUR, True),
        (HOUR // 3, HOUR // 2, False),
        (HOUR // 5, HOUR // 2, True),
    ],
)
def test_a_warning_comes_in_time_and_not_for_nothing(left, keeps, short):
    """Below a tenth, below an hour, and for a short retention below half of it."""
    assert Margin(left, keeps).is_short(HOUR) is short


def test_a_damaged_batch_is_passed_over_by_a_decision_and_tried_again_until_then():
    """Its flow begins to read, so that a mended replica is found; the gap stays in the ledger until something came."""
    lost = Gap(GapKind.DAMAGED, 10, 20, 1)
    flow = Flow(plan({FLOW: entry(lost)})[FLOW], entry(lost), persisted=True)
    assert flow.is_readable
    assert [flow.cursor.entry.gap] == [lost]
    flow.advance(11)
    assert [flow.cursor.entry.gap] == [None]
    went = with_decisions(entry(lost), [decision(lost)])
    assert (went.position, went.gap, went.unread) == (
        Position(0, 20),
        None,
        (IncarnationRange(0, OffsetRange(10, 20)),),
    )


@pytest.mark.parametrize(
    ("gap", "start"), [(None, 10), (TRUNCATED, 4), (EXPIRED, 10), (replace(DELETED, start=4, since_ms=0), 4)]
)
def test_a_topic_that_is_gone_or_made_anew_takes_an_open_cut_with_it(gap, start):
    """What the log held behind the cut is lost, too, and nobody has decided about that."""
    third = EdgePartition("eu", "orders", 2)
    gone = plan({FLOW: entry(), third: entry(gap)})[third]
    assert gone.entry.gap == Gap(GapKind.DELETED, start, None, 0)
    new = plan({FLOW: structs.replace(entry(gap), topic_id="gone")})[FLOW]
    assert new.decision is not None
    assert new.decision.gap == Gap(GapKind.RECREATED, start, None, 0)


def test_an_open_cut_comes_back_with_its_topic():
    """It is known; before it was found once more the topic could be created again, and nobody would know of it."""
    back = plan({FLOW: entry(replace(DELETED, start=4))})[FLOW]
    assert (back.is_new_position, back.entry.gap, back.entry.position) == (True, TRUNCATED, Position(0, 10))
    assert plan({FLOW: entry(replace(DELETED, start=4))}, [decision(TRUNCATED)])[FLOW].entry.position == Position(1, 4)
