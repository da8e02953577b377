"""Shows the past of edges: a bar for each window, and every change of a state in words.

Invariant: pure. A change is shown with the moment at which it happened, by central's clock. Time that nobody watched is
shown as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from aggregator.edges.history import WINDOWS_MS, StateSpan
from aggregator.observe.formatting import ago
from aggregator.page.charts import Stretch, bar
from aggregator.page.states import UNWATCHED, Badge, badge_of

# A bar shows the shortest of these windows that holds all known history, or else the last one.
_WINDOWS = ("1h", "24h")
# A cell is ten seconds of an hour, or four minutes of a day. Bars of many edges have fewer cells, for a small page.
_CELLS, _CELLS_OF_MANY, _MANY = 360, 120, 24
# Two looks of the monitor lie at most so far apart. A longer gap means that nobody watched.
_SEAM_MS = 15_000


class StateChange(NamedTuple):
    """Describes how an edge went into a state.

    Attributes:
        edge: The edge's name.
        at_ms: Time at which it went into the state, in milliseconds since 1970.
        badge: The badge of the state.
        lasted: For how long; it may last still.
        lasts: Whether the state lasts still.
        excused: Whether it is not counted: in a maintenance window, or the hub or central were what was waited for.
    """

    edge: str
    at_ms: int
    badge: Badge
    lasted: str
    lasts: bool
    excused: bool


class Past(NamedTuple):
    """Describes the bar of one edge.

    Attributes:
        edge: The edge's name.
        bar: The stretches of the edge's states.
        said: The bar in words.
    """

    edge: str
    bar: tuple[Stretch, ...]
    said: str


def window_of(history: Mapping[str, Sequence[StateSpan]], now_ms: int) -> str:
    """The window in which the past of all edges is shown, a name of `WINDOWS_MS`."""
    first_ms = min((spans[0].start_ms for spans in history.values() if spans), default=now_ms)
    return next((name for name in _WINDOWS if now_ms - first_ms <= WINDOWS_MS[name]), _WINDOWS[-1])


def pasts(history: Mapping[str, Sequence[StateSpan]], *, now_ms: int, window: str) -> tuple[Past, ...]:
    """A bar for each edge.

    Args:
        history: The spans of states by edge.
        now_ms: The time at which the bars end.
        window: Period that the bars cover, a name of `WINDOWS_MS`.
    """
    window_ms = WINDOWS_MS[window]
    cells = _CELLS if len(history) <= _MANY else _CELLS_OF_MANY
    now_ms = (now_ms * cells // window_ms + 1) * window_ms // cells  # so that a bar changes when that can be seen
    return tuple(_past(edge, spans, now_ms, window_ms, cells) for edge, spans in history.items())


def _past(edge: str, spans: Sequence[StateSpan], now_ms: int, window_ms: int, cells: int) -> Past:
    sums: dict[str, int] = {}
    for span in spans:
        lasted_ms = min(span.end_ms, now_ms) - max(span.start_ms, now_ms - window_ms)
        if lasted_ms > 0:
            label = badge_of(span.state).label
            sums[label] = sums.get(label, 0) + lasted_ms
    said = ", ".join(f"{label} for {ago(lasted_ms)}" for label, lasted_ms in sums.items()) or "nobody watched"
    return Past(edge, bar(spans, from_ms=now_ms - window_ms, to_ms=now_ms, cells=cells), f"{edge}: {said}")


def changes(history: Mapping[str, Sequence[StateSpan]], *, now_ms: int, most: int) -> tuple[StateChange, ...]:
    """The newest changes of all edges, the newest first."""
    found = [one for edge, spans in history.items() for one in islice(_changes(edge, spans, now_ms), most)]
    return tuple(sorted(found, key=lambda one: (-one.at_ms, one.edge))[:most])


def _changes(edge: str, spans: Sequence[StateSpan], now_ms: int) -> Iterator[StateChange]:
    """The newest first; time that nobody watched is told like a state."""
    later_ms, at = now_ms, len(spans) - 1
    while at >= 0:
        last = first = spans[at]
        while at > 0 and _goes_on(spans[at - 1], first):
            at -= 1
            first = spans[at]
        is_newest = later_ms == now_ms
        if later_ms - last.end_ms > _SEAM_MS:
            yield StateChange(edge, last.end_ms, UNWATCHED, ago(later_ms - last.end_ms), is_newest, excused=False)
            is_newest = False
        yield StateChange(
            edge, first.start_ms, badge_of(last.state), ago(last.end_ms - first.start_ms), is_newest, last.excused
        )
        later_ms, at = first.start_ms, at - 1


def _goes_on(before: StateSpan, span: StateSpan) -> bool:
    alike = (before.state, before.excused) == (span.state, span.excused)
    return alike and span.start_ms - before.end_ms <= _SEAM_MS
