"""Whose letter a record of the dead-letter topic is, whatever somebody has written there."""

import json
from collections import Counter

import pytest

from aggregator.coordinates import Copy, EdgePartition, Origin
from aggregator.errors import Failed
from aggregator.state.dead_letters import encode_resolution, fold_letters, is_passed, letter_copy, letter_key
from aggregator.state.ledger import LedgerRecord

SOURCE = EdgePartition("eu", "orders", 1)
LETTER = json.dumps({"v": 1, "edge": "eu", "topic": "orders", "reason": "too_large"}).encode()
KEY = letter_key(SOURCE, 7, 2).encode()


ORIGIN = Origin("hub", "eu", "orders", 1, 7, 2)


def test_letters_are_counted_by_who_wrote_them():
    """Not their resolutions, nor what is no letter; one that died again was written twice."""
    body = json.loads(LETTER) | {"partition": 1, "offset": 7, "incarnation": 2}
    values = [body, body | {"backfill": "b1"}, body | {"backfill": "b1"}, {"v": 1}]
    records = [(at, KEY, json.dumps(one).encode()) for at, one in enumerate(values)]
    key, resolution = encode_resolution(SOURCE, 7, 2, "b1", "delivered")
    counts: Counter[tuple[EdgePartition, str]] = Counter()
    told = [*records, (9, key.encode(), resolution)]

    def count(letter, backfill):
        counts[letter.source, backfill] += 1

    (letter,) = fold_letters(told, "h.dead-letters", count=count)
    assert letter.resolved_by == "b1"
    assert counts == {(SOURCE, ""): 1, (SOURCE, "b1"): 2}


def test_a_letter_names_its_record():
    """By its key."""
    assert letter_copy("hub", KEY, LETTER) == Copy(ORIGIN)


def test_a_letter_of_a_backfill_is_none_of_a_live_flow():
    """Of what a backfill's transaction left, the live ledger says that it was delivered: it is past all its offsets."""
    value = json.dumps(json.loads(LETTER) | {"backfill": "b1"}).encode()
    assert letter_copy("hub", KEY, value) == Copy(ORIGIN, "b1")


def test_a_resolution_is_of_the_backfill_that_wrote_it():
    """It has the letter's key."""
    key, value = encode_resolution(SOURCE, 7, 2, "b1", "delivered")
    assert letter_copy("hub", key, value) == Copy(ORIGIN, "b1")


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff\xfe",
        b"a/b/c",
        "eu/orders/\u00b2/7/2".encode(),
        b"eu/orders/-1/7/2",
        b"eu/orders/1/%s/2" % (b"9" * 5000),
    ],
)
def test_no_key_of_ours_names_no_record(key):
    """Settling reads what anybody has written there."""
    assert letter_copy("hub", key, LETTER) is None


@pytest.mark.parametrize(
    "value", [None, b"", b"5", b"[]", b"\xff", b"{", b"[" * 100_000, b'{"reason":"never heard of"}']
)
def test_no_letter_of_ours_names_no_record(value):
    """Neither does what is not JSON, or JSON without end."""
    assert letter_copy("hub", KEY, value) is None


WHOLE = {"v": 1, "edge": "eu", "topic": "orders", "partition": 1, "offset": 7, "incarnation": 2, "reason": "too_large"}


def folded(*records):
    return list(fold_letters(((at, key, value) for at, (key, value) in enumerate(records)), "h.dead-letters"))


def test_the_last_word_about_a_letter_holds():
    """What the letter said stays, beside what became of it; a resolution alone is one, too."""
    key, value = encode_resolution(SOURCE, 7, 2, "b1", "delivered", central="eu.orders")
    letter = KEY, json.dumps(WHOLE).encode()
    assert [(one.reason, one.resolved_by) for one in folded(letter)] == [("too_large", "")]
    resolved = ("b1", "delivered", "eu.orders")
    for records, reason in (([letter, (key.encode(), value)], "too_large"), ([(key.encode(), value)], "")):
        (one,) = folded(*records)
        assert (one.reason, one.resolved_by, one.outcome, one.central) == (reason, *resolved)


@pytest.mark.parametrize(
    "change",
    [
        {"edge": []},
        {"topic": {}},
        {"offset": 2**63},
        {"offset": 8},
        {"partition": -1},
        {"incarnation": "2"},
        {"reason": ""},
        {"reason": 5},
        {"timestamp_ms": 1e400},
        {"central": None},
    ],
)
def test_a_forged_letter_is_passed_over_and_hides_none(change):
    """Of another type, beyond its bounds, or of another record than its key names; a true one under its key stands."""
    forged, true = (KEY, json.dumps(WHOLE | change).encode()), (KEY, json.dumps(WHOLE).encode())
    assert folded(forged) == []
    assert folded(forged, true) == folded(true, forged) == folded(true)


def test_a_resolution_of_which_the_ledger_knows_nothing_hides_no_letter():
    """It is somebody else's, or the backfill that it names never came so far; a true one beside it still counts."""
    letter = KEY, json.dumps(WHOLE).encode()
    forged = encode_resolution(SOURCE, 7, 2, "nobody", "delivered")
    true = encode_resolution(SOURCE, 7, 2, "b1", "suppressed")
    for records, expected, offsets in (
        ([letter, forged], [("too_large", "", "")], [1]),
        ([forged], [], [0]),
        ([letter, true, forged], [("too_large", "b1", "suppressed")], [2]),
        ([letter, forged, true], [("too_large", "b1", "suppressed")], [1]),
        ([forged, letter], [("too_large", "", "")], []),
        ([letter, true, letter], [("too_large", "", "")], []),
    ):
        told = []
        log = [(at, key if isinstance(key, bytes) else key.encode(), value) for at, (key, value) in enumerate(records)]
        found = fold_letters(log, "h.dead-letters", foreign=told.append, proven=lambda one: one.resolved_by == "b1")
        assert [(one.reason, one.resolved_by, one.outcome) for one in found] == expected
        assert told == offsets


@pytest.mark.parametrize(
    ("incarnation", "next_offset", "proves"),
    [(2, 8, True), (2, 7, False), (3, 0, True), (1, 100, False), (None, 0, False)],
)
def test_a_letter_is_passed_by_a_ledger_behind_its_record(incarnation, next_offset, proves):
    """They commit together; the next offset lies behind the record."""
    (resolution,) = fold_letters([(0, KEY, encode_resolution(SOURCE, 7, 2, "b1", "delivered")[1])], "h.dead-letters")
    entry = None if incarnation is None else LedgerRecord(incarnation, "id", next_offset, 1, 0)
    assert is_passed(resolution, entry) is proves


@pytest.mark.parametrize("value", [None, b"", b"x", b"[]", b'{"v": 1}', b"[" * 5000])
def test_what_is_no_letter_is_told_by_its_offset(value):
    """A record of somebody else, or a tombstone, keeps no command from the letters."""
    told = []
    records = [(5, b"x", value), (6, KEY, json.dumps(WHOLE).encode()), (7, KEY, value)]
    (one,) = fold_letters(records, "h.dead-letters", foreign=told.append)
    assert (one.reason, told) == ("too_large", [5, 7])


def test_a_letter_of_a_later_version_is_refused():
    """What it says nobody here knows."""
    with pytest.raises(Failed, match="offset 0 is a dead letter"):
        folded((KEY, json.dumps(WHOLE | {"v": 2}).encode()))
