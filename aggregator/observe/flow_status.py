"""Makes the status of one flow for status, metrics and page, from its newest position, its edge's last end, and its
past.

Invariant: pure. An end that was never asked for, or that is too old, is None and never zero. The time for which the
edge still keeps unread records is counted down even then.
"""

from collections.abc import Mapping

from aggregator.coordinates import EdgePartition
from aggregator.edges.movement import Track
from aggregator.observe.edge_account import ClockPair
from aggregator.observe.edge_logs import NOTHING_UNDECIDED, EdgeLogs, hanging
from aggregator.observe.edge_snapshot import EdgeSnapshot, Entries
from aggregator.observe.hub_status import NO_TROUBLE, FlowStatus, Trouble
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

# An edge that answers reports its ends every second.
_END_LASTS_S = 10.0


def edge_flows(
    entries: Entries,
    seen: EdgeSnapshot,
    *,
    tracks: Mapping[EdgePartition, Track],
    holding: Mapping[EdgePartition, Gap],
    troubled: Mapping[str, Trouble],
    moment: ClockPair,
) -> tuple[FlowStatus, ...]:
    """The status of all flows of one edge, in their order.

    Args:
        entries: The newest ledger record of each flow.
        seen: What the edge last showed.
        tracks: The recent past of each flow; empty if nobody watched.
        holding: The gaps that hold flows.
        troubled: Other problems that slots tell of flows.
        moment: Now.
    """
    return tuple(
        flow_status(
            source,
            entry,
            seen,
            tracks.get(source),
            lost=holding.get(source),
            trouble=troubled.get(str(source), NO_TROUBLE),
            moment=moment,
        )
        for source, entry in sorted(entries.items())
    )


def flow_status(
    source: EdgePartition,
    entry: LedgerRecord,
    seen: EdgeSnapshot,
    track: Track | None,
    *,
    lost: Gap | None,
    trouble: Trouble,
    moment: ClockPair,
) -> FlowStatus:
    """The status of one flow, with its edge's last snapshot.

    Args:
        source: The flow.
        entry: Its newest ledger record.
        seen: What the edge last showed.
        track: Its recent past; None where nobody watched.
        lost: The gap that holds it.
        trouble: Other problem that its slot tells of it.
        moment: Now.
    """
    end = _end(source, entry, seen, lost)
    shown = end if moment.now_s - seen.answer.ends_s <= _END_LASTS_S else None
    waits = end is not None and end > entry.next_offset
    logs = seen.logs or EdgeLogs()
    margin = logs.margins.get(source) if waits else None
    since_ms = int((moment.now_s - (seen.logs_s or moment.now_s)) * 1000)
    undecided = logs.undecided.get(source, NOTHING_UNDECIDED)
    undecided_ms = undecided.age_ms(moment.now_ms)
    if track and undecided_ms is not None and track.stood_s < track.spans_s:
        undecided_ms = min(undecided_ms, int(track.stood_s * 1000))  # another transaction: the one before has ended
    return FlowStatus(
        *source,
        incarnation=entry.incarnation,
        next_offset=entry.next_offset,
        end_offset=shown,
        lag_records=None if shown is None else max(0, shown - entry.next_offset),
        lag_ms=None if shown is None else _lag_ms(logs.unread_ms.get(source), track, moment) if waits else 0,
        delivered=entry.delivered,
        dead=entry.dead,
        suppressed=entry.suppressed,
        stripped=entry.stripped,
        retention_margin_ms=max(0, margin.left_ms - since_ms) if margin else None,
        gap=lost,
        trouble=trouble.text or hanging(undecided, undecided_ms),
        held=trouble.held,
        undecided_records=None if shown is None else undecided.records,
        undecided_ms=undecided_ms,
        cycles=entry.cycles,
        forged=entry.forged,
    )


def _end(source: EdgePartition, entry: LedgerRecord, seen: EdgeSnapshot, lost: Gap | None) -> int | None:
    """The end of its log; one before the position is older than the position, unless the log was cut."""
    end = seen.answer.ends.get(source)
    if end is None or (lost is not None and lost.kind is GapKind.TRUNCATED):
        return end
    return max(end, entry.next_offset)


def _lag_ms(unread_ms: int | None, track: Track | None, moment: ClockPair) -> int:
    """How long the oldest waiting record has waited.

    If nobody watched its arrival, only the record's own timestamp tells this.
    """
    seen_ms = int(track.waited_s * 1000) if track else 0
    if track is not None and not track.waited_s >= track.spans_s > 0:
        return seen_ms
    return seen_ms if unread_ms is None else max(seen_ms, moment.now_ms - unread_ms)
