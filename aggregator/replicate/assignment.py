"""Assignment: which slot owns which flow.

Invariant: pure and deterministic; every flow gets exactly one slot. Sticky (a flow stays where it was while that is
fair), edge-affine (each edge in a slot is a set of connections), balanced by weight.
"""

from collections.abc import Collection, Mapping
from operator import itemgetter

from aggregator.coordinates import EdgePartition

# How far above its fair share a slot may be before flows move away from it.
_SLACK = 1.1


def assign(
    weights: Mapping[EdgePartition, float], previous: Mapping[EdgePartition, int], slots: int
) -> dict[EdgePartition, int]:
    """Place flows on slots.

    Args:
        weights: Work per flow, in records waiting plus a constant; positive.
        previous: Where each flow was in the last epoch; may name slots that no longer exist.
        slots: Number of slots, at least one.

    Returns:
        A slot for every flow in `weights`.
    """
    capacity = sum(weights.values()) / slots * _SLACK
    loads = [0.0] * slots
    for flow, weight in weights.items():
        if (slot := previous.get(flow, slots)) < slots:
            loads[slot] += weight
    full = {slot for slot, load in enumerate(loads) if load > capacity}
    placed: dict[EdgePartition, int] = {}
    contested = []
    for flow, weight in weights.items():  # nearly all of them stay: only what may have to move is put in order
        slot = previous.get(flow, slots)
        if slot < slots and slot not in full:
            placed[flow] = slot
        else:
            contested.append((flow, weight))
    for slot in full:
        loads[slot] = 0.0
    movers = []
    # Heaviest first, those of one weight by name: two sorts that compare little, where one would compare names always.
    for flow, weight in sorted(sorted(contested), key=itemgetter(1), reverse=True):
        slot = previous.get(flow, slots)
        if slot < slots and (loads[slot] == 0 or loads[slot] + weight <= capacity):
            placed[flow] = slot
            loads[slot] += weight
        else:
            movers.append((flow, weight))
    homes = _homes(placed, {flow.edge for flow, _ in movers})
    for flow, weight in movers:
        near = [slot for slot in homes[flow.edge] if loads[slot] + weight <= capacity]
        slot = min(near or range(slots), key=lambda slot: (loads[slot], slot))
        placed[flow] = slot
        loads[slot] += weight
        homes[flow.edge].add(slot)
    return placed


def _homes(placed: Mapping[EdgePartition, int], edges: Collection[str]) -> dict[str, set[int]]:
    """The slots that have flows of these edges."""
    homes: dict[str, set[int]] = {edge: set() for edge in edges}
    if homes:
        for flow, slot in placed.items():
            if flow.edge in homes:
                homes[flow.edge].add(slot)
    return homes
