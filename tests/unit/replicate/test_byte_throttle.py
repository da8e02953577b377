"""An edge's `rate_limit`: received bytes keep to the rate, though they are told late and asked for in records."""

import random
from collections import Counter, deque

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.replicate.epoch.shares import shares
from aggregator.replicate.slot.throttle import ByteThrottle
from tests.effort import examples

RATE = 2_000_000
POLL = 16_000
STEP_S = 0.01


class Link:
    """A client with a prefetch queue: it receives what is taken, keeps the queue full, and tells once a second."""

    def __init__(self, sizes, buffer_bytes, ratio):
        self.sizes, self.buffer_bytes, self.ratio = sizes, buffer_bytes, ratio
        self.queue, self.queued, self.received, self.told = deque(), 0, 0.0, 0
        self.fill()

    def fill(self):
        while self.queued < self.buffer_bytes:
            self.queue.append(self.sizes())
            self.queued += self.queue[-1]
            self.received += self.queue[-1] * self.ratio

    def count_received(self, most):
        taken = [self.queue.popleft() for _ in range(min(most, len(self.queue)))]
        self.queued -= sum(taken)
        self.fill()
        return len(taken), sum(taken)


def received_over(sizes, seconds, *, after_s=0.0, ratio=1.1, asks=lambda _step: True):
    """Bytes that a link receives in so many seconds, of which each byte of a record takes `ratio`."""
    throttle, link, before = ByteThrottle(RATE, 0.0), Link(sizes, RATE, ratio), 0
    for step in range(round((seconds + after_s) / STEP_S)):
        now = step * STEP_S
        if after_s and step == round(after_s / STEP_S):
            before = link.received
        if step % 100 == 0:
            link.told = int(link.received)
        if not asks(step):
            continue
        throttle.count_received(link.told)
        if most := throttle.available(now, POLL):
            throttle.consume(*link.count_received(most))
    return link.received - before


@pytest.mark.parametrize("size", [100, 300, 5_000, 80_000])
@pytest.mark.parametrize("ratio", [0.2, 1.0, 1.3])
@pytest.mark.slow
def test_a_backlog_is_received_at_the_rate(size, ratio):
    """Over half a minute within a twentieth, from the first second on, whatever a record takes and holds."""
    assert received_over(lambda: size, 30, ratio=ratio) == pytest.approx(30 * RATE, rel=0.05)


@settings(max_examples=10, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32), low=st.integers(500, 2_000), spread=st.integers(1, 40))
@pytest.mark.slow
def test_sizes_that_change_are_made_good(seed, low, spread):
    """What an estimate got wrong is put right when the client tells."""
    rng = random.Random(seed)
    got = received_over(lambda: rng.randint(low, low * spread), 30, after_s=5)
    assert got == pytest.approx(30 * RATE, rel=0.05)


def test_a_slot_that_stood_still_makes_up_for_it():
    """On a busy machine it asks for nothing during three seconds of every five."""
    got = received_over(lambda: 1_000, 30, after_s=5, asks=lambda step: step % 500 < 200)
    assert got == pytest.approx(30 * RATE, rel=0.05)


def test_what_was_not_used_is_not_saved_up():
    """An idle edge may not take more than a second's worth at once afterwards, nor a slot that slept for minutes."""
    throttle = ByteThrottle(RATE, 0.0)
    throttle.consume(10, 1_000)
    throttle.count_received(1_000)
    assert throttle.available(600.0, 10**9) <= 6 * RATE / 100
    for step in range(1, 100):
        throttle.available(600.0 + step / 10, POLL)
    assert throttle.available(610.0, 10**9) <= 1.2 * RATE / 100


def test_a_debt_is_waited_for_and_then_over():
    """A prefetch that came at once is paid for by a pause as long as it would have taken, and no longer."""
    throttle = ByteThrottle(RATE, 0.0)
    throttle.count_received(3 * RATE)
    assert not throttle.available(2.9, POLL)
    assert throttle.available(3.3, POLL)


def flows(edge, partitions, topic="orders"):
    """Partitions of an edge's topic."""
    return [EdgePartition(edge, topic, partition) for partition in partitions]


def test_the_shares_of_an_edge_add_up_to_its_limit():
    """Each slot has as much of the limit as of the partitions; another edge has none."""
    found = shares({"eu": 900}, {0: flows("eu", range(2)), 1: flows("eu", [2]) + flows("us", [0]), 2: flows("us", [1])})
    assert found == {0: {"eu": 600.0}, 1: {"eu": 300.0}, 2: {}}


def test_a_slot_with_heartbeats_alone_is_not_held():
    """They count for nothing in another slot's share, either."""
    found = shares(
        {"eu": 900}, {0: flows("eu", [0], HEARTBEATS), 1: [*flows("eu", [0]), *flows("eu", [0], HEARTBEATS)]}
    )
    assert found == {0: {}, 1: {"eu": 900.0}}


@settings(max_examples=examples(50), deadline=None, print_blob=True)
@given(st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from(["eu", "us", "ap"]), max_size=9), max_size=6))
def test_no_assignment_lets_more_through_than_the_limit(by_slot):
    """Whatever the driver places where."""
    limits = {"eu": 100_000, "us": 7_000_000}
    found = shares(
        limits, {slot: [EdgePartition(edge, "t", n) for n, edge in enumerate(of)] for slot, of in by_slot.items()}
    )
    sums = sum((Counter(own) for own in found.values()), Counter())
    assert all(total == pytest.approx(limits[edge]) for edge, total in sums.items())


class FilteringLink:
    """A client that is held by an unread queue, over a line of any speed; what it filters out is never taken.

    It sends a request whenever nothing holds it, and each brings what `slow_fetch` asks for.
    """

    def __init__(self, request, line, filtered):
        self.request, self.line, self.filtered = request, line, filtered
        self.received, self.queue, self.told, self.is_held, self.busy_until = 0, 0, 0, True, 0.0

    def step(self, now):
        if now >= self.busy_until and not self.is_held and not self.queue:
            self.busy_until = now + self.request / self.line
            self.received += self.request
            self.queue = 0 if self.filtered(now) else self.request

    def count_received(self, most, size):
        count = min(most, self.queue // size)
        self.queue -= count * size
        return count, count * size


@pytest.mark.parametrize("line", [3 * RATE, 100 * RATE])
def test_what_is_filtered_out_keeps_to_the_rate(line):
    """An edge of aborted transactions alone, from the first second on: all is received, and nothing is taken."""
    throttle, link, by_second = ByteThrottle(RATE, 0.0), FilteringLink(RATE // 2, line, lambda _now: True), [0]
    run(throttle, link, by_second, 90)
    assert worst_of_30_s(by_second) <= 1.05 * RATE
    assert by_second[-1] >= 0.7 * 90 * RATE


def test_filtered_and_taken_in_turn_keep_to_the_rate():
    """Ten seconds of records, ten of aborted transactions; each begins before the client has told of it."""
    throttle, by_second = ByteThrottle(RATE, 0.0), [0]
    link = FilteringLink(RATE // 2, 4 * RATE, lambda now: int(now / 10) % 2 == 1)
    run(throttle, link, by_second, 120)
    assert worst_of_30_s(by_second) <= 1.1 * RATE
    assert by_second[-1] >= 0.7 * 120 * RATE


def run(throttle, link, by_second, seconds, size=1_000):
    """A slot's loop: told four times a second, and only when it polls; held whenever nothing may be taken."""
    told = 0
    for step in range(round(seconds / STEP_S)):
        now = step * STEP_S
        link.step(now)
        if step % 25 == 0:
            told = link.received
        throttle.count_received(link.told)
        most = throttle.available(now, POLL)
        link.is_held = not most
        if most:
            link.told = told
            throttle.consume(*link.count_received(most, size))
        if step % 100 == 99:
            by_second.append(link.received)


def worst_of_30_s(by_second):
    """Bytes a second over the worst window."""
    return max(after - before for before, after in zip(by_second, by_second[30:], strict=False)) / 30


@settings(max_examples=15, deadline=None, print_blob=True)
@given(
    seed=st.integers(0, 2**32),
    limit=st.sampled_from([100_000, 1_000_000, 50_000_000]),
    partitions=st.lists(st.integers(1, 10), min_size=1, max_size=8),
)
@example(seed=87_386, limit=100_000, partitions=[5, 6, 6, 6])
def test_slots_together_keep_to_the_limit_over_half_a_minute(seed, limit, partitions):
    """Whatever records are, though the ratio changes tenfold every seven seconds; beside a request on its way."""
    rng = random.Random(seed)
    size, wire = rng.choice([10, 100, 500]), rng.choice([0.05, 0.3, 1.0])
    owned = {slot: flows("eu", range(count)) for slot, count in enumerate(partitions)}
    rates = [own["eu"] for own in shares({"eu": limit}, owned).values()]
    slots = [(ByteThrottle(rate, 0.0), HeldLink(rate / 2, size)) for rate in rates]
    by_second = []
    for step in range(round(60 / _SLOT_STEP_S)):
        now = step * _SLOT_STEP_S
        for throttle, link in slots:
            link.step(wire * (10 if int(now / 7) % 2 else 1))
            throttle.count_received(link.told)
            most = throttle.available(now, POLL)
            link.is_held = not most
            if most:
                link.told = int(link.received) if step % 5 == 0 else link.told
                throttle.consume(*link.count_received(most))
        if step % round(1 / _SLOT_STEP_S) == 0:
            by_second.append(sum(link.received for _, link in slots))
    on_its_way = sum(rates) / 2 + len(rates) * size * wire * 10
    assert worst_of_30_s(by_second[2:]) * 30 <= 1.06 * 30 * limit + on_its_way


_SLOT_STEP_S = 0.05


class HeldLink:
    """A client that sends one request at a time, for so many bytes of the line, while its queue is empty."""

    def __init__(self, request, size):
        self.request, self.size = request, size
        self.received, self.told, self.queue, self.is_held = 0.0, 0, 0, True

    def step(self, wire):
        if not self.is_held and not self.queue:
            self.queue = max(1, int(self.request / self.size / wire))
            self.received += self.queue * self.size * wire

    def count_received(self, most):
        count = min(most, self.queue)
        self.queue -= count
        return count, count * self.size
