"""Where a log was cut, by what can be read of it, and by what its edge says where nothing can."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import OffsetRange
from aggregator.kafka.readers.reader_events import TruncationPoint
from aggregator.kafka.readers.truncation import Found, search

# By offset: leader epoch, or how much it rises there, and what lies there.
PLACES = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from(["record", "marker", "damaged"])))


@given(places=PLACES, known=st.integers(0, 6))
def test_a_cut_is_found_behind_damaged_batches_and_markers(places, known):
    """The end lies between the old ones and the new ones, readable or not; what is new is told by its offset."""
    epoch, log = 0, []
    for rise, what in places:
        epoch += rise
        log.append((epoch, what))

    def found_at(offset):
        upto = offset
        for at, (own, what) in enumerate(log[offset:], offset):
            if what == "record":
                return Found((at, own), upto)
            upto = at + 1 if what == "damaged" else upto
        return Found(None, upto)

    border = next((at for at, (own, _) in enumerate(log) if own > known), len(log))
    found = search(found_at, lambda offset: offset <= border, OffsetRange(0, len(log)), known)
    old = [at + 1 for at, (own, what) in enumerate(log) if own <= known and what != "marker"]
    new = [at for at, (own, what) in enumerate(log) if own > known and what != "marker"]
    assert max(old, default=0) <= found.end <= border
    assert (found.newer is None) == (not new)
    if found.newer is not None:
        assert border <= found.newer <= new[0], "not before it: no position would be lost for nothing"
    epochs = [own for own, what in log if own > known and what == "record"]
    assert found.newer_epoch == (epochs[0] if epochs else None)


def test_an_edge_is_asked_only_where_nothing_can_be_read():
    """Each question costs a client of its own."""

    def reaches(_offset):
        raise AssertionError("asked")

    log = [0, 0, 1, 1, 2]
    for known, end in ((0, 2), (1, 4), (2, 5)):
        newer = (end, log[end]) if end < len(log) else (None, None)
        found = search(lambda offset: Found((offset, log[offset]), offset), reaches, OffsetRange(0, 5), known)
        assert found == TruncationPoint(end, *newer)
