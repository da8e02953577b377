"""Times that anybody may have made up, in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.moments import iso, utc
from aggregator.observe.edge_logs import UndecidedOffsets, hanging


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False))
def test_every_number_is_a_moment(milliseconds):
    """Within the calendar; its order is kept."""
    assert iso(milliseconds).endswith("Z")
    assert utc(milliseconds - 1) <= utc(milliseconds) <= utc(milliseconds + 1)


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20Z"),
        (-(2**63), "0001-01-01T00:00:00Z"),
        (2**63 - 1, "9999-12-31T23:59:59Z"),
    ],
)
def test_what_lies_outside_is_told_as_its_end(milliseconds, told):
    """Of the calendar that people write."""
    assert iso(milliseconds) == told


@pytest.mark.parametrize("since_ms", [-(10**17), -62_135_596_800_001, -1, 0, 10**17])
def test_a_transaction_of_any_time_is_told(since_ms):
    """A producer sets the time of its first record, and the sentence is part of every edge's status."""
    found = UndecidedOffsets(3, since_ms)
    assert found.since_ms == since_ms
    assert isinstance(hanging(found, 10**9), str)
