"""Ledger records: round trip, damage, and which record wins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from aggregator.coordinates import EdgePartition
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord, decode, winners

SOURCE = EdgePartition("eu", "orders", 3)
numbers = st.integers(0, 2**62)
gaps = st.none() | st.builds(Gap, st.sampled_from(GapKind), numbers, st.none() | numbers, numbers).filter(
    lambda gap: gap.is_whole
)
entries = st.builds(LedgerRecord, numbers, st.text(max_size=22), *[numbers] * 7, gaps, st.none() | numbers)


def logged(entry: LedgerRecord, *, partition: int = 0, offset: int = 0, source: EdgePartition = SOURCE) -> LogRecord:
    return LogRecord(partition, offset, str(source), entry.encode())


@given(entries)
def test_a_ledger_record_comes_back_as_it_was_written(entry):
    """Encoding and decoding is the identity."""
    assert decode(logged(entry), "h.ledger") == entry


@given(entries, st.data())
def test_a_damaged_ledger_record_is_refused_by_name(entry, data):
    """Fault 9: any changed byte is detected, and the error names topic, partition, offset and flow."""
    raw = bytearray(entry.encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 127))
    record = LogRecord(2, 7, str(SOURCE), bytes(raw))
    try:
        assert decode(record, "h.ledger") == entry, "only a change without meaning may pass"
    except FatalError as error:
        assert "h.ledger partition 2 offset 7" in error.message
        assert str(SOURCE) in error.message


def test_rule_d_the_highest_epoch_wins_and_then_the_last_in_log_order():
    """Rule D: an older epoch's record never wins, whatever its position; ties go to the end of the log."""
    old = LedgerRecord(0, "id", 900, epoch=3, slot=0)
    new = LedgerRecord(0, "id", 500, epoch=4, slot=1)
    newer = structs.replace(new, next_offset=501)
    log = [logged(new, partition=1, offset=0), logged(newer, partition=1, offset=1), logged(old, partition=2, offset=9)]
    assert winners(log, "h.ledger") == {SOURCE: newer}


def test_rule_d_after_a_recreation_the_smaller_offset_of_the_newer_incarnation_wins():
    """Rule D: the larger of two offsets is not the winner; the epoch decides."""
    before = LedgerRecord(0, "old", 1_000_000, epoch=1, slot=0)
    after = LedgerRecord(1, "new", 12, epoch=2, slot=0)
    assert winners([logged(before), logged(after, offset=1)], "t")[SOURCE] == after


def test_a_damaged_record_is_mended_by_the_next_one_of_its_key():
    """In the same partition, as a slot writes it, or whoever mends it; a tombstone tells no position."""
    good, bad = logged(LedgerRecord(0, "id", 5, 1, 0)), LogRecord(0, 1, str(SOURCE), b"x")
    later = LedgerRecord(0, "id", 9, 1, 0)
    assert winners([good, bad, logged(later, offset=2)], "t") == {SOURCE: later}
    for rest in ([], [logged(later, partition=1)], [LogRecord(0, 2, str(SOURCE), None)]):
        with pytest.raises(FatalError, match=f"t partition 0 offset 1: the ledger record of {SOURCE} is damaged"):
            winners([good, bad, *rest], "t")


def test_a_record_of_no_flow_is_refused_until_a_tombstone_takes_it_away():
    """Its place and its key are told, and what to do; a foreign tombstone is nothing."""
    good, foreign = logged(LedgerRecord(0, "id", 5, 1, 0)), LogRecord(0, 1, "nonsense", b"x")
    with pytest.raises(
        FatalError, match="t partition 0 offset 1: the ledger record of nonsense is of no flow"
    ) as refusal:
        winners([good, foreign], "t")
    assert "a tombstone of this key" in refusal.value.hint
    mended = [good, foreign, LogRecord(0, 2, "nonsense", None)]
    assert winners(mended, "t").keys() == {SOURCE}
    with pytest.raises(FatalError, match="offset 3"):
        winners([*mended, LogRecord(0, 3, "nonsense", b"x")], "t")


@pytest.mark.parametrize("raw", [None, b"", b"[]", b"{}", b'{"crc": 1}', b"\xff\xfe"])
def test_what_is_no_ledger_record_is_refused(raw):
    """Anything else in the ledger is an error, not an empty position."""
    with pytest.raises(FatalError):
        decode(LogRecord(0, 0, str(SOURCE), raw), "h.ledger")


def test_a_record_is_these_bytes():
    """What stands in a ledger today must be readable tomorrow: its text, the order of its fields, its checksum."""
    written = (
        b'{"crc":2745444919,"dead":0,"delivered":3,"epoch":3,"incarnation":0,"leader_epoch":0,"next_offset":7,"slot":5,'
        b'"stripped":0,"suppressed":0,"topic_id":"id","v":1}'
    )
    record = LedgerRecord(0, "id", 7, epoch=3, slot=5, delivered=3, leader_epoch=0)
    assert (record.encode(), decode(LogRecord(0, 0, str(SOURCE), written), "h.ledger")) == (written, record)


@pytest.mark.parametrize("kind", [GapKind.EXPIRED, GapKind.DAMAGED])
def test_a_gap_without_its_end_is_refused_by_name(kind):
    """Whoever may write the ledger could end every start by it."""
    gap = Gap(kind, 10, None, 7)
    value = LedgerRecord(0, "id", 10, 0, 0, gap=gap).encode()
    with pytest.raises(FatalError, match="offset 4: the ledger record of eu/orders/0 is damaged"):
        winners([LogRecord(2, 4, "eu/orders/0", value)], "h.ledger")
