"""Throttles bound how many records a slot takes: by a rate in records (backfill) or in bytes (an edge's `rate_limit`).

Invariant: pure; time is an argument. Over any stretch of time, no more passes than the rate allows plus one second's
worth. A byte throttle also makes good for up to five seconds in which the slot could not ask. A rate of None sets no
bound.
"""

_BURST_S = 1.0
# At least a tenth of a second's worth is taken: stripping three records costs as much as stripping three hundred.
_GRAIN_S = 0.1
# The same for bytes: every batch costs the other edges of the slot some milliseconds.
_BYTES_GRAIN_S = 0.25
# A slot that a commit, a compilation or a busy machine kept from asking may take so many seconds' worth later.
_BYTES_LATE_S = 5.0


class TokenBucket:
    """A bucket that fills at `rate` units a second.

    Args:
        rate: Units (records, bytes) a second; None: no bound.
        now_s: Seconds on a clock that only goes forward.
        grain_s: So many seconds' worth are taken at once, or nothing.
        late_s: Seconds that may be caught up on after a pause. An allowance that was granted and not used expires.
    """

    def __init__(self, rate: float | None, now_s: float, *, grain_s: float = _GRAIN_S, late_s: float = 0.0) -> None:
        self._rate, self._grain_s, self._late_s = rate, grain_s, late_s
        self._filled_s = now_s
        self._left = self._owed_s = 0.0

    def set_rate(self, rate: float | None, now_s: float) -> None:
        """Another rate from now on; what was saved up under the old one is gone."""
        if rate != self._rate:
            self._rate, self._filled_s, self._left = rate, now_s, 0.0

    def available(self, now_s: float, limit: int) -> int:
        """Units that may be taken now, `set_rate` at most."""
        if self._rate is None:
            return limit
        passed_s = now_s - self._filled_s
        self._owed_s = max(min(passed_s, self._late_s), self._owed_s - passed_s)
        most = max(1.0, self._rate * (_BURST_S + self._owed_s))
        self._left, self._filled_s = min(self._left + self._rate * passed_s, most), now_s
        grain = min(limit, max(1.0, self._rate * self._grain_s))
        return min(limit, int(self._left)) if self._left >= grain else 0

    def consume(self, units: float) -> None:
        """Count what was taken; what was taken back is negative."""
        self._left -= units


# The assumed size of a record before any was received.
_RECORD_BYTES = 500.0
_MAX_BYTES = 2**40
# Bounds of the estimate: received bytes are at least a hundredth of the records' bytes, and at most ten times them.
_LEAST_RATIO, _MAX_RATIO = 0.01, 10.0
# A grant covers one second's worth at most, at the worst ratio in recent reports.
_GRANT_S = 1.0
_RATIO_FADES = 0.9
# One request of a client with a rate covers half a second's worth (`clients.slow_fetch`).
_REQUEST_S = 0.5
# After so many reports in a row of almost no bytes, the edge counts as quiet.
_QUIET_WORDS = 3


class ByteThrottle:
    """Bounds the bytes that a client receives, although a reader takes records and the client reports bytes late.

    A client fetches as fast as records are taken. So taken records are charged at once: their size times the recent
    ratio of received bytes to record bytes. That is put right as soon as the client tells what it has received. An
    estimate is wrong for a moment only, and over any longer stretch it is the received bytes that keep to the rate.

    A client receives records that it filters out and that are never taken: aborted transactions, compacted ranges.
    While it does so, or might, the throttle is *blind*: it charges for each question what one request may bring.

    Args:
        rate: Bytes a second.
        now_s: Seconds on a clock that only goes forward.
    """

    def __init__(self, rate: float, now_s: float) -> None:
        self._bucket = TokenBucket(rate, now_s, grain_s=_BYTES_GRAIN_S, late_s=_BYTES_LATE_S)
        self._request, self._grant = rate * _REQUEST_S, rate * _GRANT_S
        self._record_bytes = _RECORD_BYTES
        self._ratio = self._worst = 1.0  # received bytes per byte of records; the worst lately
        self._received = 0
        self._taken = 0  # bytes since the last report
        self._asked = 0.0  # bytes charged for requests since then
        self._is_blind, self._quiet = True, 0

    def count_received(self, received: int) -> None:
        """Take how much the client has received so far, in bytes; the same again says nothing new."""
        grown = received - self._received
        if grown <= 0:
            return
        self._bucket.consume(grown - self._taken * self._ratio - self._asked)
        self._look(grown)
        if self._taken:
            seen = min(_MAX_RATIO, max(_LEAST_RATIO, grown / self._taken))
            self._ratio = (self._ratio + seen) / 2
            self._worst = max(seen, self._worst * _RATIO_FADES)
        self._received, self._taken, self._asked = received, 0, 0.0

    def _look(self, grown: int) -> None:
        """Whether what was received is explained by what was taken."""
        self._quiet = 0 if grown > self._request / 2 else self._quiet + 1
        if grown <= self._taken * _MAX_RATIO or self._quiet >= _QUIET_WORDS:
            self._is_blind = False
        elif not self._quiet:
            self._is_blind = True

    def available(self, now_s: float, limit: int) -> int:
        """How many records may be taken now, `set_rate` at most; 0 if the client must stop fetching."""
        left = self._bucket.available(now_s, _MAX_BYTES)
        if left and self._is_blind:
            self._asked += self._request
            self._bucket.consume(self._request)
        grant = min(left, self._grant) / max(self._ratio, self._worst)
        return min(limit, max(1, int(grant / self._record_bytes))) if left else 0

    def consume(self, records: int, size: int) -> None:
        """Count what was taken: records, and the bytes of their keys and values."""
        if records:
            self._record_bytes = max(1.0, size / records)
            self._taken += size
            self._bucket.consume(size * self._ratio)
