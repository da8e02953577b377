"""Computes small drawings from numbers: a line of throughput, and a bar of states over time.

Invariant: pure geometry in a box of fixed size. Unknown values are not drawn.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from aggregator.edges.history import StateSpan
from aggregator.page.states import Badge, badge_of, badness

LINE_WIDTH, LINE_HEIGHT = 120, 28
BAR_WIDTH = 1000
_MARGIN = 2.0


class ChartLine(NamedTuple):
    """A line of values, oldest first, that ends at the right.

    Attributes:
        points: `x,y` pairs of an SVG polyline; empty for less than two values.
        area: The same, closed at the bottom.
        most: Its highest value.
    """

    points: str
    area: str
    most: float


class Stretch(NamedTuple):
    """A piece of a bar of states."""

    x: float
    width: float
    badge: Badge
    excused: bool


def line(values: Sequence[float], *, places: int) -> ChartLine:
    """Draw a line through values.

    Args:
        values: One per second, the newest last.
        places: How many the box has room for.
    """
    shown = values[-places:]
    if len(shown) < 2:  # noqa: PLR2004 - a line has two ends
        return ChartLine("", "", 0.0)
    most = max(shown)
    step, height = LINE_WIDTH / (places - 1), LINE_HEIGHT - 2 * _MARGIN
    first_x = LINE_WIDTH - step * (len(shown) - 1)
    dots = [
        (round(first_x + step * at, 1), round(LINE_HEIGHT - _MARGIN - height * value / (most or 1.0), 1))
        for at, value in enumerate(shown)
    ]
    points = " ".join(f"{x:g},{y:g}" for x, y in dots)
    area = f"{dots[0][0]:g},{LINE_HEIGHT} {points} {LINE_WIDTH},{LINE_HEIGHT}"
    return ChartLine(points, area, most)


def bar(spans: Iterable[StateSpan], *, from_ms: int, to_ms: int, cells: int) -> tuple[Stretch, ...]:
    """Draw states over time; time that nobody watched stays empty.

    Args:
        spans: The history, in order.
        from_ms: Where the bar begins.
        to_ms: Where it ends.
        cells: In how many equal parts; each shows the worst state in it, so that a short one is seen.
    """
    worst: list[StateSpan | None] = [None] * cells
    for span in spans:
        start, end = max(span.start_ms, from_ms), min(span.end_ms, to_ms)
        for cell in range(
            (start - from_ms) * cells // (to_ms - from_ms), -((from_ms - end) * cells // (to_ms - from_ms))
        ):
            shown = worst[cell]
            if shown is None or badness(span.state) > badness(shown.state):
                worst[cell] = span
    width, drawn, at = BAR_WIDTH / cells, list[Stretch](), 0
    for shape, run in groupby(None if one is None else (badge_of(one.state), one.excused) for one in worst):
        length = len(list(run))
        if shape is not None:
            drawn.append(Stretch(round(at * width, 1), round(length * width, 1), *shape))
        at += length
    return tuple(drawn)
