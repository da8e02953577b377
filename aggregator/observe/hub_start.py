"""Tells whether edges wait for the hub itself, or for central: from the end of an epoch until all slots of the next one
deliver, and while central is silent.

Invariant: pure, except for the moment at which it first learned of an epoch. A slot that never delivers is not waited
for, and no longer than a minute is taken for a beginning.
"""

from collections.abc import Collection

from aggregator.state.telemetry import SlotReport

# A slot begins within seconds. A machine that starts everything at once may need a minute.
_BEGINS_S = 60.0
# Without the pulse that the hub itself writes at central each second; less than it takes to miss a heartbeat.
_SILENT_S = 4.0
# After a silence of central: until clients have found it again and heartbeats have come through.
_RESUMES_S = 20.0
_BEGINS = "the hub itself begins, or changes its epoch: nothing is read until its slots run"
_SILENT = "central does not answer, or has just begun to again: nothing can be delivered"


class HubStart:
    """Watches how the slots of a new epoch begin."""

    def __init__(self) -> None:
        self._epoch, self._since_s = -1, 0.0
        self._busy_since_s: float | None = None
        self._calm_from_s = float("-inf")
        self._is_again = False
        self._heard_s = float("inf")
        self._silent_s = float("-inf")

    def hear(self, now_s: float) -> None:
        """Something new has come from central; who did not look for a while learns only now that it was silent."""
        if now_s - self._heard_s > _SILENT_S:
            self._silent_s = now_s
        self._heard_s = now_s

    def is_busy(self, epoch: int, slots: Collection[SlotReport], now_s: float, *, ended: int = -1) -> bool:
        """Whether the newest epoch was asked to end, or some slot of it has not begun, or not yet committed anything.

        Args:
            epoch: The newest that the driver told of.
            slots: What slots have said since the watching began.
            now_s: The present.
            ended: The newest that was asked to end.
        """
        silent = now_s - self._heard_s > _SILENT_S
        self._silent_s = now_s if silent else self._silent_s
        resumes = now_s - self._silent_s < _RESUMES_S
        busy = resumes or ended >= epoch or self._awaits_slots(epoch, slots, now_s)
        if silent:
            self._busy_since_s = None  # a beginning is counted from the end of the silence
        if busy and self._busy_since_s is None:
            self._busy_since_s, self._is_again = now_s, now_s - self._calm_from_s < _BEGINS_S
        elif not busy and self._busy_since_s is not None:
            self._busy_since_s, self._calm_from_s = None, now_s
        return busy

    def waits(self, now_s: float) -> str:
        """Why edges wait, if it was busy at the last look, and not for longer than a beginning takes; else empty.

        A hub that begins again within a minute is no beginning: something keeps it from its work.
        """
        if self._busy_since_s is None or now_s - self._busy_since_s >= _BEGINS_S:
            return ""
        if now_s - self._silent_s < _RESUMES_S:
            return _SILENT
        return "" if self._is_again else _BEGINS

    def _awaits_slots(self, epoch: int, slots: Collection[SlotReport], now_s: float) -> bool:
        if epoch != self._epoch:
            self._epoch, self._since_s = epoch, now_s
        if not slots or max(slot.epoch for slot in slots) < epoch:
            return True
        return now_s - self._since_s < _BEGINS_S and any(not slot.transactions for slot in slots)
