"""This module reports through telemetry which fields a slot strips, and how often.

Invariants: telemetry only. Nothing is decided by these numbers, and records of an aborted transaction count twice. The
reports cost nothing per record: rows are asked for when they are due, soon after the start and then ever more rarely.
No report contains a value of a field.
"""

import json
from collections.abc import Iterator, Mapping

from aggregator.backoff import Backoff
from aggregator.privacy.batch.strip import ReportRow, Strip

KIND = "fields"
_PAUSES = Backoff(first_s=2.0, most_s=60.0)
# Telemetry is kept for an hour. So a slot without changes repeats its report within that hour.
_AGAIN_S = 600.0
# A report stays well below a broker's default limit of a million bytes.
_PART_BYTES = 400_000
_ROW_BYTES = 50_000


class FieldReports:
    """Decides when and what one slot reports about its fields. The object lives as long as the slot's strips."""

    def __init__(self) -> None:
        self._turns = 1
        self._due_s: float | None = None
        self._reported: dict[tuple[str, str], tuple[float, list[ReportRow]]] = {}
        self._count = 0

    def bodies(
        self, strips: Mapping[tuple[str, str], Strip], now_s: float, *, last: bool = False
    ) -> Iterator[dict[str, object]]:
        """The reports that are due now.

        Args:
            strips: The slot's, by edge and topic.
            now_s: Seconds on a clock that only goes forward.
            last: The slot ends: everything that changed, whether it is due or not.
        """
        if self._due_s is None:
            self._due_s = now_s + _PAUSES.pause_s(self._turns)
        if not last and now_s < self._due_s:
            return
        self._turns += 1
        self._due_s = now_s + _PAUSES.pause_s(self._turns)
        for (edge, topic), strip in strips.items():
            rows = strip.report()
            reported_s, before = self._reported.get((edge, topic), (now_s, []))
            if rows and (rows != before or now_s - reported_s >= _AGAIN_S):
                self._reported[edge, topic] = (now_s, rows)
                self._count += 1
                yield from _bodies(edge, topic, strip, rows, self._count)


def _bodies(edge: str, topic: str, strip: Strip, rows: list[ReportRow], count: int) -> Iterator[dict[str, object]]:
    parts: list[list[ReportRow]] = [[]]
    size = 0
    for row in rows:
        length = len(json.dumps(row))
        if length > _ROW_BYTES:  # an endless path must not cost the other rows
            continue
        if size + length > _PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += length
    head = {
        "kind": KIND,
        "edge": edge,
        "topic": topic,
        "policy": strip.policy,
        "keys": dict(strip.key_versions()),
        "number": count,
        "parts": len(parts),
    }
    for part, some in enumerate(parts):
        yield head | {"part": part, "rows": some}
