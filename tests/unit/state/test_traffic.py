"""Bytes by edge, as slots tell them: sums over lives, rates over half a minute, nothing counted twice."""

from aggregator.kafka.client.statistics import ClientStatistics
from aggregator.state.traffic import MOST, Moved, Traffic


def told(*words):
    """A feed that has heard (second, slot, life, read, written)."""
    traffic = Traffic()
    traffic.take(9, "first", {}, {}, 0.0)  # when the watching began
    for now_s, slot, life, read, written in words:
        traffic.take(slot, life, {"eu": read}, {"eu": written}, now_s)
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


def test_silence_is_no_rate_and_the_unknown_is_none():
    """After half a minute nothing moves; of another edge nobody has told."""
    traffic = told((5, 0, "a", 100, 10), (6, 0, "a", 300, 30))
    assert traffic.of("eu", 60).read_per_s == 0.0
    assert traffic.of("us", 60) == Moved()
    assert told((5, 0, "a", 100, 10)).of("eu", 5).read_per_s is None


def test_a_number_without_end_ends():
    """A sum stays what a record can tell."""
    assert told((5, 0, "a", MOST, 0), (6, 1, "b", MOST, 0)).of("eu", 6).read_bytes == MOST


def test_a_reader_s_bytes_go_on_when_its_client_is_replaced():
    """Librdkafka counts anew in each client."""
    text = '{"name": "%s", "rx_bytes": %d, "tx_bytes": 0, "msg_cnt": 0, "msg_size": 0, "brokers": {}, "topics": {}}'
    statistics = ClientStatistics(1_000)
    for name, received in (("a", 10), ("a", 30), ("b", 50), ("b", 60)):
        statistics.take(text % (name, received))
    assert statistics.received_bytes == 90
    assert statistics.options["statistics.interval.ms"] == 1_000
