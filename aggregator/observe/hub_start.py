"""Tells whether edges wait for the hub itself: from the beginning of an epoch until all of its slots deliver.

Invariant: pure, except for the moment at which it first learned of an epoch. A slot that never delivers is not waited
for.
"""

from collections.abc import Collection

from aggregator.state.telemetry import SlotReport

# A slot begins within seconds. A machine that starts everything at once may need a minute.
_BEGINS_S = 60.0


class HubStart:
    """Watches how the slots of a new epoch begin."""

    def __init__(self) -> None:
        self._epoch, self._since_s = -1, 0.0

    def is_busy(self, epoch: int, slots: Collection[SlotReport], now_s: float) -> bool:
        """Whether some slot of the newest epoch has not begun, or has not yet committed anything.

        Args:
            epoch: The newest that the driver told of.
            slots: What slots have said since the watching began.
            now_s: The present.
        """
        if epoch != self._epoch:
            self._epoch, self._since_s = epoch, now_s
        if not slots or max(slot.epoch for slot in slots) < epoch:
            return True
        return now_s - self._since_s < _BEGINS_S and any(not slot.transactions for slot in slots)
