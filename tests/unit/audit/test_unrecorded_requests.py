"""What a hub carries out is looked for in the chain of decisions: no request passes without its record."""

from dataclasses import replace

import pytest

from aggregator.audit.decisions import audit_decisions
from aggregator.audit.unrecorded_requests import Requested
from aggregator.backfill.backfill_state import Backfill, Signed
from aggregator.backfill.plan import Plan
from aggregator.backfill.request import Mode
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange, Position
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.decisions import DecisionKind, NewDecision, links
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.gap_rules import SkipRule
from aggregator.state.pauses import Pause
from aggregator.state.releases import Release
from aggregator.state.requests import Requests

GAP = Gap(GapKind.TRUNCATED, 5, 9, 7)
ACCEPTED = GapDecision(EdgePartition("eu", "orders", 0), Position(0, 5), GAP, "ada", 9, "known")
SKIPPED = replace(ACCEPTED, by="on_gap: skip", automatic=True)
PAUSE = Pause("eu", True, "ada", 9, "moved")
PLAN = Plan("h", {}, "d", Mode.MISSING, "", ())
RELEASE = Release("orders", CentralPartition("eu.orders", "id", 0), OffsetRange(5, 9), "ada", 9, "seen")


def told(decided, *, gaps=(), pauses=(), moves=(), releases=(), backfills=()):
    """What an audit says is carried out and on no record."""
    chain = links(decided, None, "")
    records = [LogRecord(0, 2 * n, one.kind.value, one.encode(), 0) for n, one in enumerate(chain)]
    requests = Requests(tuple(gaps), {one.edge: one for one in pauses}, {one.edge: one for one in moves})
    answer = audit_decisions(records, requested=Requested(requests, releases, backfills))
    assert {one.kind for one in answer.faults} <= {"unrecorded"}
    assert answer.exit_code == bool(answer.faults)
    return [one.note for one in answer.faults]


def on(kind, about, by="ada", reason=""):
    return NewDecision(kind, about, by, 1, reason)


ASKED, STOPPED = on(DecisionKind.BACKFILL, PLAN.id), on(DecisionKind.CANCEL, PLAN.id, "eve")


def skip(match, edges=None, *, skips=True):
    """A rule's word, as a hub puts it on record."""
    return on(DecisionKind.GAP, SkipRule.of(match, edges, skips=skips).about, "hub")


def test_what_was_decided_is_on_record():
    """A gap by its key, an edge by the newest word, a range by its key; what nobody asks for needs no request."""
    decided = [
        on(DecisionKind.GAP, ACCEPTED.key),
        on(DecisionKind.PAUSE, "eu", reason="moved"),
        on(DecisionKind.RELEASE, RELEASE.key),
    ]
    assert told(decided, gaps=[ACCEPTED], pauses=[PAUSE], releases=[RELEASE]) == []
    assert told([on(DecisionKind.GAP, ACCEPTED.key), on(DecisionKind.RELEASE, RELEASE.key)]) == []


def test_a_new_cluster_is_on_record():
    """By the name and the id: a decision about another cluster is none about this one."""
    move = ClusterAcceptance("eu", "new", "ada", 9, "moved")
    assert told([on(DecisionKind.CLUSTER, move.about)], moves=[move]) == []
    for decided in ([], [on(DecisionKind.CLUSTER, "cluster/eu/other")]):
        assert told(decided, moves=[move]) == ["edge eu is cluster new from now on, by ada (claimed)"]
    assert told([], moves=[replace(move, edge="")]) == ["central is cluster new from now on, by ada (claimed)"]


def test_what_nobody_decided_is_named():
    """With the name that its request claims."""
    assert told([], gaps=[ACCEPTED], pauses=[PAUSE], releases=[RELEASE]) == [
        "gap/expired/eu/orders/0/0/5/9 is accepted by ada (claimed)",
        "edge eu is paused by ada (claimed)",
        "release/orders/eu.orders@id-0/5-9 is let pass by ada (claimed)",
    ]
    grown = replace(ACCEPTED, gap=replace(GAP, end=99))
    assert len(told([on(DecisionKind.GAP, ACCEPTED.key)], gaps=[grown])) == 1


@pytest.mark.parametrize(
    ("decided", "cancelled", "note"),
    [
        ([ASKED], None, ""),
        ([ASKED, STOPPED], Signed("eve", 5), ""),
        ([ASKED, STOPPED, ASKED], None, ""),
        ([], None, "is asked for by ada (claimed)"),
        ([on(DecisionKind.BACKFILL, "another"), STOPPED], None, "is asked for by ada (claimed)"),
        ([ASKED], Signed("eve", 5), "is cancelled by eve (claimed)"),
        ([ASKED, STOPPED], Signed("bob", 5), "is cancelled by bob (claimed)"),
        ([ASKED, STOPPED], None, "was cancelled, and goes on"),
    ],
)
def test_a_backfill_is_asked_for_and_cancelled_on_record(decided, cancelled, note):
    """The newest word about it is what becomes of it."""
    backfill = Backfill(PLAN, Signed("ada", 1), cancelled=cancelled)
    assert told(decided, backfills=[backfill]) == ([f"backfill {PLAN.id} {note}"] if note else [])


@pytest.mark.parametrize(
    "pause",
    [replace(PAUSE, paused=False), replace(PAUSE, by="eve"), replace(PAUSE, reason=""), replace(PAUSE, edge="us")],
)
def test_an_edge_stands_as_the_newest_word_on_record_says(pause):
    """Another word, by another name, for another reason, or about another edge, is none of it."""
    assert len(told([on(DecisionKind.PAUSE, "eu", reason="moved")], pauses=[pause])) == 1 + (pause.edge != "eu")
    assert told([on(DecisionKind.PAUSE, "eu", reason="moved"), on(DecisionKind.RESUME, "eu")], pauses=[PAUSE]) != []


def test_a_pause_that_was_taken_back_by_nobody_is_named():
    """Whoever may write requests could leave a tombstone; what was resumed on record needs no request."""
    assert told([on(DecisionKind.PAUSE, "eu", reason="moved")]) == ["edge eu was paused, and goes on"]
    assert told([on(DecisionKind.PAUSE, "eu"), on(DecisionKind.RESUME, "eu")]) == []


@pytest.mark.parametrize(
    ("decided", "is_on_record"),
    [
        ([skip("orders")], True),
        ([skip("a|ord.*", ("eu", "us"))], True),
        ([skip("orders"), skip("orders", skips=False)], True),
        ([], False),
        ([skip("order")], False),
        ([skip("orders", ("us",))], False),
        ([skip("orders", ())], False),
        ([skip("(", None)], False),
        ([skip("orders", skips=False)], False),
        ([on(DecisionKind.GAP, "topics orders: on_gap skip")], False),
        ([on(DecisionKind.POLICY, "topics orders at every edge: on_gap skip")], False),
    ],
)
def test_what_a_rule_skips_is_of_a_rule_on_record(decided, is_on_record):
    """That a request says it was a rule makes it none."""
    assert (told(decided, gaps=[SKIPPED]) == []) is is_on_record
    assert told(decided, gaps=[replace(SKIPPED, automatic=False)]) != []


def test_what_the_protocol_decides_needs_no_record():
    """A recreated topic's new life, and heartbeats, which are a signal."""
    reborn = replace(SKIPPED, gap=Gap(GapKind.RECREATED, 5, None, 7), by="the hub")
    beat = replace(SKIPPED, source=EdgePartition("eu", "heartbeats", 0))
    assert told([], gaps=[reborn, beat]) == []
