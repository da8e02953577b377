"""This module keeps the history of an edge's states, and computes how much of an availability objective it has spent.

Invariant: pure. Spans are half-open, in order, and never overlap. Time that nobody watched belongs to no span, and
counts neither as up nor as down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.edges.availability import SEVERITY, AvailabilityState
from aggregator.moments import utc

DAY_MS = 86_400_000
WINDOWS_MS = {"1h": 3_600_000, "24h": DAY_MS, "30d": 30 * DAY_MS}
# The most spans of a day, one for each minute and a half. A day with more changes is kept more coarsely.
_MAX_SPANS = 1000
_AVAILABLE = frozenset({AvailabilityState.UP, AvailabilityState.LAGGING})


class StateSpan(NamedTuple):
    """An edge was in one state from `start_ms` to `end_ms`, by central's clock.

    `excused` says that it counts neither way: a maintenance window.
    """

    start_ms: int
    end_ms: int
    state: AvailabilityState
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Uptime:
    """One window of an edge's past, in shares between 0 and 1.

    Attributes:
        observed: Share of the window that was watched, and neither paused nor excused.
        available: Share of `observed` in which records came through; None if nothing was watched.
        burn: How many times faster than the objective allows its errors were spent; 1 spends exactly all of it.
    """

    observed: float
    available: float | None
    burn: float | None


def recorded(
    spans: Sequence[StateSpan], state: AvailabilityState, *, from_ms: int, now_ms: int, excused: bool
) -> tuple[StateSpan, ...]:
    """The spans with one more piece of time at their end.

    Args:
        spans: The history so far.
        state: What held since `from_ms`.
        from_ms: Where the piece begins: the watcher's last look, not its last word.
        now_ms: Where it ends.
        excused: See `StateSpan`.
    """
    start_ms = max(from_ms, spans[-1].end_ms) if spans else from_ms
    if now_ms <= start_ms:
        return tuple(spans)
    last = spans[-1] if spans else None
    if last is not None and (last.end_ms, last.state, last.excused) == (start_ms, state, excused):
        return (*spans[:-1], last._replace(end_ms=now_ms))
    return (*spans, StateSpan(start_ms, now_ms, state, excused))


def uptime(spans: Iterable[StateSpan], *, now_ms: int, window_ms: int, objective: float) -> Uptime:
    """How available an edge was within the window that ends now.

    Args:
        spans: Its history.
        now_ms: Central's present.
        window_ms: Length of the window.
        objective: Share of the time in which it is to be available, below 1.
    """
    up_ms = down_ms = 0
    for span in spans:
        length_ms = min(span.end_ms, now_ms) - max(span.start_ms, now_ms - window_ms)
        if length_ms > 0 and not span.excused and span.state is not AvailabilityState.PAUSED:
            if span.state in _AVAILABLE:
                up_ms += length_ms
            else:
                down_ms += length_ms
    watched_ms = up_ms + down_ms
    if not watched_ms:
        return Uptime(0.0, None, None)
    available = up_ms / watched_ms
    return Uptime(watched_ms / window_ms, available, (1 - available) / (1 - objective))


def uptimes(spans: Sequence[StateSpan], *, now_ms: int, objective: float) -> dict[str, Uptime]:
    """The uptime within every window of WINDOWS_MS, by name."""
    return {
        name: uptime(spans, now_ms=now_ms, window_ms=window_ms, objective=objective)
        for name, window_ms in WINDOWS_MS.items()
    }


def day_of(milliseconds: int) -> str:
    """The day of a moment in UTC, as 2026-11-21."""
    return utc(milliseconds).date().isoformat()


def by_day(spans: Iterable[StateSpan]) -> dict[str, tuple[StateSpan, ...]]:
    """Spans cut at midnight (UTC), bounded per day: what is written, one record a day."""
    days: dict[str, list[StateSpan]] = {}
    for span in spans:
        start_ms = span.start_ms
        while start_ms < span.end_ms:
            end_ms = min(span.end_ms, (start_ms // DAY_MS + 1) * DAY_MS)
            days.setdefault(day_of(start_ms), []).append(span._replace(start_ms=start_ms, end_ms=end_ms))
            start_ms = end_ms
    return {day: bounded(found) for day, found in days.items()}


def joined(days: Mapping[str, Sequence[StateSpan]]) -> tuple[StateSpan, ...]:
    """The spans of several days as one history: the inverse of `by_day`."""
    spans: tuple[StateSpan, ...] = ()
    for day in sorted(days):
        for span in days[day]:
            spans = recorded(spans, span.state, from_ms=span.start_ms, now_ms=span.end_ms, excused=span.excused)
    return spans


def kept(spans: Sequence[StateSpan], now_ms: int) -> tuple[StateSpan, ...]:
    """The spans that any window still reaches."""
    return tuple(span for span in spans if span.end_ms > now_ms - max(WINDOWS_MS.values()))


def expired_days(days: Iterable[str], now_ms: int) -> list[str]:
    """Days that no window reaches any more."""
    oldest = day_of(now_ms - max(WINDOWS_MS.values()) - DAY_MS)
    return sorted(day for day in days if day < oldest)


def bounded(spans: Sequence[StateSpan], most: int = _MAX_SPANS) -> tuple[StateSpan, ...]:
    """At most `most` spans: the shortest are joined to a neighbour, and the two get the worse of their states."""
    found = list(spans)
    while len(found) > most:
        # Spans that touch are joined first, so that unwatched time stays unwatched. Others are joined only at the end.
        at = min(
            range(len(found) - 1),
            key=lambda at: (found[at].end_ms < found[at + 1].start_ms, found[at].end_ms - found[at].start_ms),
        )
        first, second = found[at : at + 2]
        worse = max(first.state, second.state, key=SEVERITY.__getitem__)
        found[at : at + 2] = [StateSpan(first.start_ms, second.end_ms, worse, first.excused and second.excused)]
    return tuple(found)
