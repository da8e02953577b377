"""The small pure decisions of replication: lease, commit policy, gaps, retention, internal topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.replicate.discovery.edge_topic import EdgeTopic, is_internal
from aggregator.replicate.discovery.retention import why_refused
from aggregator.replicate.flow.gaps import gap, sentence
from aggregator.replicate.leadership.lease import LeaseState, lease_state
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.state.control import Lease
from aggregator.state.gap import Gap, GapKind
from aggregator.state.names import checkpoints, offset_syncs

DAY = 86_400_000


@pytest.mark.parametrize(
    ("first", "latest", "watched", "expected"),
    [
        (None, None, 0.0, LeaseState.FREE),
        (Lease("a", 1), Lease("a", 1, released=True), 0.0, LeaseState.FREE),
        (Lease("a", 1), Lease("a", 1), 5.9, LeaseState.WATCHING),
        (Lease("a", 1), Lease("a", 1), 6.0, LeaseState.FREE),
        (Lease("a", 1), Lease("a", 2), 0.1, LeaseState.HELD),
        (Lease("a", 1), Lease("b", 1), 0.1, LeaseState.HELD),
        (None, Lease("b", 1), 1.0, LeaseState.WATCHING),
    ],
)
def test_lease_is_judged_by_movement(first, latest, watched, expected):
    """The lease rule: released or unmoved for six seconds is free, moved is held, no clock is compared."""
    assert lease_state(first, latest, watched) is expected


def test_a_transaction_commits_when_drained_or_old_or_large():
    """Whichever of the three is first; not before, and a drained reader lingers a moment."""
    policy = CommitPolicy(interval_s=0.5, limit_bytes=1000, linger_s=0.01)
    assert not policy.due(pending_bytes=999, open_s=0.49, drained=False)
    assert not policy.due(pending_bytes=1, open_s=0.009, drained=True)
    assert policy.due(pending_bytes=1, open_s=0.01, drained=True)
    assert policy.due(pending_bytes=1000, open_s=0.0, drained=False)
    assert policy.due(pending_bytes=1, open_s=0.5, drained=False)


@pytest.mark.parametrize(
    ("open_s", "commit_s", "drained", "behind", "due"),
    [
        (0.010, 0.001, False, False, True),
        (0.009, 0.001, False, False, False),
        (0.029, 0.030, False, False, False),
        (0.030, 0.030, False, False, True),
        (0.029, 0.030, True, True, False),
        (0.030, 0.030, True, True, True),
        (0.490, 0.600, False, False, False),
        (0.500, 0.600, False, False, True),
        (0.490, 0.001, False, True, False),
        (0.500, 0.001, False, True, True),
    ],
)
def test_a_slot_that_keeps_up_commits_early_and_one_that_is_behind_late(open_s, commit_s, drained, behind, due):
    """Commits get a fixed share of the time of a slot that keeps up; one with a backlog pays for throughput only."""
    policy = CommitPolicy(interval_s=0.5, limit_bytes=1000, linger_s=0.01)
    assert policy.due(pending_bytes=1, open_s=open_s, drained=drained, behind=behind, commit_s=commit_s) is due


@given(st.floats(0, 2), st.floats(0, 2), st.booleans(), st.booleans(), st.integers(0, 2000))
def test_no_transaction_outlives_its_bounds(open_s, commit_s, drained, behind, pending):
    """Whatever commits take: interval and bytes hold, and nothing commits before the linger but for its bytes."""
    policy = CommitPolicy(interval_s=0.5, limit_bytes=1000, linger_s=0.01)
    due = policy.due(pending_bytes=pending, open_s=open_s, drained=drained, behind=behind, commit_s=commit_s)
    if pending >= 1000 or open_s >= 0.5:
        assert due
    elif open_s < max(0.01, commit_s) or (behind and not drained):
        assert not due


@given(st.floats(0, 2), st.floats(0, 2))
def test_after_its_rest_a_slot_commits(open_s, commit_s):
    """It rests just until a commit is due: never past that, and never for nothing."""
    policy = CommitPolicy(interval_s=5, limit_bytes=1000, linger_s=0.01)
    rest_s = policy.rest_s(open_s=open_s, commit_s=commit_s)
    assert rest_s >= 0
    assert (rest_s > 0) is not policy.due(
        pending_bytes=1, open_s=open_s, drained=False, behind=False, commit_s=commit_s
    )
    assert policy.rest_s(open_s=open_s + rest_s + 1e-9, commit_s=commit_s) == 0


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_gap_is_exactly_what_the_edge_lost(position, start, length):
    """Inside the log, its end included, is no gap; below it, the range is exact; above it, the tail is unknown."""
    end = start + length
    lost = gap(position, start, end, since_ms=7)
    if position < start:
        assert lost == Gap(GapKind.EXPIRED, position, start, 7)
    elif position > end:
        assert lost == Gap(GapKind.TRUNCATED, end, None, 7)
    else:
        assert lost is None
    if lost:
        assert str(lost.start) in sentence(lost, position)


def test_what_a_flow_never_reads_is_not_refused():
    """`start: latest`, or a time: only what lies behind it counts; a flow that begins at the log's start meets all."""
    now_ms, week = 10_000 * DAY, {"retention.ms": str(7 * DAY)}
    old, young = now_ms - 4000 * DAY, now_ms - 6 * DAY
    settings = {"retention.ms": "-1"}
    for first_ms, refused in ((None, False), (young, False), (old, True)):
        edge = EdgeTopic("orders", "id", (0,), (5,), (9,), (old,), settings, initial_timestamps_ms=(first_ms,))
        reason = why_refused(edge, 0, week, now_ms=now_ms, central_name="eu.orders", from_start=False)
        assert (reason is not None) is refused
        assert why_refused(edge, 0, week, now_ms=now_ms, central_name="eu.orders") is not None


def topic(oldest_age_ms, **settings):
    return EdgeTopic(
        "orders", "id", (0,), (0,), (9,), (None if oldest_age_ms is None else 10_000 * DAY - oldest_age_ms,), settings
    )


@pytest.mark.parametrize(
    ("edge", "central", "refused"),
    [
        (topic(4000 * DAY, **{"retention.ms": "-1"}), {"retention.ms": str(7 * DAY)}, True),
        (topic(8 * DAY, **{"retention.ms": str(30 * DAY)}), {"retention.ms": str(7 * DAY)}, True),
        (
            topic(8 * DAY, **{"retention.ms": str(7 * DAY), "segment.ms": str(7 * DAY)}),
            {"retention.ms": str(7 * DAY)},
            False,
        ),
        (
            topic(15 * DAY, **{"retention.ms": str(7 * DAY), "segment.ms": str(7 * DAY)}),
            {"retention.ms": str(7 * DAY)},
            True,
        ),
        (topic(6 * DAY), {"retention.ms": str(7 * DAY)}, False),
        (topic(4000 * DAY), {"retention.ms": "-1"}, False),
        (topic(4000 * DAY), {"retention.ms": str(7 * DAY), "cleanup.policy": "compact"}, False),
        (topic(4000 * DAY), {"retention.ms": str(7 * DAY), "message.timestamp.type": "LogAppendTime"}, False),
        (topic(None), {"retention.ms": "1"}, False),
    ],
)
def test_trap_2_old_records_are_not_written_to_be_deleted(edge, central, refused):
    """Refused is what the edge promises to keep and central would delete at once; the sentence names the setting."""
    reason = why_refused(edge, 0, central, now_ms=10_000 * DAY, central_name="eu.orders")
    assert (reason is not None) is refused
    if reason:
        assert "retention.ms" in reason
        assert "eu.orders" in reason


@pytest.mark.parametrize(
    "name",
    ["__consumer_offsets", ".hidden", offset_syncs("a"), checkpoints("a"), "connect-internal", "a.replica"],
)
def test_internal_topics_are_never_replicated(name):
    """MirrorMaker 2's default exclusions."""
    assert is_internal(name)


def test_ordinary_topics_are_not_internal():
    """Names that merely contain the words pass."""
    assert not any(map(is_internal, ["orders", "internal.orders", "replica-set", "a__b"]))
