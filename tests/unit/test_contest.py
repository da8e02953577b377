"""The contest's windows: cold and warm, from looks at what was delivered and spent."""

import pytest

from tests.bench.contest import Mark, cost, flat_from


def marks(*costs: float) -> list[Mark]:
    """Looks at tenths of a thousand records each, whose records cost so many microseconds."""
    found = [Mark(0.0, 0, 0.0, 0.0)]
    for one in costs:
        last = found[-1]
        found.append(Mark(last.at_s + 1, last.count + 1000, last.cpu_s + one * 1e-3, last.brokers_s + 1e-3))
    return found


@pytest.mark.parametrize(
    ("costs", "window", "is_flat"),
    [
        ((9, 6, 5, 4, 4, 4, 4, 4, 4, 4), 3, True),
        ((4, 4, 4, 4), 0, True),
        ((9, 6, 5, 4.1, 3.9, 4.0, 8, 8, 8, 8), 3, True),
        ((9, 6, 5, 4, 3, 2, 5, 2, 5, 2), 7, False),
        ((9, 6), 0, False),
    ],
)
def test_warm_is_from_where_three_tenths_cost_the_same(costs, window, is_flat):
    """The first such three; where there are none, the last three, and it is said."""
    assert flat_from(marks(*costs)) == (window, is_flat)


def test_a_cost_is_that_between_two_looks():
    """Per record, of what was moved in between."""
    seen = marks(9, 6, 3, 3)
    found = cost(seen[2], seen[4])
    assert (found.records_per_s, found.cpu_us, found.brokers_us) == (1000, 3.0, 1.0)
