"""The assignment decides which slot owns which flow during an epoch.

Invariant: pure and deterministic. Every flow gets exactly one slot. The assignment is sticky: a flow stays in its slot
while the load is fair. It is edge-affine, because every edge costs a slot a set of connections. It balances the slots
by weight.
"""

import math
from collections.abc import Collection, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from aggregator.coordinates import EdgePartition

# The former slot of a flow that was in no slot.
NOWHERE = -1
# How far above its fair share a slot may be before flows move away from it.
_SLACK = 1.1


def assign(
    flows: Sequence[EdgePartition], weights: NDArray[np.float64], previous: NDArray[np.int64], slots: int
) -> NDArray[np.int64]:
    """Assign each flow to a slot.

    Args:
        flows: The edge partitions of the flows.
        weights: Work of each flow: its waiting records plus a constant; positive.
        previous: Slot of each flow in the last epoch: a slot, one that no longer exists, or `NOWHERE`.
        slots: Number of slots, at least one.

    Returns:
        A slot for each flow.
    """
    capacity = math.fsum(weights) / slots * _SLACK
    known = (previous >= 0) & (previous < slots)
    placed = np.where(known, previous, NOWHERE)
    sums = np.bincount(placed[known], weights[known], slots)
    full = np.flatnonzero(sums > capacity)
    contested = np.flatnonzero(~known | np.isin(placed, full))  # nearly all flows stay: the others are sorted
    claims = zip(contested.tolist(), placed[contested].tolist(), weights[contested].tolist(), strict=True)
    placed[contested] = NOWHERE
    sums[full] = 0
    loads, movers = sums.tolist(), []
    # Heaviest first, equal weights by name. Two sorts compare less than one sort, which would always compare names.
    for at, slot, weight in sorted(sorted(claims, key=lambda claim: flows[claim[0]]), key=itemgetter(2), reverse=True):
        if slot != NOWHERE and (loads[slot] == 0 or loads[slot] + weight <= capacity):
            placed[at] = slot
            loads[slot] += weight
        else:
            movers.append((at, weight))
    homes = _homes(flows, placed, {flows[at].edge for at, _ in movers})
    for at, weight in movers:
        home = homes[flows[at].edge]
        near = [slot for slot in home if loads[slot] + weight <= capacity]
        slot = min(near or range(slots), key=lambda slot: (loads[slot], slot))
        placed[at] = slot
        loads[slot] += weight
        home.add(slot)
    return placed


def _homes(flows: Sequence[EdgePartition], placed: NDArray[np.int64], edges: Collection[str]) -> dict[str, set[int]]:
    """The slots that have flows of these edges."""
    homes: dict[str, set[int]] = {edge: set() for edge in edges}
    if homes:
        for flow, slot in zip(flows, placed.tolist(), strict=True):
            if slot != NOWHERE and flow.edge in homes:
                homes[flow.edge].add(slot)
    return homes
