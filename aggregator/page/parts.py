"""Splits the views of the page into parts that change independently.

Invariant: pure. A part is a template with its data. Its id stays the same while the view is open.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aggregator.page.edge_page import EdgePage
from aggregator.page.frames import Frame
from aggregator.page.overview import Overview
from aggregator.page.runbooks import runbooks
from aggregator.page.states import STALE

PageParts = Mapping[str, tuple[str, dict[str, Any]]]


def snapshot_age(frame: Frame) -> tuple[str, dict[str, Any]]:
    """The part that shows how old the snapshot is."""
    return "parts/snapshot_age.html", {"frame": frame, "seen": frame.seen}


def _known(frame: Frame, view: Overview | EdgePage) -> dict[str, Any]:
    """The context of the templates of a view."""
    of_view = {one.name: getattr(view, one.name) for one in fields(view)}
    return of_view | {"frame": frame, "unwatched": STALE, "runbooks": runbooks()}


def overview_parts(frame: Frame, view: Overview) -> PageParts:
    """The parts of the start page, each with its template and context."""
    known = _known(frame, view)
    whole = ("headline", "picture", "needs", "history", "lake", "backfills", "insecure", "stripped")
    parts = {name: (f"parts/{name}.html", known) for name in whole}
    rows = {f"edge-{row.edge.edge}": ("parts/edge_row.html", {"row": row}) for row in view.edges}
    return {"snapshot_age": snapshot_age(frame), **parts, **rows}


def edge_parts(frame: Frame, view: EdgePage) -> PageParts:
    """The parts of an edge's page, each with its template and context."""
    known = _known(frame, view)
    whole = ("edge_head", "edge_past", "topics", "left", "losses", "edge_stripped")
    return {"snapshot_age": snapshot_age(frame)} | {name: (f"parts/{name}.html", known) for name in whole}
