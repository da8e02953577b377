"""The planner: decides from the facts of central and an edge exactly what a backfill may write.

Invariant: pure. Into the live topic a backfill writes only what central provably never got. That is what the flow's own
ledger record says it never read, and dead letters that are not resolved. What any backfill into the same topic has
passed is taken off. A live position only grows, so the live flow can never deliver any of these records as well.
Nothing is widened: what is written is a part of what was asked for.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.backfill.plan import PartitionPlan
from aggregator.backfill.ranges import Ranges, both, offsets_of, size, split, union, without
from aggregator.backfill.request import Mode
from aggregator.coordinates import EdgePartition, OffsetRange, Segment
from aggregator.replicate.flow.gaps import segments
from aggregator.state.gap import Decision, GapKind
from aggregator.state.ledger import LedgerRecord

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FlowAtCentral:
    """What central knows of one flow.

    Attributes:
        source: The flow.
        entry: Its ledger record.
        decisions: What was decided about its gaps.
        letters: Its dead letters that are not resolved: offsets by incarnation.
        own_letters: Those of the generation that is written, likewise.
        delivered: Those that are resolved, because somebody had them delivered into whatever topic, likewise.
        passed: What backfills into the same topic have passed, by incarnation: behind a cut the same offsets are other
            records.
    """

    source: EdgePartition
    entry: LedgerRecord
    decisions: tuple[Decision, ...] = ()
    letters: frozenset[tuple[int, int]] = frozenset()
    passed: tuple[Segment, ...] = ()
    own_letters: frozenset[tuple[int, int]] = frozenset()
    delivered: frozenset[tuple[int, int]] = frozenset()

    @property
    def upto(self) -> int:
        """Where what the hub has passed of the present log ends: its position, or where the log was cut before that."""
        lost = self.entry.gap
        cut = lost is not None and lost.kind is GapKind.TRUNCATED
        return min(self.entry.next_offset, lost.start) if lost is not None and cut else self.entry.next_offset

    @property
    def lives(self) -> list[Segment]:
        """Which incarnation each offset that was passed belongs to."""
        found = segments(self.entry.position, 0, self.decisions)
        return [Segment(at, part) for at, offsets in found for part in both([offsets], [OffsetRange(0, self.upto)])]

    @property
    def had(self) -> Ranges:
        """Offsets that backfills into the same topic have passed, of those that the log still has as they were."""
        lives = self.lives
        return union(part for at, offsets in self.passed for part in both([offsets], _of_life(lives, at)))

    @property
    def dead(self) -> frozenset[int]:
        """Offsets of the dead letters that the present log speaks of; those of a former life are not among them."""
        return self._present(self.letters)

    @property
    def own_dead(self) -> frozenset[int]:
        """Return the offsets of the generation's own dead letters, in the flow's present incarnation."""
        return self._present(self.own_letters)

    def _present(self, letters: Iterable[tuple[int, int]]) -> frozenset[int]:
        lives = self.lives
        return frozenset(
            offset
            for at, offset in letters
            if any(at == life and start <= offset < end for life, (start, end) in lives)
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
        """Records that somebody wants delivered whatever their chains say: by a replay, or by one before a restate."""
        return self.replayed(mode) | (self._present(self.delivered) if mode is Mode.RESTATE else frozenset())


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a look at some records of one partition showed.

    Attributes:
        density: Records per offset, at most 1.
        record_bytes: Key and value, on average.
        disordered: Timestamps go back where the window begins, or records behind its end are older than that.
        oldest_ms: Timestamp of the first record.
        refusal: Why records must not be written: central would delete them at once, or take them for the newest of
            their keys; empty if they may.
    """

    density: float = 1.0
    record_bytes: float = 0.0
    disordered: bool = False
    oldest_ms: int | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
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
    sampled: Sampled = field(default_factory=Sampled)
    compacted: bool = False


def wanted(mode: Mode, at_central: FlowAtCentral, *, only: frozenset[int] | None = None) -> Ranges:
    """Offsets that a backfill of this mode may write, whether the edge still has them or not.

    Args:
        mode: Where they go.
        at_central: What central knows of the flow.
        only: Dead letters alone, and which of them; None: everything that the mode speaks of.
    """
    lives, dead = at_central.lives, _points(at_central.dead)
    if only is not None:
        return both(_points(at_central.replayed(mode)), _points(only))
    if mode is not Mode.MISSING:
        # Dead letters belong to the live flow: they are replayed into the topic that a rule names.
        return without(offsets_of(lives), (*at_central.had, *dead))
    unread = [part for at, offsets in at_central.entry.unread for part in both([offsets], _of_life(lives, at))]
    # Central has what MirrorMaker 2 had copied, in the incarnation in which the flow began.
    had = (*at_central.had, *both(_of_life(lives, 0), [OffsetRange(0, at_central.entry.copied)]))
    return union((*without(unread, had), *dead))


def _of_life(lives: Iterable[Segment], incarnation: int) -> Ranges:
    return offsets_of(one for one in lives if one.incarnation == incarnation)


def allowed(mode: Mode, at_central: FlowAtCentral, frozen: Iterable[Segment]) -> tuple[Segment, ...]:
    """What of a frozen plan may be written now: less what others have written since, or what has another life now."""
    now, still = at_central.lives, union((*wanted(mode, at_central), *_points(at_central.replayed(mode))))
    return tuple(
        Segment(at, part)
        for at, ours in _by_life(frozen).items()
        for part in both(both(ours, still), _of_life(now, at))
    )


def gone(mode: Mode, at_central: FlowAtCentral, frozen: Iterable[Segment]) -> tuple[Segment, ...]:
    """What of a frozen plan nobody can bring any more: its log was cut, or the flow's record has forgotten it."""
    now, replayed = at_central.lives, at_central.replayed(mode)
    known = union((*wanted(mode, at_central), *at_central.had, *_points(at_central.dead), *_points(replayed)))
    return tuple(
        Segment(at, part)
        for at, ours in _by_life(frozen).items()
        for part in without(ours, both(known, _of_life(now, at)))
    )


def _by_life(frozen: Iterable[Segment]) -> dict[int, list[OffsetRange]]:
    found: dict[int, list[OffsetRange]] = defaultdict(list)
    for at, offsets in frozen:
        found[at].append(offsets)
    return found


def plan_partition(
    mode: Mode, at_central: FlowAtCentral, shown: Shown, central: str, *, only: frozenset[int] | None = None
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
    asked = both(shown.asked, [OffsetRange(0, log.end)])
    if shown.topic_id != entry.topic_id:
        why = "the topic was created again, and the hub has not met the new one: its old records are gone"
        return PartitionPlan(at_central.source, shown.topic_id, central, asked, log, taken=asked, warnings=(why,))
    passed = OffsetRange(0, at_central.upto)
    at_edge = both(asked, [log])
    effective = both(at_edge, [passed])
    ask = both(wanted(mode, at_central, only=only), asked)
    write, taken = both(ask, [log]), without(ask, [log])
    warnings = list(_warnings(at_central, shown, taken))
    if shown.sampled.refusal and write:
        warnings.append(shown.sampled.refusal)
        write = ()
    letters = size(both(write, _points(at_central.replayed(mode))))
    plain = size(write) - letters
    records = letters + round(plain * shown.sampled.density)
    return PartitionPlan(
        at_central.source,
        shown.topic_id,
        central,
        asked,
        log,
        effective,
        taken,
        had=size(effective) - size(write),
        ahead=size(without(at_edge, [passed])),
        segments=split(at_central.lives, write),
        letters=letters,
        records=records,
        bytes=round(records * shown.sampled.record_bytes),
        warnings=tuple(warnings),
    )


def _points(offsets: Iterable[int]) -> Ranges:
    return union(OffsetRange(offset, offset + 1) for offset in offsets)


def _warnings(at_central: FlowAtCentral, shown: Shown, taken: Ranges) -> Iterable[str]:
    if taken:
        told = ", ".join(f"{one.start}-{one.end - 1}" for one in taken[:_SHOWN])
        told += ", …" if len(taken) > _SHOWN else ""
        yield f"the edge no longer has {size(taken)} of the offsets that were asked for: {told}"
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
