"""Who decided: a chain in which nothing can be changed, left out, moved or put in without being named."""

import json
import random

import pytest
from msgspec.structs import replace

from aggregator.audit.decisions import audit_decisions
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.decisions import BEGINNING, ChainLink, DecisionKind, NewDecision, decode, links, plan_append


def chain(length: int) -> list[LogRecord]:
    """Records of a topic with so many decisions, markers between them."""
    decided = [NewDecision(DecisionKind.GAP, f"e{n}", "me", 1_700_000_000_000 + n, "why") for n in range(length)]
    return [LogRecord(0, 2 * n, "pause", link.encode(), 0) for n, link in enumerate(links(decided, None, "User:me"))]


def kinds(records, head="") -> list[tuple[str, int]]:
    return [(one.kind, one.offset) for one in audit_decisions(records, head).faults]


def changed(record: LogRecord, **parts) -> LogRecord:
    body = json.loads(record.value) | parts
    return LogRecord(0, record.offset, record.key, json.dumps(body).encode(), 0)


def test_a_whole_chain_is_whole():
    """However long, and also when it went on from another process's last link."""
    assert audit_decisions([]).exit_code == 0
    records = chain(5)
    found = audit_decisions(records)
    assert (found.faults, found.exit_code, [one.number for one in found.links]) == ((), 0, [1, 2, 3, 4, 5])
    assert found.links[0].previous == BEGINNING
    (more,) = links([NewDecision(DecisionKind.GAP, "g", "you", 5)], decode(records[-1]), "")
    assert kinds([*records, LogRecord(0, 10, "gap", more.encode(), 0)], found.head) == []
    assert all("claimed" not in json.loads(one.value) for one in records)


@pytest.mark.parametrize(
    ("break_it", "told", "code"),
    [
        (lambda r: [*r[:2], changed(r[2], by="somebody else"), *r[3:]], [("altered", 4)], 1),
        (lambda r: [*r[:2], changed(r[2], reason=""), *r[3:]], [("altered", 4)], 1),
        (lambda r: [*r[:2], *r[3:]], [("missing", 6)], 5),
        (lambda r: r[2:], [("missing", 4)], 5),
        (lambda r: [*r[:1], r[2], r[1], *r[3:]], [("reordered", 2)], 1),
        (lambda r: [*r, r[1]], [("doubled", 2)], 1),
        (lambda r: [*r[:2], LogRecord(0, 4, "pause", b"{", 0), *r[3:]], [("damaged", 4), ("missing", 6)], 5),
        (lambda r: r[:3], [("missing", 5)], 5),
        (lambda _: [], [("missing", 0)], 5),
    ],
)
def test_every_break_is_named(break_it, told, code):
    """Altered, missing at either end or between, reordered, doubled, damaged; with the exit code of audits."""
    records = chain(5)
    head = audit_decisions(records).head
    assert kinds(break_it(records), head) == told
    assert audit_decisions(break_it(records), head).exit_code == code


def test_a_link_that_was_made_anew_does_not_fit():
    """Whoever hashes his own words breaks the chain behind them."""
    records = chain(4)
    forged = links([NewDecision(DecisionKind.GAP, "e1", "innocent", 1, "")], decode(records[0]), "")[0]
    assert kinds([records[0], LogRecord(0, 2, "pause", forged.encode(), 0), *records[2:]]) == [("altered", 4)]


@pytest.mark.parametrize("seed", range(50))
def test_any_change_of_any_chain_is_found(seed):
    """One thing is done to a chain: nothing that was done is told as nothing."""
    chance = random.Random(seed)
    records = chain(chance.randrange(2, 12))
    head, at = audit_decisions(records).head, chance.randrange(len(records))
    other = chance.choice([n for n in range(len(records)) if n != at])
    swapped = list(records)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    field, value = chance.choice([("by", "x"), ("reason", "x"), ("about", "x"), ("at_ms", 7), ("previous", "x"),
                                  ("principal", "x"), ("kind", "release"), ("hash", "x"), ("number", 99)])  # fmt: skip
    for broken in (
        swapped,
        [one for n, one in enumerate(records) if n != at],
        [*records[: at + 1], records[at], *records[at + 1 :]],
        [changed(one, **{field: value}) if n == at else one for n, one in enumerate(records)],
    ):
        assert audit_decisions(broken, head).exit_code, (seed, at, other, field)


def forged(number: int, previous: str = "f" * 64) -> bytes:
    """A link that somebody made up, with the hash that it must have."""
    link = ChainLink(number, previous, DecisionKind.GAP, "g", "boss", "User:boss", 1, "")
    return replace(link, hash=link.sealed).encode()


@pytest.mark.parametrize("text", ["\udcff", "a\ud800b", "\x1b[2J", "\u202e", "\0", "ü\U0001f600"])
def test_whatever_is_said_can_be_read_again(text):
    """Bytes of an argument, an account or a file's name that are no UTF-8 come as halves of surrogate pairs."""
    (link,) = plan_append(chain(2), [NewDecision(DecisionKind.PAUSE, text, text, 1, text)], text)[1]
    assert decode(LogRecord(0, 4, "pause", link.encode(), 0)) == link
    assert (link.number, link.about) == (3, text.encode("utf-8", "backslashreplace").decode())
    assert (
        plan_append(
            [LogRecord(0, 0, "pause", link.encode(), 0)], [NewDecision(DecisionKind.PAUSE, text, text, 1, "")], ""
        )[1]
        == []
    )


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (b"{", "damaged"),
        (None, "damaged"),
        (b'{"v": 2}', "damaged"),
        (forged(2**63 - 1), "altered"),
        (forged(99), "altered"),
        (forged(3), "altered"),
        (forged(6), "altered"),
    ],
)
@pytest.mark.parametrize("length", [0, 5])
def test_what_somebody_planted_keeps_nobody_from_deciding(planted, told, length):
    """It is named, once and for good; what is decided behind it follows from what was decided before it."""
    records = [*chain(length), LogRecord(0, 2 * length, "gap", planted, 0)]
    for number in range(3):
        (link,) = plan_append(records, [NewDecision(DecisionKind.GAP, "eu", "me", number)], "")[1]
        records.append(LogRecord(0, 2 * len(records), "pause", link.encode(), 0))
    assert kinds(records) == [(told, 2 * length)]
    assert audit_decisions(records).links[-1].number == length + 3
