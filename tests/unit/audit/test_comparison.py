"""The pure parts of a comparison: windows, origins as they are read, and the weighing of what is absent."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.audit.comparison import AuditedFlow, parsed, windows, within
from aggregator.audit.omissions import AuditWindow
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Origin
from aggregator.state.ledger import LedgerRecord

SOURCE = EdgePartition("eu", "orders.v1", 3)
KNOWN = {b"hub/eu/orders.v1/3": SOURCE}


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_windows_cover_a_segment_once(start, length, size):
    """In order, without a hole or an overlap, none larger than asked."""
    found = windows([IncarnationRange(2, OffsetRange(start, start + length))], size)
    assert [one for part in found for one in range(*part.offsets)] == list(range(start, start + length))
    assert all(0 < len(part.offsets) <= size and part.incarnation == 2 for part in found)
    assert all(left.offsets.end == right.offsets.start for left, right in itertools.pairwise(found))


@given(*[st.integers(0, 30)] * 4)
def test_a_segment_within_what_was_asked(start, end, first, last):
    """The intersection, never negative."""
    found = within(IncarnationRange(0, OffsetRange(start, max(start, end))), OffsetRange(first, last)).offsets
    assert set(range(*found)) == set(range(start, max(start, end))) & set(range(first, last))
    assert found.end >= found.start


@given(st.integers(0, 2**62), st.integers(0, 100))
def test_an_origin_is_read_as_it_is_written(offset, incarnation):
    """The header's own codec and the audit's quick one agree."""
    assert parsed(Origin("hub", *SOURCE, offset, incarnation).encode(), KNOWN) == (SOURCE, incarnation, offset, 0)


@pytest.mark.parametrize(
    "text",
    [None, b"", b"hub", b"//", b"hub/eu/orders.v1/3", b"hub/eu/orders.v1/3/x/0", b"hub/eu/orders.v1/4/1/0", b"\xff"],
)
def test_what_is_no_origin_of_a_known_flow_is_a_stranger(text):
    """Missing, cut, foreign or damaged: no source."""
    assert parsed(text, KNOWN)[0] is None


@pytest.mark.parametrize(
    ("absent", "suppressed", "missing", "explained"),
    [(3, 0, 3, 0), (3, 2, 3, 0), (3, 3, 0, 3), (3, 9, 0, 3), (0, 9, 0, 0)],
)
def test_absent_records_are_explained_by_number_or_not_at_all(absent, suppressed, missing, explained):
    """Suppressed records have no offsets: as many as were counted may be absent; one more, and all are named."""
    entry = LedgerRecord(0, "id", 100, 0, 0, suppressed=suppressed)
    log, every = OffsetRange(10, 120), OffsetRange(0, 2**62)
    flow = AuditedFlow(SOURCE, entry, AuditWindow(log, every), [IncarnationRange(0, OffsetRange(10, 100))])
    flow.absent = [(0, OffsetRange(20, 20 + absent))] if absent else []
    found = flow.closed(in_lake=False)
    assert (found.suppressed, found.not_yet, found.offsets) == (explained, 20, OffsetRange(10, 100))
    assert sum(one.records for one in found.findings) == missing
    assert all((one.kind, one.place) == ("missing", "central") for one in found.findings)
    assert all((str(suppressed) in one.note) == bool(suppressed) for one in found.findings)
