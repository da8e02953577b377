"""This module estimates central's clock from the timestamps of arriving records.

Invariant: pure. Central's present time is its newest stamp plus the time that a monotonic clock has counted since. This
machine's wall clock is used only until the first stamp has arrived.
"""

from dataclasses import dataclass
from typing import Self

# Stamps older than twice this time no longer count, because two clocks drift apart by some seconds a day.
_KEPT_S = 60.0


@dataclass(frozen=True, slots=True)
class CentralClock:
    """Estimates central's clock; it is late by the travel time of the fastest stamp of the last minute or two.

    Attributes:
        offset_ms: Central's clock less the watcher's, the highest since `since_s`; None before the first stamp.
        before_ms: The highest of the minute before.
        since_s: When the present minute began, on the watcher's clock.
    """

    offset_ms: float | None = None
    before_ms: float | None = None
    since_s: float = 0.0

    @property
    def known(self) -> bool:
        """Whether a stamp of central's was taken."""
        return self.offset_ms is not None

    def with_stamp(self, stamp_ms: int, now_s: float) -> Self:
        """Take a stamp of central's that has just arrived; one that travelled longer than another is not used."""
        offset_ms = stamp_ms - now_s * 1000
        if self.offset_ms is None or now_s - self.since_s > _KEPT_S:
            return type(self)(offset_ms, self.offset_ms, now_s)
        return type(self)(max(self.offset_ms, offset_ms), self.before_ms, self.since_s)

    def now_ms(self, now_s: float, *, wall_ms: int) -> int:
        """The present by central's clock, in milliseconds.

        Args:
            now_s: Seconds on the watcher's clock.
            wall_ms: This machine's present, for want of a stamp.
        """
        known = [offset for offset in (self.offset_ms, self.before_ms) if offset is not None]
        return int(max(known) + now_s * 1000) if known else wall_ms
