"""Shows plans and backfills as lines of text.

Invariant: the lines give the same answer as `-o json`. Ranges show their last offset. A long list is cut short, and
says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from aggregator.cli.terminal.output import rendered, table
from aggregator.count_text import format_count, format_first
from aggregator.moments import iso

if TYPE_CHECKING:
    from aggregator.backfill.backfill_state import Backfill
    from aggregator.backfill.plan import Plan

_SHOWN = 5
# An offset that no log reaches: the end of a window that has no end.
_OPEN = 2**60


def plan_lines(made: "Plan") -> Iterator[str]:
    """The lines that show a plan on a terminal."""
    yield from table(
        ("flow", "asked", "at the edge", "effective", "taken", "there", "to live", "write", "records", "bytes"),
        [
            (
                str(one.source),
                _ranges(one.asked),
                f"{one.log.start}-{one.log.end}",
                _ranges(one.effective),
                sum(map(len, one.taken)),
                one.already_backfilled,
                one.ahead,
                _ranges([offsets for _, offsets in one.segments]),
                one.records,
                one.bytes,
            )
            for one in made.partitions
        ],
    )
    for one in made.partitions:
        for warning in one.warnings:
            yield f"warning: {one.source}: {warning}"
    for key in made.gone:
        yield f"gone: dead letter {key}: no edge has its record any more, or it belongs to a former life of its topic"
    if made.writes:
        records = format_count(sum(one.records for one in made.partitions), "record")
        size = format_count(sum(one.bytes for one in made.partitions), "byte")
        targets = ", ".join(sorted({one.central for one in made.writes}))
        yield f"backfill {made.id}: about {records}, {size}, {made.seconds:,.0f} s, into {targets}"
    else:
        yield "nothing to write"


def backfill_lines(known: "Sequence[Backfill]") -> Iterator[str]:
    """The lines of a table of backfills."""
    yield from table(
        ("backfill", "state", "mode", "done", "delivered", "dead", "suppressed", "by (claimed)", "started"),
        [
            (
                one.plan.id,
                one.state.value,
                f"into {one.plan.into}" if one.plan.mode.value == "into" else one.plan.mode.value,
                f"{100 * one.behind // max(1, one.offsets)} %",
                *one.counts().values(),
                one.started.by,
                iso(one.started.at_ms),
            )
            for one in known
        ],
    )


def shown_lines(found: "Backfill") -> Iterator[str]:
    """The lines that show one backfill, flow by flow."""
    yield from backfill_lines([found])
    yield ""
    yield from rendered({"ask": dict(found.plan.ask)}, "yaml").rstrip().split("\n")
    yield ""
    yield from table(
        ("flow", "into", "write", "done", "delivered", "dead", "suppressed"),
        [
            (
                str(one.source),
                one.central,
                _ranges([offsets for _, offsets in one.segments]),
                sum(map(len, found.passed(one))),
                *(getattr(found.entries.get(one.source), name, 0) for name in ("delivered", "dead", "suppressed")),
            )
            for one in found.plan.writes
        ],
    )
    for flow, lost in (found.end.lost if found.end else {}).items():
        yield f"lost: {flow}: {', '.join(f'{start}-{end - 1}' for start, end in lost)} could not be read any more"


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    texts = [f"{start}-{end - 1}" if end < _OPEN else f"{start}-" for start, end in ranges]
    return format_first(texts, _SHOWN) or "-"
