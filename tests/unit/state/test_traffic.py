"""Bytes by edge, as slots tell them: sums over lives, rates over half a minute, nothing counted twice."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.kafka.client.statistics import ClientStatistics
from aggregator.state.telemetry import SlotFeed
from aggregator.state.traffic import MAX_COUNT, EdgeTraffic, Traffic


def told(*words):
    """A feed that has heard (second, slot, life, read, written)."""
    traffic = Traffic()
    traffic.ingest(9, "first", {}, {}, 0.0)  # when the watching began
    for now_s, slot, life, read, written in words:
        traffic.ingest(slot, life, {"eu": read}, {"eu": written}, now_s)
    return traffic


def test_counters_of_slots_and_lives_add_up():
    """A life that follows another begins at nothing, and so does another slot."""
    traffic = told((5, 0, "a", 100, 10), (6, 1, "b", 50, 5), (7, 0, "a", 300, 30), (8, 0, "c", 40, 4))
    assert traffic.of("eu", 8)[:2] == (390, 39)


def test_what_lay_there_before_is_no_news():
    """Whoever adds this to what was known before would count it twice."""
    traffic = told((1, 0, "a", 5_000, 500), (5, 0, "a", 5_100, 510))
    assert traffic.of("eu", 5)[:2] == (100, 10)


def test_a_rate_is_that_of_the_last_half_minute():
    """A client tells every ten seconds; words between say the same number again."""
    words = [(float(second), 0, "a", second // 10 * 10_000, second * 7) for second in range(3, 100)]
    moved = told(*words).of("eu", 99)
    assert moved.read_per_s == 1_000
    assert round(moved.written_per_s) == 7


def test_the_first_ten_seconds_of_a_client_are_no_rate_of_the_last_four():
    """Somebody who begins to watch hears all of them at once, and again when the next ten are over."""
    traffic = Traffic()
    traffic.ingest(0, "a", {"eu": 50_000}, {}, 0.0)
    traffic.ingest(0, "a", {"eu": 60_000}, {}, 4.0)
    assert traffic.of("eu", 4.0)[:3:2] == (10_000, None)
    traffic.ingest(0, "a", {"eu": 70_000}, {}, 14.0)
    assert traffic.of("eu", 14.0)[:3:2] == (20_000, 1_000)


def test_what_lay_there_tells_the_rate_at_once():
    """By when it was told; it counts as little as before, and one look is enough."""
    traffic = Traffic()
    for told_s in range(-40, 1):
        traffic.ingest(0, "a", {"eu": (told_s // 10 + 9) * 10_000}, {}, 0.0, at_s=float(told_s))
    assert traffic.of("eu", 0.0)[:3:2] == (0, 1_000)


def test_silence_is_no_rate_and_the_unknown_is_none():
    """After half a minute nothing moves; of another edge nobody has told."""
    traffic = told((5, 0, "a", 100, 10), (6, 0, "a", 300, 30))
    assert traffic.of("eu", 60).read_per_s == 0.0
    assert traffic.of("us", 60) == EdgeTraffic()
    assert told((5, 0, "a", 100, 10)).of("eu", 5).read_per_s is None


def test_a_number_without_end_ends():
    """A sum stays what a record can tell."""
    assert told((5, 0, "a", MAX_COUNT, 0), (6, 1, "b", MAX_COUNT, 0)).of("eu", 6).read_bytes == MAX_COUNT


def test_a_reader_s_bytes_go_on_when_its_client_is_replaced():
    """Librdkafka counts anew in each client."""
    text = '{"name": "%s", "rx_bytes": %d, "tx_bytes": 0, "msg_cnt": 0, "msg_size": 0, "brokers": {}, "topics": {}}'
    statistics = ClientStatistics(1_000)
    for name, received in (("a", 10), ("a", 30), ("b", 50), ("b", 60)):
        statistics.take(text % (name, received))
    assert statistics.received_bytes == 90
    assert statistics.options["statistics.interval.ms"] == 1_000


def test_lives_of_one_slot_that_overlap_are_counted_once():
    """A fenced one may tell a few words more while the next one has begun."""
    words = [(10, "a", 1_000), (11, "b", 10), (12, "a", 1_100), (13, "b", 20), (14, "a", 1_200)]
    assert told(*((at, 0, life, read, read) for at, life, read in words)).of("eu", 15)[:2] == (1_220, 1_220)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 99)), max_size=60)
)
def test_what_is_told_is_what_was_counted(steps):
    """Whatever lives take turns in whatever order, each counter is counted once."""
    counters, words, now_s = {}, [], 5.0
    for slot, life, passed_s, grown in steps:
        now_s += passed_s
        counters[slot, life] = counters.get((slot, life), 0) + grown
        words.append((now_s, slot, life, counters[slot, life], counters[slot, life]))
    assert told(*words).of("eu", now_s).read_bytes == sum(counters.values())


def test_a_life_that_is_over_is_forgotten():
    """A hub of years has thousands of them."""
    traffic = told(*((5 + 60 * number, 0, f"life {number}", 7, 7) for number in range(1_000)))
    assert len(traffic._last) < 20
    assert traffic.of("eu", 1e6).read_bytes == 7_000


def test_the_newest_life_of_a_slot_is_not_forgotten():
    """While central is away for an hour it tells nothing, and then goes on where it was."""
    assert told((5, 0, "a", 100, 10), (6, 1, "b", 5, 5), (4_000, 1, "b", 6, 6), (4_001, 0, "a", 120, 12)).of(
        "eu", 4_001
    )[:2] == (126, 18)


@pytest.mark.slow
def test_records_that_somebody_else_wrote_cost_no_more_than_their_number():
    """Thousands of slots that no hub has: the oldest are dropped, and each record costs the same."""
    moved, feed = Traffic(), SlotFeed()
    began = time.process_time()
    for slot in range(20_000):
        moved.ingest(slot, "a", {"eu": 1}, {}, float(slot))
        word = {"slot": slot, "epoch": 1, "transactions": 0, "held": {}, "waiting": {}, "rss_bytes": 0, "cpu_s": 0}
        feed.ingest(json.dumps({"v": 1} | word).encode(), 5.0)
    assert time.process_time() - began < 5
    assert len(feed.slots(5.0)) <= 1000
