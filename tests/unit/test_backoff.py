"""Pauses between attempts: longer each time, bounded, and shorter by chance where chance is given."""

from itertools import accumulate

import pytest

from aggregator.backoff import Backoff


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        (Backoff(first_s=0.5, most_s=10.0), [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]),
        (Backoff(first_s=0.01, most_s=1.0, growth=1.5), [0.01, 0.015, 0.0225, 0.03375]),
        (Backoff(first_s=0.0, most_s=0.0), [0.0, 0.0, 0.0]),
        (Backoff(first_s=20.0, most_s=10.0), [10.0, 10.0]),
    ],
    ids=["doubled", "by half", "none", "bounded at once"],
)
def test_each_pause_is_longer_than_the_one_before_up_to_the_bound(pauses, expected):
    """The first failure is number one."""
    assert [pauses.pause_s(failures) for failures in range(1, len(expected) + 1)] == pytest.approx(expected)


def test_it_has_no_end():
    """What fails for days is still tried again."""
    assert Backoff(first_s=0.1, most_s=5.0).pause_s(10**9) == 5.0
    assert Backoff(first_s=0.0, most_s=0.0).pause_s(10**9) == 0.0


def test_chance_leaves_out_up_to_half():
    """Clients that failed together come back at different times, and none before half of the pause."""
    pauses = Backoff(first_s=1.0, most_s=10.0)
    assert [pauses.pause_s(2, chance=chance) for chance in (0.0, 0.5, 1.0)] == [2.0, 1.5, 1.0]


def test_who_knows_since_when_it_waits_waits_as_who_counts():
    """Both rules are one, where an attempt takes no time."""
    pauses = Backoff(first_s=0.5, most_s=30.0)
    counted = [pauses.pause_s(failures) for failures in range(1, 10)]
    assert [pauses.pause_after_s(waited_s) for waited_s in accumulate(counted[:-1], initial=0.0)] == counted
