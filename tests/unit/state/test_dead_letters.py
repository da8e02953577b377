"""Whose letter a record of the dead-letter topic is, whatever somebody has written there."""

import json

import pytest

from aggregator.coordinates import Copy, EdgePartition, Origin
from aggregator.state.dead_letters import encode_resolution, letter_copy, letter_key
from aggregator.state.ledger import LedgerRecord
from aggregator.state.letter_log import LetterLog, LetterWriter, doubted

SOURCE = EdgePartition("eu", "orders", 1)
LETTER = json.dumps({"v": 1, "edge": "eu", "topic": "orders", "reason": "too_large"}).encode()
KEY = letter_key(SOURCE, 7, 2).encode()


ORIGIN = Origin("hub", "eu", "orders", 1, 7, 2)


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
        "eu/orders/\u0661/7/2".encode(),
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


def letter_log(*records, of_backfills=False):
    numbered = [(at, key if isinstance(key, bytes) else key.encode(), value) for at, (key, value) in enumerate(records)]
    return LetterLog(numbered, "h.dead-letters", of_backfills=of_backfills)


def ledger(**next_offsets):
    """Where the live flow (`live`) and backfills stand in incarnation 2; of others nothing was written."""
    at = {"" if name == "live" else name: LedgerRecord(2, "id", to, 1, 0) for name, to in next_offsets.items()}
    return lambda source, backfill: at.get(backfill) if source == SOURCE else None


ALL = ledger(live=100, b1=100)


def folded(*records, before=ALL, after=ALL):
    return list(letter_log(*records).letters(before, after))


def died(offset=7, **change):
    """The letter of a record, as the live flow wrote it."""
    return letter_key(SOURCE, offset, 2), json.dumps(WHOLE | {"offset": offset} | change).encode()


def resolved(backfill="b1", outcome="delivered"):
    return encode_resolution(SOURCE, 7, 2, backfill, outcome)


def words(found):
    return [(one.reason, one.resolved_by, one.outcome) for one in found]


DEAD, DELIVERED = ("too_large", "", ""), ("too_large", "b1", "delivered")


def test_the_last_word_about_a_letter_holds():
    """What the letter said stays, beside what became of it; a resolution alone is one, too."""
    key, value = encode_resolution(SOURCE, 7, 2, "b1", "delivered", central="eu.orders")
    letter = KEY, json.dumps(WHOLE).encode()
    assert [(one.reason, one.resolved_by) for one in folded(letter)] == [("too_large", "")]
    for records, reason in (([letter, (key, value)], "too_large"), ([(key, value)], "")):
        (one,) = folded(*records)
        assert (one.reason, one.resolved_by, one.outcome, one.central) == (reason, "b1", "delivered", "eu.orders")


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


@pytest.mark.parametrize(
    ("records", "expected", "unproven_offsets"),
    [
        ([died(), resolved("nobody")], [DEAD], [1]),
        ([resolved("nobody")], [], [0]),
        ([died(), resolved(), resolved("nobody")], [DELIVERED], [2]),
        ([died(), resolved("nobody"), resolved()], [DELIVERED], [1]),
        ([resolved("nobody"), died()], [DEAD], [0]),
        ([died(), resolved(), died(backfill="nobody")], [DELIVERED], [2]),
        ([died(backfill="nobody")], [], [0]),
        ([died(), resolved("b2")], [DEAD], [1]),
        ([died(), resolved(), died(backfill="b2")], [DELIVERED], [2]),
        ([died(backfill="b2")], [], [0]),
        ([died(offset=100)], [], [0]),
        ([died(backfill="b1", reason="no_field")], [("no_field", "", "")], []),
        ([died(), died(backfill="b1", reason="no_field"), resolved()], [("no_field", "b1", "delivered")], []),
    ],
)
def test_what_no_ledger_proves_is_a_strangers(records, expected, unproven_offsets, caplog):
    """Its writer never was, or has not come so far (`b2`): it explains nothing, hides nothing, and is warned of."""
    positions = ledger(live=100, b1=8, b2=7)
    told = letter_log(*records)
    assert words(told.letters(positions, positions)) == expected
    told.warn_of_unproven(positions, positions)
    lines = [
        f"h.dead-letters: 1 record passed over, not proven by the ledger: offset {at} first; who else writes it?"
        for at in unproven_offsets
    ]
    assert caplog.messages == lines


def test_a_letter_counts_from_the_ledger_that_was_read_before_it():
    """What a flow has passed since is counted in no record that was read; a resolution counts at once."""
    before, after = ledger(live=7, b1=7), ledger(live=8, b1=8)
    assert folded(died(), before=before, after=after) == []
    assert folded(died(backfill="b1"), before=before, after=after) == []
    assert words(folded(died(), resolved(), before=ledger(live=8), after=after)) == [DELIVERED]
    told = letter_log(died(), died(backfill="b1"), resolved())
    assert not told.count_by_writer(before)
    told.warn_of_unproven(before, after)


def test_letters_and_resolutions_are_counted_by_who_wrote_them():
    """One that died again was written twice; what is none, or lies behind its writer's position, counts for nothing."""
    told = letter_log(
        died(),
        died(backfill="b1"),
        died(backfill="b1"),
        (KEY, b'{"v":1}'),
        resolved(),
        died(8, backfill="b1"),
        died(100),
    )
    assert told.count_by_writer(ledger(live=100, b1=8)) == {
        LetterWriter(SOURCE, "", False): 1,
        LetterWriter(SOURCE, "b1", False): 2,
        LetterWriter(SOURCE, "b1", True): 1,
    }


def test_a_live_flow_writes_no_letter_of_a_generation():
    """A record has one for each generation that it did not get into, of the backfill that makes it."""
    own = [died(backfill="b1", central=name) for name in ("eu.v2", "eu.v3")]
    assert len(list(letter_log(*own, of_backfills=True).letters(ALL, ALL))) == 2
    assert not list(letter_log(died(central="eu.v2"), of_backfills=True).letters(ALL, ALL))


@pytest.mark.parametrize(
    ("incarnation", "next_offset", "proves"),
    [(2, 8, True), (2, 7, False), (3, 0, True), (1, 100, False), (None, 0, False)],
)
def test_a_letter_is_passed_by_a_ledger_behind_its_record(incarnation, next_offset, proves):
    """They commit together; the next offset lies behind the record."""
    entry = None if incarnation is None else LedgerRecord(incarnation, "id", next_offset, 1, 0)
    for record in (died(), died(backfill="b1"), resolved()):
        assert bool(folded(record, before=lambda *_: entry, after=lambda *_: entry)) is proves


@pytest.mark.parametrize("value", [None, b"", b"x", b"[]", b'{"v": 1}', b"[" * 5000])
def test_what_is_no_letter_is_told_by_its_offset(value, caplog):
    """A record of somebody else, or a tombstone, keeps no command from the letters."""
    told = LetterLog([(5, b"x", value), (6, KEY, json.dumps(WHOLE).encode()), (7, KEY, value)], "h.dead-letters")
    assert words(told.letters(ALL, ALL)) == [DEAD]
    told.warn_of_unproven(ALL, ALL)
    assert caplog.messages == [
        "h.dead-letters: 2 records passed over, not proven by the ledger: offset 5 first; who else writes it?"
    ]


@pytest.mark.parametrize(
    ("key", "is_doubted"),
    [
        (letter_key(SOURCE, 7, 2), True),
        (letter_key(SOURCE, 200, 2), False),  # the flow has not come to it
        (letter_key(SOURCE._replace(topic="other"), 7, 2), False),
        ("any", False),
        ("", False),
    ],
)
def test_what_a_later_version_wrote_puts_its_flow_in_doubt_and_no_other(key, is_doubted):
    """It may be anything, a resolution too. Of no record that a flow has passed it is a stranger's."""
    told = letter_log(died(), (key, b'{"v":2}'))
    why = "a dead letter of version 2, which this hub does not know (h.dead-letters offset 1)"
    entry = LedgerRecord(2, "id", 100, 1, 0, dead=1)

    def passed(source, _backfill):
        return entry if source == SOURCE else None

    assert doubted([told], passed) == ({SOURCE: why} if is_doubted else {})
    assert words(told.letters(passed, passed)) == [DEAD]
    assert told.unproven_offsets(passed, passed) == ([] if is_doubted else [1])
