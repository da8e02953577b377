"""Flows that a running slot is given: how the control topic says so, and what the slot makes of it.

Invariant: pure. What is said holds for its epoch alone, and says all that the slot was given so far. So a slot that
begins again takes its id, reads the control topic to its end, and knows every flow that it may have delivered before.
"""

from collections.abc import Collection, Iterable

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder

from aggregator.errors import FatalError
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.state.control import AddedFlows

_ENCODER, _DECODER = Encoder(), Decoder(tuple[FlowPlan, ...])


def added(epoch: int, slot: int, plans: Iterable[FlowPlan]) -> AddedFlows:
    """What the control topic is to say."""
    return AddedFlows(epoch, slot, _ENCODER.encode(tuple(plans)).decode())


def unknown_flows(said: AddedFlows | None, epoch: int, known: Collection[object]) -> tuple[FlowPlan, ...]:
    """The flows of an epoch that a slot was given and does not have yet.

    Args:
        said: What the control topic says to the slot.
        epoch: The slot's.
        known: Edge partitions that it has.

    Raises:
        FatalError: somebody else wrote it.
    """
    if said is None or said.epoch != epoch:
        return ()
    try:
        plans = _DECODER.decode(said.plans)
    except DecodeError:  # its text would quote what is there
        raise FatalError(
            f"the control topic gives slot {said.slot} flows of epoch {epoch} in a form that no hub writes",
            hint="nothing but the hub's driver may write this topic: find out who did; the next epoch goes on without",
        ) from None
    return tuple(plan for plan in plans if plan.source not in known)
