"""Converts the history of states between spans and the JSON rows at central, and says which rows are to be written now.

Invariant: pure. A row that cannot be read counts as time that nobody watched.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aggregator.edges.availability import AvailabilityState
from aggregator.edges.history import StateSpan, by_day, day_of, expired_days, joined, recorded
from aggregator.state.edge_status import EdgeState, day_record


def spans_of(rows: Iterable[Any]) -> tuple[StateSpan, ...]:
    """Spans of one day's rows [start_ms, end_ms, state, excused], in order."""
    return tuple(sorted(_spans(rows)))


def _spans(rows: Iterable[Any]) -> Iterator[StateSpan]:
    for row in rows:
        try:
            start_ms, end_ms, state, excused = row
            yield StateSpan(int(start_ms), int(end_ms), AvailabilityState(state), bool(excused))
        except (ValueError, TypeError):
            continue


def written_spans(days: Mapping[tuple[str, str], Any], edge: str) -> tuple[StateSpan, ...]:
    """The history of one edge as central has it.

    Args:
        days: Rows by edge and day.
        edge: The edge's name.
    """
    return joined({day: spans_of(rows) for (of, day), rows in days.items() if of == edge})


def lasting(spans: tuple[StateSpan, ...], now: EdgeState | None, now_ms: int) -> tuple[StateSpan, ...]:
    """A history as a running hub tells it: the written spans, and the state that has lasted since.

    Args:
        spans: The written spans; the hub writes when a state changes, and now and then.
        now: The edge's state; None where no hub watches.
        now_ms: Central's present.
    """
    if now is None or now.state not in set(AvailabilityState):
        return spans
    from_ms = max(now.since_ms, spans[-1].end_ms if spans else 0)
    return recorded(spans, AvailabilityState(now.state), from_ms=from_ms, now_ms=now_ms, excused=now.maintenance)


def day_records(
    edge: str, spans: tuple[StateSpan, ...], written: Mapping[str, Any], *, now_ms: int
) -> Iterator[tuple[str, bytes | None]]:
    """Records of changed days: the present day, the one before it, and days that expired.

    Args:
        edge: The edge's name.
        spans: Its whole history.
        written: Rows by day, as central has them.
        now_ms: Central's present.
    """
    for day, found in by_day(spans).items():
        if spans_of(written.get(day, ())) != found and day <= day_of(now_ms):
            yield day_record(edge, day, found)
    for day in expired_days(written, now_ms):
        yield day_record(edge, day, ())
