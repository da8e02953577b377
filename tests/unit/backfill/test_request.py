"""What people ask of a backfill, in words: read, refused, compared."""

from datetime import UTC, datetime, timedelta

import pytest

from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.request import Ask, Bound, Letters, Mode, Window
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange
from aggregator.errors import FatalError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "time", "offset"),
    [
        ("2026-11-01T00:00Z", datetime(2026, 11, 1, tzinfo=UTC), None),
        ("2026-11-01T02:00+02:00", datetime(2026, 11, 1, tzinfo=UTC), None),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC), None),
        ("PT-2H", NOW - timedelta(hours=2), None),
        ("-PT2H", NOW - timedelta(hours=2), None),
        ("PT2H", NOW - timedelta(hours=2), None),
        ("2h", NOW - timedelta(hours=2), None),
        ("P1D", NOW - timedelta(days=1), None),
        ("1200", None, 1200),
    ],
)
def test_a_bound_is_a_time_a_duration_before_now_or_an_offset(words, time, offset):
    """Durations count back from now, however they are signed."""
    assert Bound.parse(words, NOW) == Bound(words, time, offset)


@pytest.mark.parametrize("words", ["", "yesterday", "earliest", "-5", "12:00", "P", "2 hours"])
def test_anything_else_is_refused(words):
    """A guess would read the wrong window."""
    with pytest.raises(ValueError, match=r"is an ISO 8601 time|a duration"):
        Bound.parse(words, NOW)


def test_a_window_of_a_range_file():
    """The same words as on the command line; an unknown one is refused."""
    window = Window.of({"edge": "eu", "topic": "orders.*", "from": 5, "to": "PT-1H"}, NOW)
    assert window.takes(EdgePartition("eu", "orders.v1", 3))
    assert not window.takes(EdgePartition("us", "orders", 0))
    assert not window.takes(EdgePartition("eu", "my-orders", 0))
    assert Window.of(window.plain(), NOW) == window
    with pytest.raises(ValueError, match="not until"):
        Window.of({"until": 5}, NOW)


def test_the_same_words_are_the_same_ask():
    """Two people who start the same one ask the same, whatever their clocks say."""
    one, two = (
        Ask((Window("eu", "orders", None, Bound.parse("P1D", now)),)) for now in (NOW, NOW + timedelta(hours=1))
    )
    assert one.digest == two.digest
    others = [
        Ask((Window("us", "orders", None, Bound.parse("P1D", NOW)),)),
        Ask(one.windows, Mode.INTO, "v2"),
        Ask(one.windows, letters=Letters()),
        Ask(one.windows, letters=Letters("too_large")),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("mode", "into"), [(Mode.INTO, ""), (Mode.INTO, "a/b"), (Mode.INTO, "v.2"), (Mode.MISSING, "v2")]
)
def test_a_generation_has_a_name_that_a_topic_can_end_in(mode, into):
    """A dot would make one generation's name the beginning of another's."""
    with pytest.raises(FatalError):
        Ask((Window(),), mode, into)


def plan(**changes) -> Plan:
    part = PartitionPlan(
        EdgePartition("eu", "orders", 0), "id", "eu.orders", (OffsetRange(0, 9),), OffsetRange(2, 9),
        segments=(IncarnationRange(0, OffsetRange(2, 9)),), taken=(OffsetRange(0, 2),), records=7, warnings=("w",),
    )  # fmt: skip
    return Plan("hub", {"mode": "missing"}, "abc", Mode.MISSING, "", (part,), **changes)


def test_a_plan_file_is_what_was_planned_or_nothing():
    """The id follows from what is written: a file that somebody edited is refused."""
    made = plan()
    assert Plan.of(made.plain()) == made
    assert plan(seconds=9.0).id == made.id
    assert plan(round=1).id != made.id
    wider = made.plain()
    wider["partitions"][0]["write"] = [[0, 0, 9]]
    for body in (wider, made.plain() | {"v": 2}, {}, made.plain() | {"partitions": [{}]}):
        with pytest.raises(FatalError, match="no plan of a backfill"):
            Plan.of(body)
