"""The planner: decides from the facts of central and an edge exactly what a backfill may write.

Invariant: pure. Into the live topic a backfill writes only what central provably never got. That is what the flow's own
ledger record says it never read, and dead letters that are not resolved. What any backfill into the same topic has
passed is taken off. A live position only grows, so the live flow can never deliver any of these records as well.
Nothing is widened: what is written is a part of what was asked for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.backfill.plan import PartitionPlan
from aggregator.backfill.ranges import (
    Ranges,
    by_incarnation,
    difference,
    intersection,
    offset_count,
    offsets_of,
    split,
    union,
)
from aggregator.backfill.request import Mode
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange
from aggregator.count_text import format_first
from aggregator.replicate.flow.gaps import read_end, segments
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FlowAtCentral:
    """What central knows of one flow.

    Attributes:
        source: The flow.
        entry: Its ledger record.
        decisions: Decisions about its gaps.
        letters: Its dead letters that are not resolved: offsets by incarnation.
        own_letters: Unresolved dead letters of the generation that the backfill writes: offsets by incarnation.
        delivered: Those that are resolved, because somebody had them delivered into whatever topic, likewise.
        passed: What backfills into the same topic have passed, by incarnation: behind a cut the same offsets are other
            records.
    """

    source: EdgePartition
    entry: LedgerRecord
    decisions: tuple[GapDecision, ...] = ()
    letters: frozenset[tuple[int, int]] = frozenset()
    passed: tuple[IncarnationRange, ...] = ()
    own_letters: frozenset[tuple[int, int]] = frozenset()
    delivered: frozenset[tuple[int, int]] = frozenset()

    @property
    def upto(self) -> int:
        """The end of what a flow has read of the present log."""
        return read_end(self.entry)

    @property
    def segments(self) -> list[IncarnationRange]:
        """The passed offsets, each under the incarnation that it belongs to."""
        found = segments(self.entry.position, 0, self.decisions)
        return [
            IncarnationRange(at, part)
            for at, offsets in found
            for part in intersection([offsets], [OffsetRange(0, self.upto)])
        ]

    @property
    def already_backfilled(self) -> Ranges:
        """Offsets that earlier backfills into this topic have processed and that still hold the same records."""
        segments = self.segments
        return union(
            part for at, offsets in self.passed for part in intersection([offsets], _of_incarnation(segments, at))
        )

    @property
    def dead(self) -> frozenset[int]:
        """Offsets of the dead letters of the present log; those of former incarnations are not among them."""
        return self.present(self.letters)

    @property
    def own_dead(self) -> frozenset[int]:
        """The offsets of the generation's own dead letters, in the flow's present incarnation."""
        return self.present(self.own_letters)

    def present(self, letters: Iterable[tuple[int, int]]) -> frozenset[int]:
        """The offsets of those letters whose records the present log has, by incarnation and offset."""
        segments = self.segments
        return frozenset(
            offset
            for at, offset in letters
            if any(at == incarnation and start <= offset < end for incarnation, (start, end) in segments)
        )

    def replayed(self, mode: Mode) -> frozenset[int]:
        """Dead letters that writing into this place resolves."""
        match mode:
            case Mode.MISSING:
                return self.dead
            case Mode.INTO:
                return self.own_dead
            case Mode.RESTATE:
                return frozenset()

    def asked(self, mode: Mode) -> frozenset[int]:
        """Records to deliver even if their chains suggest a cycle: of this replay, or of one before a restate."""
        return self.replayed(mode) | (self.present(self.delivered) if mode is Mode.RESTATE else frozenset())


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """What a look at some records of one partition showed.

    Attributes:
        density: Records per offset, at most 1.
        record_bytes: Average size of a record's key and value.
        disordered: Timestamps go back where the window begins, or records behind its end are older than that.
        oldest_ms: Timestamp of the first record.
        refusal: Reason why the records must not be written: central would delete them at once, or take them for the
            newest of their keys; empty if they may.
    """

    density: float = 1.0
    record_bytes: float = 0.0
    disordered: bool = False
    oldest_ms: int | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class EdgePartitionState:
    """What an edge shows of one partition, and the offsets that the ask means there.

    Attributes:
        topic_id: The topic's life.
        log: First offset, last stable offset.
        asked: Offsets of the windows, as wide as they were asked.
        sampled: What some of its records showed.
        compacted: The edge drops records for younger ones of their keys; looked at for a restate alone.
    """

    topic_id: str
    log: OffsetRange
    asked: Ranges
    sampled: SampleFacts = field(default_factory=SampleFacts)
    compacted: bool = False


def eligible_offsets(mode: Mode, at_central: FlowAtCentral, *, only: frozenset[int] | None = None) -> Ranges:
    """Offsets that a backfill of this mode may write, whether the edge still has them or not.

    Args:
        mode: Where they go.
        at_central: What central knows of the flow.
        only: Dead letters alone, and which of them; None: everything that the mode speaks of.
    """
    segments, dead = at_central.segments, _points(at_central.dead)
    if only is not None:
        return intersection(_points(at_central.replayed(mode)), _points(only))
    if mode is not Mode.MISSING:
        # Dead letters belong to the live flow: they are replayed into the topic that a rule names.
        return difference(offsets_of(segments), (*at_central.already_backfilled, *dead))
    entry = at_central.entry
    unread = [part for at, one in entry.unread for part in intersection([one], _of_incarnation(segments, at))]
    # Central has what MirrorMaker 2 had copied, in the incarnation in which the flow began.
    copied = intersection(_of_incarnation(segments, 0), [OffsetRange(0, entry.copied)])
    return union((*difference(unread, (*at_central.already_backfilled, *copied)), *dead))


def _of_incarnation(segments: Iterable[IncarnationRange], incarnation: int) -> Ranges:
    return offsets_of(one for one in segments if one.incarnation == incarnation)


def still_writable(
    mode: Mode, at_central: FlowAtCentral, frozen: Iterable[IncarnationRange]
) -> tuple[IncarnationRange, ...]:
    """What of a frozen plan may be written now: less what others have written since, and former incarnations.

    A record of a generation's plan that has died since, on its way into the live topic, is read all the same: it is
    delivered into the generation, or dies there, too. Left out, it would count as passed, and nobody would miss it.
    """
    now, still = at_central.segments, union((*eligible_offsets(mode, at_central), *_points(at_central.replayed(mode))))
    if mode is Mode.INTO:
        still = union((*still, *difference(_points(at_central.dead), at_central.already_backfilled)))
    return tuple(
        IncarnationRange(at, part)
        for at, ours in by_incarnation(frozen).items()
        for part in intersection(intersection(ours, still), _of_incarnation(now, at))
    )


def unrecoverable(
    mode: Mode, at_central: FlowAtCentral, frozen: Iterable[IncarnationRange]
) -> tuple[IncarnationRange, ...]:
    """What of a frozen plan nobody can bring any more: its log was cut, or the flow's record has forgotten it."""
    now, replayed = at_central.segments, at_central.replayed(mode)
    letters = (*_points(at_central.dead), *_points(replayed))
    known = union((*eligible_offsets(mode, at_central), *at_central.already_backfilled, *letters))
    return tuple(
        IncarnationRange(at, part)
        for at, ours in by_incarnation(frozen).items()
        for part in difference(ours, intersection(known, _of_incarnation(now, at)))
    )


def plan_partition(
    mode: Mode,
    at_central: FlowAtCentral,
    shown: EdgePartitionState,
    central: str,
    *,
    only: frozenset[int] | None = None,
) -> PartitionPlan:
    """Plan what a backfill writes for one edge partition.

    Args:
        mode: The place where its records go.
        at_central: What central knows of the flow.
        shown: What the edge shows of the flow.
        central: The name of the central topic that its records go to.
        only: Offsets of the dead letters to write and nothing else; None: no such bound.
    """
    entry, log = at_central.entry, shown.log
    asked = intersection(shown.asked, [OffsetRange(0, log.end)])
    if shown.topic_id != entry.topic_id:
        why = "the topic was created again, and the hub has not met the new one: its old records are gone"
        return PartitionPlan(at_central.source, shown.topic_id, central, asked, log, taken=asked, warnings=(why,))
    passed = OffsetRange(0, at_central.upto)
    at_edge = intersection(asked, [log])
    effective = intersection(at_edge, [passed])
    ask = intersection(eligible_offsets(mode, at_central, only=only), asked)
    write, taken = intersection(ask, [log]), difference(ask, [log])
    warnings = list(_warnings(at_central, shown, taken))
    if shown.sampled.refusal and write:
        warnings.append(shown.sampled.refusal)
        write = ()
    letters = offset_count(intersection(write, _points(at_central.replayed(mode))))
    plain = offset_count(write) - letters
    records = letters + round(plain * shown.sampled.density)
    return PartitionPlan(
        at_central.source,
        shown.topic_id,
        central,
        asked,
        log,
        effective,
        taken,
        already_backfilled=offset_count(effective) - offset_count(write),
        ahead=offset_count(difference(at_edge, [passed])),
        segments=split(at_central.segments, write),
        letters=letters,
        records=records,
        bytes=round(records * shown.sampled.record_bytes),
        warnings=tuple(warnings),
    )


def _points(offsets: Iterable[int]) -> Ranges:
    return union(OffsetRange(offset, offset + 1) for offset in offsets)


def _warnings(at_central: FlowAtCentral, shown: EdgePartitionState, taken: Ranges) -> Iterable[str]:
    if taken:
        told = format_first([f"{one.start}-{one.end - 1}" for one in taken], _SHOWN)
        yield f"the edge no longer has {offset_count(taken)} of the offsets that were asked for: {told}"
    if shown.sampled.disordered:
        yield (
            "timestamps are not in order here: a window in time is a range of offsets, which may hold records from"
            " outside of it and miss some of its own"
        )
    if shown.compacted:
        yield (
            "compacted at the edge: rows stay as they are where it has dropped their records for younger ones of their"
            " keys; their number is told at the end"
        )
    if at_central.entry.gap is not None:
        yield f"the flow is held by a gap {at_central.entry.gap}: what is lost there is not part of this"
