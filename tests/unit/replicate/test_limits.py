"""What a central topic takes, read from its settings, and what becomes of records beyond it."""

import numpy as np
import pytest

from aggregator.errors import HoldError, Unreachable
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.planned_limits import LimitsChanged, PlannedLimits
from tests.unit.replicate.compaction import COMPACTED, _delivered

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, TopicLimits()),
        ({"max.message.bytes": "2000", "cleanup.policy": "compact,delete"}, TopicLimits(2000, requires_key=True)),
        ({"message.timestamp.after.max.ms": "3600000"}, TopicLimits(after_ms=3_600_000)),
        ({"message.timestamp.before.max.ms": "1000"}, TopicLimits(before_ms=1000)),
        ({"message.timestamp.after.max.ms": str(2**63 - 1)}, TopicLimits()),
        ({"message.timestamp.before.max.ms": "1000", "message.timestamp.type": "LogAppendTime"}, TopicLimits()),
        ({"message.timestamp.difference.max.ms": "1000"}, TopicLimits(before_ms=1000, after_ms=1000)),
        (
            {"message.timestamp.difference.max.ms": "1000", "message.timestamp.after.max.ms": "5"},
            TopicLimits(before_ms=1000, after_ms=5),
        ),
        (
            {"message.timestamp.difference.max.ms": "1000", "message.timestamp.after.max.ms": str(2**63 - 1)},
            TopicLimits(before_ms=1000, after_ms=1000),
        ),
    ],
)
def test_limits_are_what_the_settings_say(settings, limits):
    """A topic that stamps by itself bounds no timestamp; the greatest number is no bound, an older broker's counts."""
    assert TopicLimits.of(settings) == limits


def test_a_bound_holds_on_its_own_side_only():
    """The bound itself passes; 0 is the time of delivery, and -1 no timestamp."""
    times = np.array([NOW_MS - 1001, NOW_MS - 1000, 0, -1, -2, NOW_MS + 500, NOW_MS + 501], np.int64)
    assert TopicLimits(before_ms=1000).refused_timestamps(times, NOW_MS).tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert TopicLimits(after_ms=500).refused_timestamps(times, NOW_MS).tolist() == [False] * 6 + [True]


def test_a_record_beyond_a_bound_is_a_dead_letter():
    """One such record would make the broker refuse its slot's whole transaction, again and again."""
    log, _ = _delivered(COMPACTED._replace(limits=TopicLimits(before_ms=1000)), [], [1, 2], times=[1, NOW_MS])
    assert (len(log.keys), log.reasons) == (1, ["refused_timestamp"])
    log, _ = _delivered(COMPACTED._replace(limits=TopicLimits()), [], [1, 2], times=[1, NOW_MS])
    assert (len(log.keys), log.reasons) == (2, [])


class Central:
    """Central as far as its topics' limits and time go; `None`: it does not answer."""

    def __init__(self, limits):
        self.taken, self.time_s, self.questions = limits, 100.0, 0

    def read_limits(self, _topic):
        self.questions += 1
        if self.taken is None:
            raise Unreachable("central does not answer", hint="wait")
        return self.taken

    def now(self):
        return self.time_s


@pytest.mark.parametrize(
    ("planned", "keys", "tags"),
    [
        (TopicLimits(60), [1, 2], []),
        (TopicLimits(before_ms=1000), [1, 2], []),
        (TopicLimits(10_000, requires_key=True), [1, None], []),
        (TopicLimits(10_000, requires_key=True), [1], ["PII"]),
    ],
    ids=["too large", "too old", "no key", "loses its key"],
)
def test_no_record_dies_by_a_limit_that_its_topic_has_no_more(planned, keys, tags):
    """An operator raised it; nothing was produced, no transaction opened, and the next epoch delivers the records."""
    flow, times = COMPACTED._replace(limits=planned), [1] * len(keys)
    with pytest.raises(LimitsChanged, match=r"what eu\.orders takes was changed"):
        _delivered(flow, tags, keys, times, PlannedLimits(Central(TopicLimits())).require)
    if tags:
        with pytest.raises(HoldError):
            _delivered(flow, tags, keys, times, PlannedLimits(Central(planned)).require)
    else:
        log, _ = _delivered(flow, tags, keys, times, PlannedLimits(Central(planned)).require)
        assert log.reasons, "the limit is as planned"
    with pytest.raises(Unreachable):
        _delivered(flow, tags, keys, times, PlannedLimits(Central(None)).require)


def test_a_topic_is_asked_now_and_then():
    """Each of its records may be too large: one question in ten seconds, and none for records that fit."""
    central, flow = Central(TopicLimits(60)), COMPACTED._replace(limits=TopicLimits(60))
    require = PlannedLimits(central).require
    for _ in range(100):
        _delivered(flow, [], [1], require_planned=require)
    _delivered(flow._replace(limits=TopicLimits()), [], [1], require_planned=require)
    assert central.questions == 1
    central.time_s += 10
    central.taken = None
    for number in (2, 3):
        with pytest.raises(Unreachable):
            _delivered(flow, [], [1], require_planned=require)
        assert central.questions == number, "who got no answer asks again"
