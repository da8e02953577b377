"""Draws the hub as a picture: central in the middle, the edges around it, and each edge's state on its spoke.

Invariant: pure geometry. Up to a dozen edges have names and numbers. With more edges, only those that need attention
have a name. Every edge is a link with a name, for readers who cannot see.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aggregator.observe.hub_status import EdgeStatus
from aggregator.page.states import Badge, badge_of, badness

SIZE = 480
_CENTRE = SIZE / 2
_NAMED = 12
_CLOSE, _FAR = 150.0, 200.0
HUB_RADIUS = 46.0
# Space around the outermost name or node.
_AIR = 14.0
# The cosine or sine above which a spoke counts as upright rather than lying.
_UPRIGHT = 0.5


class Spoke(NamedTuple):
    """Describes how one edge is drawn in the picture.

    Attributes:
        edge: The edge's name.
        badge: The badge of the edge's state.
        x: The x coordinate of its node.
        y: The y coordinate of its node.
        from_x: The x coordinate where its spoke leaves the node.
        from_y: The y coordinate where its spoke leaves the node.
        to_x: The x coordinate where its spoke meets the hub.
        to_y: The y coordinate where its spoke meets the hub.
        radius: The radius of the node.
        weight: Width of the spoke: how much flows.
        flows: Whether any record flows.
        label: The text beside the node; empty for none.
        detail: The text below the label.
        label_x: The x coordinate of the label.
        label_y: The y coordinate of the label.
        anchor: The SVG text anchor of the label.
        title: The description of the edge in words.
    """

    edge: str
    badge: Badge
    x: float
    y: float
    from_x: float
    from_y: float
    to_x: float
    to_y: float
    radius: float
    weight: float
    flows: bool
    label: str
    detail: str
    label_x: float
    label_y: float
    anchor: str
    title: str


class Picture(NamedTuple):
    """Describes the whole picture.

    Attributes:
        spokes: One per edge, in the order of the configuration.
        top: The y coordinate where the drawing begins, of SIZE.
        height: The height of the drawing.
    """

    spokes: tuple[Spoke, ...]
    top: float
    height: float


def picture(edges: Sequence[EdgeStatus], per_s: Mapping[str, float]) -> Picture:
    """Draw the edges, without the room above and below that none of them takes.

    Args:
        edges: In the order of the configuration.
        per_s: Records a second that each delivers now.
    """
    drawn = spokes(edges, per_s)
    reach = [one.y for one in drawn] + [one.label_y for one in drawn if one.label] + [_CENTRE]
    top = max(0.0, min(reach) - _AIR - HUB_RADIUS / 2)
    return Picture(drawn, _short(top), _short(min(SIZE, max(reach) + _AIR + HUB_RADIUS / 2) - top))


def spokes(edges: Sequence[EdgeStatus], per_s: Mapping[str, float]) -> tuple[Spoke, ...]:
    """Place every edge around central.

    Args:
        edges: In the order of the configuration.
        per_s: Records a second that each delivers now.
    """
    many = len(edges) > _NAMED
    return tuple(_spoke(at, len(edges), edge, per_s.get(edge.edge, 0.0), many=many) for at, edge in enumerate(edges))


def _spoke(at: int, count: int, edge: EdgeStatus, per_s: float, *, many: bool) -> Spoke:
    angle = _angle(at, count)
    away = _FAR if many else _CLOSE
    radius = max(4.0, min(18.0, math.pi * away / count * 0.8)) if many else 24.0
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = _CENTRE + away * cos, _CENTRE + away * sin
    badge = badge_of(edge.state)
    named = not many or badness(edge.state) > 0
    rate = f"{per_s:,.0f} record{'' if round(per_s) == 1 else 's'}/s"
    label_x, label_y, anchor = _label(x, y, cos, sin, radius, many=many)
    return Spoke(
        edge=edge.edge,
        badge=badge,
        x=_short(x),
        y=_short(y),
        from_x=_short(x - (radius + 3) * cos),
        from_y=_short(y - (radius + 3) * sin),
        to_x=_short(_CENTRE + (HUB_RADIUS + 4) * cos),
        to_y=_short(_CENTRE + (HUB_RADIUS + 4) * sin),
        radius=_short(radius),
        weight=1.5 if many else _short(min(7.0, 1.5 + math.log10(1 + per_s))),
        flows=per_s > 0 and badge.tone in ("good", "warn"),
        label=edge.edge if named else "",
        detail="" if many else (rate if badge.tone == "good" else badge.label),
        label_x=_short(label_x),
        label_y=_short(label_y),
        anchor=anchor,
        title=f"{edge.edge}: {badge.label}, {rate}",
    )


def _angle(at: int, count: int) -> float:
    """Angle of a node: from the top, clockwise; two lie side by side."""
    first = math.pi if count == 2 else -math.pi / 2  # noqa: PLR2004 - above and below would leave the sides empty
    return first + 2 * math.pi * at / count


def _label(x: float, y: float, cos: float, sin: float, radius: float, *, many: bool) -> tuple[float, float, str]:
    """Where a name stands: outside the ring, or towards the middle of a crowded one."""
    if many:
        anchor = "middle" if abs(cos) < _UPRIGHT else ("end" if cos > 0 else "start")
        return x - (radius + 6) * cos, y - (radius + 6) * sin + 4, anchor
    above = sin < -_UPRIGHT
    return x, (y - radius - 28 if above else y + radius + 20), "middle"


def _short(number: float) -> float:
    return round(number, 1)
