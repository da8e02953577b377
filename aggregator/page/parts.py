"""The places of the page: what each is made of, as parts that change on their own.

Invariant: pure; a part is a template, and what it is to know. Its id is the same as long as the place is open.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aggregator.page.edge_page import EdgePage
from aggregator.page.frames import Frame
from aggregator.page.overview import Overview

Place = Mapping[str, tuple[str, dict[str, Any]]]


def awake(frame: Frame) -> tuple[str, dict[str, Any]]:
    """Of what moment the place speaks."""
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
