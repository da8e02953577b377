"""A gap exists if an edge no longer has the position that a flow wants to read; this module says how the flow goes on.

Invariant: pure. A gap has an exact range, or says that its tail is unknown. Sparse offsets are not a gap. A decision
moves exactly the position that it was made for. A rewind raises the incarnation, so an offset that is read twice counts
as two records.
"""

import shlex
from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.kafka.readers.reader_events import TruncationPoint
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord

# The authors of automatic decisions.
SKIPPED = "on_gap: skip"
BY_HUB = "the hub"
# The most unread parts that a ledger record lists; each takes some 30 bytes.
_MAX_UNREAD = 100
_READABLE_AFTER = frozenset({GapKind.EXPIRED, GapKind.TRUNCATED, GapKind.DAMAGED})
_OPEN_ENDED = frozenset({GapKind.TRUNCATED, GapKind.DELETED})
# Kinds of gaps whose offsets are never read, because the flow goes on behind them.
_PASSED = frozenset({GapKind.EXPIRED, GapKind.DAMAGED})


def gap(next_offset: int, start_offset: int, end_offset: int, *, since_ms: int) -> Gap | None:
    """Compare a position with the edge's log [start_offset, end_offset).

    Args:
        next_offset: The flow's position.
        start_offset: First offset that the edge still has.
        end_offset: The end of that log: its last stable offset for a reader, its high watermark for an observer.
        since_ms: The present.

    Returns:
        None while the position can be read (the end included); the lost range where retention or a deletion overtook
        the reader; a range with an unknown tail where the log ends before the position.
    """
    if next_offset < start_offset:
        return Gap(GapKind.EXPIRED, next_offset, start_offset, since_ms)
    if next_offset > end_offset:
        return Gap(GapKind.TRUNCATED, end_offset, None, since_ms)
    return None


def truncation_gap(lost: Gap | None, cut: TruncationPoint, next_offset: int, *, since_ms: int) -> Gap | None:
    """The gap of a truncated log, from the cut on: the log may have grown since, even beyond the position.

    Args:
        lost: Gap by the offsets alone: None, or a truncated log.
        cut: End of the records that we had read, in the present log.
        next_offset: The flow's position.
        since_ms: The present.
    """
    grown_over = cut.newer is not None and cut.newer < next_offset
    if lost is None and not grown_over:
        return None
    return Gap(GapKind.TRUNCATED, min(cut.end, next_offset), None, since_ms)


def deleted(entry: LedgerRecord, *, since_ms: int) -> Gap:
    """The gap of a flow whose topic the edge no longer shows; the one that is already known, if there is one."""
    if entry.gap is not None and entry.gap.kind is GapKind.DELETED:
        return entry.gap
    return Gap(GapKind.DELETED, read_end(entry), None, since_ms)


def read_end(entry: LedgerRecord) -> int:
    """The end of what a flow has read of the present log: its position, or an earlier truncation.

    The gap of a topic that was deleted begins there, too.
    """
    open_end = entry.gap is not None and entry.gap.kind in _OPEN_ENDED
    return min(entry.next_offset, entry.gap.start) if entry.gap is not None and open_end else entry.next_offset


def damaged(next_offset: int, behind: int, *, since_ms: int, leader_epoch: int | None) -> Gap:
    """The gap of a batch that cannot be read, up to where the log can be read on."""
    return Gap(GapKind.DAMAGED, next_offset, max(behind, next_offset + 1), since_ms, leader_epoch)


def new_incarnation(source: EdgePartition, entry: LedgerRecord, *, now_ms: int) -> GapDecision:
    """The automatic decision that records what was lost when a topic was created again."""
    lost = Gap(GapKind.RECREATED, read_end(entry), None, now_ms)
    reason = "a recreated topic begins a new incarnation"
    return GapDecision(source, entry.position, lost, BY_HUB, now_ms, reason, automatic=True)


def skipped(source: EdgePartition, position: Position, lost: Gap, *, now_ms: int) -> GapDecision:
    """The decision of a rule with `on_gap: skip`."""
    return GapDecision(source, position, lost, SKIPPED, now_ms, "the rule says so", automatic=True)


def position_after(lost: Gap, position: Position) -> Position:
    """The position behind a gap, for a flow that goes on without the gap."""
    match lost.kind:
        case GapKind.EXPIRED | GapKind.DAMAGED:
            assert lost.end is not None
            return Position(position.incarnation, lost.end)
        case GapKind.TRUNCATED:
            return Position(position.incarnation + 1, lost.start)
        case GapKind.RECREATED:
            return Position(position.incarnation + 1, 0)
        case GapKind.DELETED:
            return position


def passed_over(lost: Gap, position: Position) -> IncarnationRange | None:
    """The offsets that a flow skips behind a gap; None after a truncation, or if the range is not known."""
    if lost.kind not in _PASSED:
        return None
    return IncarnationRange(
        position.incarnation, OffsetRange(position.next_offset, position_after(lost, position).next_offset)
    )


def with_unread(unread: tuple[IncarnationRange, ...], more: IncarnationRange | None) -> tuple[IncarnationRange, ...]:
    """What a flow has never read, with one part more; parts that touch become one.

    Of very many parts the oldest are forgotten: a backfill then leaves them alone.
    """
    if more is None:
        return unread
    last = unread[-1] if unread else None
    if last is not None and last.incarnation == more.incarnation and last.offsets.end == more.offsets.start:
        joined = IncarnationRange(last.incarnation, OffsetRange(last.offsets.start, more.offsets.end))
        return (*unread[:-1], joined)
    return (*unread, more)[-_MAX_UNREAD:]


def with_decisions(entry: LedgerRecord, decisions: Iterable[GapDecision]) -> LedgerRecord:
    """A flow's entry after what was decided about exactly its position; unchanged where nothing was.

    Args:
        entry: The winning record of a flow whose topic is there.
        decisions: All of this flow.
    """
    if entry.gap is not None and entry.gap.kind is GapKind.DELETED:
        entry = structs.replace(entry, gap=_left_of(entry.gap, entry.next_offset))
    found = [one.gap for one in decisions if one.position == entry.position and _passes(one.gap, entry.gap)]
    if not found:
        return entry
    # A gap may be accepted, grow, and be accepted again. The later decision counts, and covers the first one's offsets.
    lost, (incarnation, offset) = max(
        ((lost, position_after(lost, entry.position)) for lost in found), key=lambda one: one[1]
    )
    unread = with_unread(entry.unread, passed_over(lost, entry.position))
    return structs.replace(entry, incarnation=incarnation, next_offset=offset, gap=None, unread=unread)


def _left_of(deletion: Gap, next_offset: int) -> Gap | None:
    """The cut that was open before a deletion, for a topic that is back or visible again, if there was one."""
    return replace(deletion, kind=GapKind.TRUNCATED) if deletion.start < next_offset else None


def _passes(decided: Gap, found: Gap | None) -> bool:
    """Whether what was decided at a flow's position lets it go on.

    Where a log was cut another batch may lie there, so a damaged one must be the one that the flow stands before.
    """
    same = found is not None and replace(found, since_ms=decided.since_ms) == decided
    return decided.kind in _READABLE_AFTER and (same or decided.kind is not GapKind.DAMAGED)


def is_decided(entry: LedgerRecord, kind: GapKind, decisions: Iterable[GapDecision]) -> bool:
    """Whether a gap of this kind at the flow's position was decided."""
    return any(one.position == entry.position and one.gap.kind is kind for one in decisions)


def sentence(lost: Gap, next_offset: int) -> str:
    """Describe a gap in a sentence."""
    match lost.kind:
        case GapKind.EXPIRED:
            end = lost.end or lost.start
            return (
                f"the edge no longer has offsets {lost.start} to {end - 1} ({end - lost.start} at most): retention or"
                " a deletion of records overtook the reader"
            )
        case GapKind.TRUNCATED:
            return (
                f"the edge's log was cut at {lost.start}, before our position {next_offset}: what it lost behind the"
                " position is unknown"
            )
        case GapKind.DELETED:
            return (
                "the edge no longer shows the partition (deleted, or hidden from our principal): what it held from"
                f" offset {lost.start} on is unknown"
            )
        case GapKind.DAMAGED:
            end = lost.end or lost.start + 1
            return (
                f"offsets {lost.start} to {end - 1} lie in a batch that cannot be read (damaged on disk, compressed in"
                " a way that this client does not know, or inflating beyond `receive.message.max.bytes`); it is tried"
                " again every minute: mend the edge's replica, raise that limit in `client:`, or accept the gap"
            )
        case GapKind.RECREATED:
            return f"the topic was created again: what the former one held from offset {lost.start} on is unknown"


def accept_command(edge: str, topic: str, partition: int | None = None) -> str:
    """The command that lets flows of an edge topic go on without what was lost, as a person completes it."""
    one = "" if partition is None else f" --partition {partition}"
    return f'aggregator gaps accept --edge {edge} --topic {shlex.quote(topic)}{one} --reason "…"'


def segments(position: Position, log_start: int, decisions: Iterable[GapDecision]) -> list[IncarnationRange]:
    """Split the offsets that were read by incarnation; the last segment is of the present incarnation.

    An accepted rewind began its incarnation where the log had been truncated; what lies before belongs to the one
    before. A recreated topic began at 0, also if somebody had accepted a truncation that the recreation overtook.

    Args:
        position: Where the flow stands.
        log_start: First offset that the edge still has.
        decisions: All of this flow.
    """
    known = list(decisions)
    recreated = {one.position.incarnation for one in known if one.gap.kind is GapKind.RECREATED}
    rewinds = {
        one.position.incarnation + 1: one.gap.start
        for one in known
        if one.gap.kind is GapKind.TRUNCATED and one.position.incarnation not in recreated
    }
    found = []
    incarnation, end = position
    while end > log_start:
        begin = max(log_start, min(end, rewinds.get(incarnation, 0)))
        if begin < end:
            found.append(IncarnationRange(incarnation, OffsetRange(begin, end)))
        if incarnation not in rewinds:
            break
        incarnation, end = incarnation - 1, begin
    return found[::-1]
