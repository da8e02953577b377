"""One flow as a running monitor knows it: the newest position, the edge's last end, and what the past says.

Invariant: pure; an end that nobody has asked for, or that the edge has not told for a while, is None, never zero. How
long the edge still keeps what waits is counted down all the same.
"""

from aggregator.coordinates import EdgePartition
from aggregator.observe.account import EdgeAccount, Moment
from aggregator.observe.edge_lag import NOTHING_UNDECIDED, hanging
from aggregator.observe.hub_status import FlowStatus
from aggregator.observe.probe import Probed
from aggregator.state.gap import Gap
from aggregator.state.ledger import LedgerRecord

# An edge that answers tells its ends every second.
_END_LASTS_S = 10.0


def live_flow(
    source: EdgePartition,
    entry: LedgerRecord,
    account: EdgeAccount,
    probed: Probed,
    *,
    lost: Gap | None,
    trouble: str,
    moment: Moment,
) -> FlowStatus:
    """One flow of an edge that is watched.

    Args:
        source: The flow.
        entry: Its newest ledger record.
        account: Its edge's account.
        probed: What the edge last showed.
        lost: The gap that holds it.
        trouble: What else its slot says of it.
        moment: Now.
    """
    track = account.tracks.get(source)
    end = max(probed.ends[source], entry.next_offset) if source in probed.ends else None
    margin = probed.look.margins.get(source) if probed.look else None
    since_ms = int((moment.now_s - (probed.looked_s or moment.now_s)) * 1000)
    waits = end is not None and end > entry.next_offset
    shown = end if moment.now_s - probed.ends_s <= _END_LASTS_S else None
    lag_ms = int(track.waited_s * 1000) if track and waits else 0
    if track and waits and probed.look and track.waited_s >= track.spans_s > 0:
        # It waited when the watching began: then only the records' own time tells for how long.
        lag_ms = max(lag_ms, moment.now_ms - probed.look.unread_ms.get(source, moment.now_ms))
    undecided = (probed.look and probed.look.undecided.get(source)) or NOTHING_UNDECIDED
    undecided_ms = undecided.age_ms(moment.now_ms)
    if track and undecided_ms is not None and track.stood_s < track.spans_s:
        undecided_ms = min(undecided_ms, int(track.stood_s * 1000))  # another transaction: the one before has ended
    return FlowStatus(
        *source,
        incarnation=entry.incarnation,
        next_offset=entry.next_offset,
        end_offset=shown,
        lag_records=None if shown is None else shown - entry.next_offset,
        lag_ms=None if shown is None else lag_ms,
        delivered=entry.delivered,
        dead=entry.dead,
        suppressed=entry.suppressed,
        stripped=entry.stripped,
        retention_margin_ms=max(0, margin.left_ms - since_ms) if margin and waits else None,
        gap=lost,
        trouble=trouble or hanging(undecided, undecided_ms),
        undecided_records=None if shown is None else undecided.records,
        undecided_ms=undecided_ms,
    )
