"""The throttle of a backfill: how many records it may take now, so that live flows keep their share.

Invariant: pure; time is an argument. Over any stretch of time no more passes than the rate allows, and one second's
worth at once. A rate of None holds nothing back.
"""

_BURST_S = 1.0
# Less than a tenth of a second's worth is not taken: a strip of three records costs as much as one of three hundred.
_GRAIN_S = 0.1


class Throttle:
    """A bucket that fills at `rate` records a second.

    Args:
        rate: Records a second; None: no bound.
        now_s: Seconds on a clock that only goes forward.
    """

    def __init__(self, rate: float | None, now_s: float) -> None:
        self._rate = rate
        self._filled_s = now_s
        self._left = 0.0

    def limit(self, rate: float | None, now_s: float) -> None:
        """Another rate from now on; what was saved up under the old one is gone."""
        if rate != self._rate:
            self._rate, self._filled_s, self._left = rate, now_s, 0.0

    def most(self, now_s: float, limit: int) -> int:
        """Records that may be taken now, `limit` at most."""
        if self._rate is None:
            return limit
        grown = self._left + self._rate * (now_s - self._filled_s)
        self._left, self._filled_s = min(grown, max(1.0, self._rate * _BURST_S)), now_s
        grain = min(limit, max(1.0, self._rate * _GRAIN_S))
        return min(limit, int(self._left)) if self._left >= grain else 0

    def spend(self, records: int) -> None:
        """Count what was taken."""
        self._left -= records
