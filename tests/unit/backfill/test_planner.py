"""The planner against a naive model, and the arithmetic below it: nothing that central may have is ever written."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from aggregator.backfill.facts import CentralFacts
from aggregator.backfill.plan_builder import asked_letters, gone_letters
from aggregator.backfill.planner import (
    EdgePartitionState,
    FlowAtCentral,
    SampleFacts,
    eligible_offsets,
    plan_partition,
    still_writable,
)
from aggregator.backfill.ranges import difference, holds, intersection, offset_count, offsets_of, union
from aggregator.backfill.request import Ask, Bound, Letters, Mode, Window
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.errors import FatalError
from aggregator.state.dead_letters import DELIVERED, Letter, encode_resolution, letter_key
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from aggregator.state.letter_log import LetterLog, doubted

FLOW = EdgePartition("eu", "orders", 0)
MOST = 40
range_ = st.builds(lambda a, b: OffsetRange(min(a, b), max(a, b)), st.integers(0, MOST), st.integers(0, MOST))
ranges = st.lists(range_, max_size=5).map(tuple)


def numbers(some) -> set[int]:
    return {offset for one in some for offset in range(*one)}


@given(ranges, ranges)
def test_ranges_are_sets_of_offsets(left, right):
    """Union, intersection and difference are those of the offsets; results are ascending and do not touch."""
    for found, expected in (
        (union(left), numbers(left)),
        (intersection(left, right), numbers(left) & numbers(right)),
        (difference(left, right), numbers(left) - numbers(right)),
    ):
        assert numbers(found) == expected
        assert offset_count(found) == len(expected)
        assert union(found) == found


@dataclass(frozen=True)
class Case:
    """A flow whose log was once cut at `cut`, if at all, and read again from there under the next incarnation.

    `passed` was passed by backfills of the first incarnation; an open gap `held` says that the log is cut once more.
    """

    position: int
    cut: int | None
    unread: tuple[OffsetRange, ...]
    letters: frozenset[tuple[int, int]]
    passed: tuple[OffsetRange, ...]
    log: OffsetRange
    asked: tuple[OffsetRange, ...]
    own: frozenset[tuple[int, int]] = frozenset()
    held: int | None = None

    @property
    def upto(self) -> int:
        """What of the log is as it was read."""
        return self.position if self.held is None else min(self.position, self.held)

    def had(self) -> set[int]:
        """What backfills have passed of the records that are there now."""
        return {offset for offset in numbers(self.passed) if self.life(offset) == 0 and offset < self.upto}

    @property
    def incarnation(self) -> int:
        return 0 if self.cut is None else 1

    def life(self, offset: int) -> int:
        """Which incarnation an offset belongs to."""
        return 1 if self.cut is not None and offset >= self.cut else 0

    def flow(self) -> FlowAtCentral:
        """As central has it; `unread` was noted in the first incarnation."""
        lost = Gap(GapKind.TRUNCATED, self.cut or 0, None, 0)
        rewind = () if self.cut is None else (GapDecision(FLOW, Position(0, MOST), lost, "ada", 0, ""),)
        unread = tuple(IncarnationRange(0, one) for one in union(self.unread))
        gap = None if self.held is None else Gap(GapKind.TRUNCATED, self.held, None, 0)
        entry = LedgerRecord(self.incarnation, "id", self.position, 1, 0, unread=unread, gap=gap)
        passed = tuple(IncarnationRange(0, one) for one in self.passed)
        return FlowAtCentral(FLOW, entry, rewind, self.letters, passed, self.own)

    def missing(self) -> set[int]:
        """What central never got, offset by offset."""
        here = {offset for offset in range(self.upto) if self.life(offset) == 0}
        return ((numbers(self.unread) & here) - self.had()) | self.dead()

    def dead(self, own: bool = False) -> set[int]:
        """Letters that speak of what lies there now, the live flow's or the generation's own."""
        letters = self.own if own else self.letters
        return {offset for at, offset in letters if offset < self.upto and at == self.life(offset)}


letters = st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, MOST)), max_size=8)
cases = st.builds(
    Case,
    position=st.integers(0, MOST),
    cut=st.none() | st.integers(0, MOST),
    unread=ranges,
    letters=letters,
    passed=ranges,
    log=range_,
    asked=ranges,
    own=letters,
    held=st.none() | st.integers(0, MOST),
)


@given(cases)
def test_into_a_live_topic_goes_what_central_never_got_and_nothing_else(case):
    """Unread by the flow's own word, in its own life, not passed by a backfill; or dead and not resolved."""
    at_central = case.flow()
    assert numbers(eligible_offsets(Mode.MISSING, at_central)) == case.missing()
    plan = plan_partition(Mode.MISSING, at_central, EdgePartitionState("id", case.log, case.asked), "eu.orders")
    written = numbers(offsets_of(plan.segments))
    asked = numbers(case.asked) & set(range(case.log.end))
    assert written == case.missing() & asked & set(range(*case.log))
    assert numbers(plan.taken) == (case.missing() & asked) - set(range(*case.log))
    assert all(case.life(offset) == at for at, part in plan.segments for offset in range(*part))
    assert written <= numbers(plan.effective) <= numbers(plan.asked) <= numbers(case.asked)
    assert plan.already_backfilled == len(numbers(plan.effective)) - len(written)
    assert plan.ahead == len({one for one in asked & set(range(*case.log)) if one >= case.upto})


@given(cases)
def test_a_generation_gets_what_the_hub_has_passed_less_what_it_has(case):
    """Up to the live position and not beyond: what is dead is the live flow's matter, and comes by a replay."""
    plan = plan_partition(Mode.INTO, case.flow(), EdgePartitionState("id", case.log, case.asked), "eu.orders.v2")
    there = set(range(case.upto)) & set(range(*case.log)) & numbers(case.asked)
    assert numbers(offsets_of(plan.segments)) == there - case.had() - case.dead()


@given(cases)
def test_a_restate_reads_what_came_by_a_replay_and_not_what_is_dead(case):
    """A letter that is resolved is a row as any other; one that is not has none, and nobody takes out what has none."""
    plan = plan_partition(
        Mode.RESTATE, case.flow(), EdgePartitionState("id", case.log, case.asked), "eu.orders.restate-1"
    )
    resolved = replace(case, letters=frozenset())
    after = plan_partition(
        Mode.RESTATE, resolved.flow(), EdgePartitionState("id", case.log, case.asked), "eu.orders.restate-1"
    )
    planned, again = (numbers(offsets_of(one.segments)) for one in (plan, after))
    there = set(range(case.upto)) & set(range(*case.log)) & numbers(case.asked) - case.had()
    assert (again, planned) == (there, there - case.dead())


@given(cases, cases, st.frozensets(st.integers(0, MOST)))
def test_a_generations_own_letters_come_by_a_replay_alone(case, later, only):
    """Those that were asked for; and an epoch writes one only while it is not resolved, whoever has passed it."""
    shown = EdgePartitionState("id", case.log, case.asked)
    plan = plan_partition(Mode.INTO, case.flow(), shown, "eu.orders.v2", only=only)
    planned = numbers(offsets_of(plan.segments))
    assert planned == case.dead(own=True) & only & numbers(case.asked) & set(range(*case.log))
    assert plan.letters == len(planned)
    now = numbers(offsets_of(still_writable(Mode.INTO, later.flow(), plan.segments)))
    fresh = set(range(later.upto)) - later.had() - later.dead()
    assert now <= planned & (later.dead(own=True) | fresh)


@given(cases, cases)
@pytest.mark.slow
def test_a_frozen_plan_shrinks_with_what_others_write_and_never_grows(case, later):
    """An epoch writes what was planned and is still missing: never more than the plan, never what is there by now."""
    plan = plan_partition(Mode.MISSING, case.flow(), EdgePartitionState("id", case.log, case.asked), "eu.orders")
    now = still_writable(Mode.MISSING, later.flow(), plan.segments)
    assert numbers(offsets_of(now)) <= numbers(offsets_of(plan.segments)) & later.missing()
    assert all(later.life(offset) == at for at, part in now for offset in range(*part))


def test_a_recreated_topic_has_nothing_of_what_was_asked():
    """Offsets of another life mean nothing: all of it is said to be taken."""
    case = Case(20, None, (OffsetRange(0, 10),), frozenset(), (), OffsetRange(0, 20), (OffsetRange(0, 20),))
    plan = plan_partition(Mode.MISSING, case.flow(), EdgePartitionState("new", case.log, case.asked), "eu.orders")
    assert (plan.segments, plan.taken) == ((), (OffsetRange(0, 20),))
    assert "created again" in plan.warnings[0]


@pytest.mark.parametrize(
    ("sampled", "word"),
    [
        (SampleFacts(disordered=True), "not in order"),
        (SampleFacts(refusal="central keeps an hour"), "central keeps an hour"),
    ],
)
def test_a_plan_warns(sampled, word):
    """Timestamps that go back, and records that central would delete at once: said, and the latter not written."""
    case = Case(20, None, (OffsetRange(0, 10),), frozenset(), (), OffsetRange(0, 20), (OffsetRange(0, 20),))
    plan = plan_partition(
        Mode.MISSING, case.flow(), EdgePartitionState("id", case.log, case.asked, sampled), "eu.orders"
    )
    assert any(word in warning for warning in plan.warnings)
    assert bool(plan.segments) is not bool(sampled.refusal)


def test_a_plan_says_that_rows_of_a_compacted_edge_may_stay():
    """How many nobody knows before; what the edge has is written."""
    case = Case(20, None, (), frozenset(), (), OffsetRange(0, 20), (OffsetRange(0, 20),))
    plan = plan_partition(
        Mode.RESTATE, case.flow(), EdgePartitionState("id", case.log, case.asked, compacted=True), "c"
    )
    assert ["compacted at the edge" in warning for warning in plan.warnings] == [True]
    assert plan.offsets == 20


def test_an_estimate_knows_density_and_size():
    """A sparse log holds fewer records than offsets; dead letters are records, each of them."""
    case = Case(30, None, (OffsetRange(0, 20),), frozenset({(0, 25)}), (), OffsetRange(0, 30), (OffsetRange(0, 30),))
    shown = EdgePartitionState("id", case.log, case.asked, SampleFacts(density=0.5, record_bytes=100.0))
    plan = plan_partition(Mode.MISSING, case.flow(), shown, "eu.orders")
    assert (plan.offsets, plan.letters, plan.records, plan.bytes) == (21, 1, 11, 1100)


def letters(live=0, died=0, resolved=0, never=0):
    """A topic with so many letters of the live flow, and letters and resolutions of a backfill, or of none there is."""
    body = {"v": 1, "edge": FLOW.edge, "topic": FLOW.topic, "partition": 0, "offset": 0, "incarnation": 0}
    of = {"": live, "aa": died, "never was": never}
    told = [
        json.dumps(body | {"reason": "too_large", "backfill": one}).encode() for one, n in of.items() for _ in range(n)
    ]
    told += [encode_resolution(FLOW, 0, 0, "aa", DELIVERED)[1]] * resolved
    return LetterLog([(at, letter_key(FLOW, 0, 0).encode(), value) for at, value in enumerate(told)], "h.dead-letters")


@pytest.mark.parametrize(
    ("there", "dead", "resolved", "doubts"),
    [
        (letters(live=3), 3, None, ""),
        (letters(live=2), 3, None, ""),  # records of that topic were deleted
        (letters(live=4), 3, None, "4 dead letters, where the ledger counts 3"),
        (letters(live=3, died=1), 3, 1, ""),
        (letters(live=3, died=4), 3, 1, "4 dead letters, where the ledger counts 3"),
        (letters(live=3, resolved=1), 3, 1, ""),
        (letters(live=3, resolved=2), 3, 1, "2 resolved dead letters, where the ledger counts 1"),
        # A backfill of a version that did not count them has resolved what it delivered and suppressed, at most.
        (letters(live=3, resolved=5), 3, None, ""),
        (letters(live=3, resolved=6), 3, None, "6 resolved dead letters, where the ledger counts 5"),
        (letters(never=1), 3, 1, ""),  # it explains nothing, and hides nothing
    ],
)
def test_more_letters_than_the_ledger_counts_are_not_believed(there, dead, resolved, doubts):
    """The live flow's and each backfill's are counted apart, as the ledger does; doubted ones resolve nothing."""
    entry = LedgerRecord(0, "id", 9, 1, 0, dead=dead, resolved=resolved, delivered=4, suppressed=1)
    found = doubted([there], lambda _, backfill: entry if backfill in ("", "aa") else None)
    assert found == ({FLOW: doubts} if doubts else {})
    letter = Letter(FLOW, 3, 0, "too_large", 0, None, 1)
    central = CentralFacts({FLOW: entry}, {}, {FLOW: (letter,)}, {}, {}, found)
    assert central.flow(FLOW).dead == (frozenset() if doubts else {3})
    with pytest.raises(FatalError, match=doubts) if doubts else nullcontext():
        central.require_own_letters([FLOW])


def test_a_record_of_a_generations_plan_that_dies_meanwhile_is_read_all_the_same():
    """Left out, it would count as passed, and no further run would bring it. What the generation has is left alone."""
    frozen = (IncarnationRange(0, OffsetRange(0, 30)),)
    entry = LedgerRecord(0, "id", 40, 1, 0, unread=(IncarnationRange(0, OffsetRange(10, 20)),))
    at_central = FlowAtCentral(
        FLOW, entry, letters=frozenset({(0, 15), (0, 25)}), passed=(IncarnationRange(0, OffsetRange(25, 26)),)
    )
    assert still_writable(Mode.INTO, at_central, frozen) == (
        IncarnationRange(0, OffsetRange(0, 25)),
        IncarnationRange(0, OffsetRange(26, 30)),
    )
    assert IncarnationRange(0, OffsetRange(0, 15)) in still_writable(Mode.RESTATE, at_central, frozen), "it has no row"
    assert holds(eligible_offsets(Mode.INTO, at_central), 15) is False, "a new plan leaves it to its letter"


@pytest.mark.parametrize(("own", "written"), [((), ()), ((15,), (15,))])
def test_a_letter_whose_record_a_generation_has_is_not_written_into_it_once_a_rule_names_it(own, written):
    """It died in the live topic only. What died on the way into the generation, too, comes by its letter."""
    entry = LedgerRecord(0, "id", 40, 1, 0, dead=1)
    of_v2 = tuple(Letter(FLOW, at, 0, "too_large", 0, None, 1, central="eu.orders.v2") for at in own)
    letters = {FLOW: (Letter(FLOW, 15, 0, "too_large", 0, None, 1),)}
    central = CentralFacts({FLOW: entry}, {}, letters, {(FLOW, "eu.orders.v2"): of_v2})
    brought = (IncarnationRange(0, OffsetRange(0, 30)),)
    at_central = central.flow(FLOW, brought, "eu.orders.v2", brought)
    shown = EdgePartitionState("id", OffsetRange(0, 40), (OffsetRange(0, 40),))
    for only in (frozenset({15}), None):
        plan = plan_partition(Mode.MISSING, at_central, shown, "eu.orders.v2", only=only)
        assert numbers(offsets_of(plan.segments)) == set(written)
    assert central.flow(FLOW, brought, "eu.orders").dead == {15}, "into any other topic it may go"


@pytest.mark.parametrize("only", [Letters(reason="undecodable"), Letters(keys=(letter_key(FLOW, 5, 0),))])
def test_a_letter_of_a_former_incarnation_asks_for_no_record_of_the_present_one(only):
    """The same offset is another record there; that the one that was asked for is gone is told."""
    entry = LedgerRecord(1, "id", 9, 1, 0, dead=2)
    known = (Letter(FLOW, 5, 0, "undecodable", 0, None, 1), Letter(FLOW, 5, 1, "unproven_cycle", 0, None, 1))
    central, ask = CentralFacts({FLOW: entry}, {}, {FLOW: known}, {}), Ask((Window(),), letters=only)
    asked = asked_letters(ask, central, FLOW, "eu.orders")
    assert (asked, central.flow(FLOW).present(asked)) == ({(0, 5)}, frozenset())
    shown = EdgePartitionState("id", OffsetRange(0, 9), (OffsetRange(0, 9),))
    plan = plan_partition(Mode.MISSING, central.flow(FLOW), shown, "eu.orders", only=frozenset())
    assert list(gone_letters(ask, central, [plan])) == [letter_key(FLOW, 5, 0)]


@pytest.mark.parametrize(
    ("shown", "window", "gone"),
    [
        (EdgePartitionState("id", OffsetRange(0, 9), (OffsetRange(0, 9),)), Window(), {7, 20}),
        (EdgePartitionState("id", OffsetRange(5, 9), (OffsetRange(5, 9),)), Window(), {3, 7, 20}),
        # Refused, or outside of what is asked: the edge has their records.
        (
            EdgePartitionState("id", OffsetRange(0, 9), (OffsetRange(0, 9),), SampleFacts(refusal="no")),
            Window(),
            {7, 20},
        ),
        (EdgePartitionState("id", OffsetRange(5, 9), ()), Window(until=Bound("5", offset=5)), {3}),
        (EdgePartitionState("id", OffsetRange(5, 9), ()), Window(since=Bound("5", offset=5)), {7, 20}),
        (EdgePartitionState("id", OffsetRange(5, 9), ()), Window(edge="us"), set()),
        (EdgePartitionState("another", OffsetRange(0, 9), ()), Window(), {3, 6, 7, 20}),
    ],
)
def test_a_letter_is_gone_if_the_edge_has_its_record_no_more(shown, window, gone):
    """Whether it would be written is another question. One of a former life may lie behind the end of today's log."""
    entry = LedgerRecord(1, "id", 9, 1, 0, dead=3)
    known = tuple(Letter(FLOW, at, life, "undecodable", 0, None, 1) for at, life in ((3, 1), (6, 1), (7, 0), (20, 0)))
    central, ask = CentralFacts({FLOW: entry}, {}, {FLOW: known}, {}), Ask((window,), letters=Letters())
    plan = plan_partition(Mode.MISSING, central.flow(FLOW), shown, "eu.orders", only=frozenset({3, 6}))
    assert set(gone_letters(ask, central, [plan])) == {one.key for one in known if one.offset in gone}


def test_only_the_dead_letters_that_were_asked_for():
    """`dlq replay` by reason or coordinates leaves the rest where it is."""
    case = Case(
        30, None, (OffsetRange(0, 20),), frozenset({(0, 25), (0, 26)}), (), OffsetRange(0, 30), (OffsetRange(0, 30),)
    )
    plan = plan_partition(
        Mode.MISSING, case.flow(), EdgePartitionState("id", case.log, case.asked), "eu.orders", only=frozenset({25, 3})
    )
    assert plan.segments == (IncarnationRange(0, OffsetRange(25, 26)),)


def test_what_mirrormaker_2_had_copied_is_not_missing():
    """Central has it; what lies behind a cut is another life, and was never copied."""
    unread = (IncarnationRange(0, OffsetRange(0, 12)),)
    entry = LedgerRecord(0, "id", 40, epoch=1, slot=0, unread=unread, copied=10)
    assert eligible_offsets(Mode.MISSING, FlowAtCentral(FLOW, entry)) == (OffsetRange(10, 12),)
    cut = GapDecision(FLOW, Position(0, 40), Gap(GapKind.TRUNCATED, 6, None, 0), "ann", 0, "cut")
    again = structs.replace(entry, incarnation=1, unread=(*unread, IncarnationRange(1, OffsetRange(7, 9))))
    assert eligible_offsets(Mode.MISSING, FlowAtCentral(FLOW, again, (cut,))) == (OffsetRange(7, 9),)
