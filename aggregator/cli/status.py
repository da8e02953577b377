"""`aggregator status`: edges, flows, dead letters and the lake, once.

Invariant: reads only; the JSON names are a contract.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.output import config_option, emit, output_option, table
from aggregator.config.load import load_config

if TYPE_CHECKING:
    from aggregator.observe.gaps import KnownGap
    from aggregator.observe.status import HubStatus


@click.command()
@config_option
@output_option
def status(config: Path, output: str) -> None:
    """Show edges, flows, lag, dead letters and the lake."""
    from aggregator.observe.status import hub_status  # noqa: PLC0415 - `--help` needs none of its imports

    seen = hub_status(load_config(config, os.environ), now_ms=int(time.time() * 1000))
    emit(seen.plain(), output, lambda: _text(seen))


def _text(seen: "HubStatus") -> Iterator[str]:
    yield from table(
        ("edge", "state", "last beat", "lag records", "lag", "dead", "why"),
        [
            (e.edge, e.state, _ago(e.heartbeat_age_ms), e.lag_records, _ago(e.lag_ms), e.dead, e.reason)
            for e in seen.edges
        ],
    )
    yield ""
    yield from table(
        ("flow", "next", "end", "lag records", "lag", "edge keeps", "delivered", "dead", "suppressed", "gap"),
        [
            (
                f"{f.edge}/{f.topic}/{f.partition}",
                f.next_offset,
                f.end_offset,
                f.lag_records,
                _ago(f.lag_ms),
                _ago(f.retention_margin_ms),
                f.delivered,
                f.dead,
                f.suppressed,
                f"{f.gap.kind} {f.gap}" if f.gap else "",
            )
            for f in seen.flows
        ],
    )
    yield from gap_lines(seen.gaps)
    if seen.lake:
        yield ""
        rows = [(t.table, t.version, t.rows, t.lag_records) for t in seen.lake]
        yield from table(("lake table", "version", "rows", "lag records"), rows)


def gap_lines(gaps: "Sequence[KnownGap]") -> Iterator[str]:
    """A table of gaps below an empty line; nothing where there are none."""
    if gaps:
        yield ""
        rows = [gap.plain() for gap in gaps]
        yield from table(
            ("gap", "kind", "from", "to", "incarnation", "since", "state", "by", "reason"),
            [
                (
                    f"{row['edge']}/{row['topic']}/{row['partition']}",
                    row["kind"],
                    row["from"],
                    "unknown" if row["to"] is None else row["to"],
                    row["incarnation"],
                    row["since"],
                    row["state"],
                    row["by"] or "",
                    row["reason"] or "",
                )
                for row in rows
            ],
        )


def _ago(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds / 1000:.1f}s"
