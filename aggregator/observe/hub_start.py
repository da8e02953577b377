"""Tells whether edges wait for the hub itself: from the end of an epoch until all slots of the next one deliver.

Invariant: pure, except for the moment at which it first learned of an epoch. A slot that never delivers is not waited
for, and no longer than a minute is taken for a beginning.
"""

from collections.abc import Collection

from aggregator.state.telemetry import SlotReport

# A slot begins within seconds. A machine that starts everything at once may need a minute.
_BEGINS_S = 60.0


class HubStart:
    """Watches how the slots of a new epoch begin."""

    def __init__(self) -> None:
        self._epoch, self._since_s = -1, 0.0
        self._busy_since_s: float | None = None

    def is_busy(self, epoch: int, slots: Collection[SlotReport], now_s: float, *, ended: int = -1) -> bool:
        """Whether the newest epoch was asked to end, or some slot of it has not begun, or not yet committed anything.

        Args:
            epoch: The newest that the driver told of.
            slots: What slots have said since the watching began.
            now_s: The present.
            ended: The newest that was asked to end.
        """
        busy = ended >= epoch or self._awaits_slots(epoch, slots, now_s)
        self._busy_since_s = (now_s if self._busy_since_s is None else self._busy_since_s) if busy else None
        return busy

    def is_beginning(self, now_s: float) -> bool:
        """Whether it was busy at the last look, and has not been so for longer than a beginning takes."""
        return self._busy_since_s is not None and now_s - self._busy_since_s < _BEGINS_S

    def _awaits_slots(self, epoch: int, slots: Collection[SlotReport], now_s: float) -> bool:
        if epoch != self._epoch:
            self._epoch, self._since_s = epoch, now_s
        if not slots or max(slot.epoch for slot in slots) < epoch:
            return True
        return now_s - self._since_s < _BEGINS_S and any(not slot.transactions for slot in slots)
