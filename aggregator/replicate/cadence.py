"""When a slot commits: drained, an interval, or bytes, whichever is first.

Invariant: pure; time is an argument. A transaction is never opened for nothing and never stays open without an end.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cadence:
    """Bounds of one transaction.

    Attributes:
        interval_s: Longest time from the first record to the commit.
        limit_bytes: Bytes after which it commits early.
        linger_s: Shortest time before a drained reader commits; spares a commit per record at low rates.
        idle_s: How often positions that only moved past markers are written.
    """

    interval_s: float
    limit_bytes: int
    linger_s: float = 0.01
    idle_s: float = 1.0

    def due(self, *, pending_bytes: int, open_s: float, drained: bool) -> bool:
        """Whether an open transaction with records should commit now.

        Args:
            pending_bytes: Bytes produced into it.
            open_s: Seconds since its first record.
            drained: Whether the last round over all readers brought nothing.
        """
        return pending_bytes >= self.limit_bytes or open_s >= self.interval_s or (drained and open_s >= self.linger_s)

    def idle_due(self, *, since_commit_s: float) -> bool:
        """Whether positions without records should be written now."""
        return since_commit_s >= self.idle_s
