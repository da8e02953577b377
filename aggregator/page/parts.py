"""The views of the page: each is made of parts that change independently.

Invariant: pure. A part is a template with its data. Its id stays the same while the view is open.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aggregator.page.edge_page import EdgePage
from aggregator.page.frames import Frame
from aggregator.page.overview import Overview

Place = Mapping[str, tuple[str, dict[str, Any]]]


def awake(frame: Frame) -> tuple[str, dict[str, Any]]:
    """How old the snapshot is that the view shows."""
    return "parts/awake.html", {"frame": frame, "seen": frame.seen}


def overview_place(frame: Frame, view: Overview) -> Place:
    """The start page."""
    known = {one.name: getattr(view, one.name) for one in fields(view)}
    whole = ("headline", "picture", "needs", "stripped", "lake", "backfills", "insecure", "history")
    parts = {name: (f"parts/{name}.html", known) for name in whole}
    rows = {f"edge-{row.edge.edge}": ("parts/edge_row.html", {"row": row}) for row in view.edges}
    return {"awake": awake(frame), **parts, **rows}


def edge_place(frame: Frame, view: EdgePage) -> Place:
    """The page of an edge."""
    known = {one.name: getattr(view, one.name) for one in fields(view)}
    whole = ("edge_head", "edge_past", "topics", "left", "losses", "edge_stripped")
    return {"awake": awake(frame)} | {name: (f"parts/{name}.html", known) for name in whole}
