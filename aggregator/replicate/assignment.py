"""Assignment: which slot owns which flow.

Invariant: pure and deterministic; every flow gets exactly one slot. Sticky (a flow stays where it was while that is
fair), edge-affine (each edge in a slot is a set of connections), balanced by weight.
"""

from collections import defaultdict
from collections.abc import Mapping
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
    homes: dict[str, set[int]] = defaultdict(set)
    placed: dict[EdgePartition, int] = {}
    # Heaviest first, those of one weight by name: two sorts that compare little, where one would compare names always.
    heaviest_first = sorted(sorted(weights.items()), key=itemgetter(1), reverse=True)
    movers = []
    for flow, weight in heaviest_first:
        slot = previous.get(flow, slots)
        if slot < slots and (loads[slot] == 0 or loads[slot] + weight <= capacity):
            placed[flow] = slot
            loads[slot] += weight
            homes[flow.edge].add(slot)
        else:
            movers.append((flow, weight))
    for flow, weight in movers:
        near = [slot for slot in homes[flow.edge] if loads[slot] + weight <= capacity]
        slot = min(near or range(slots), key=lambda slot: (loads[slot], slot))
        placed[flow] = slot
        loads[slot] += weight
        homes[flow.edge].add(slot)
    return placed
