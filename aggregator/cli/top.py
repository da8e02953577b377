"""`aggregator top`: shows which topics flow now, the busiest first.

Invariant: the command only reads. On a terminal it refreshes a screen every second. Elsewhere it prints one answer
after some seconds.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aggregator.cli.status import monitoring
from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.observe.formatting import ago, per_second
from aggregator.threads import Threads

if TYPE_CHECKING:
    from aggregator.observe.snapshot import Snapshot

_WAIT_S = 5.0


@click.command()
@config_option
@click.option("--most", type=int, default=20, show_default=True, help="Topics to show.")
@click.option("--looks", type=click.IntRange(1), default=4, hidden=True, help="Looks before the one answer of a pipe.")
@output_option
def top(config: Path, most: int, looks: int, output: str) -> None:
    """Show what flows now: records a second, lag and what the slots do; the busiest first."""
    screen = sys.stdout.isatty() and output == "text"
    number = -1
    with monitoring(load_config(config, os.environ), Threads()) as monitor:
        while True:
            taken = monitor.wait_for_newer(number, _WAIT_S)
            if taken is None:
                continue
            number = taken.number
            if screen:
                click.clear()
            elif number < looks:  # a rate needs several looks
                continue
            rows = _topics(taken)
            emit(_plain(taken, rows), output, partial(_text, taken, rows, most))
            if not screen:
                return


def _topics(taken: "Snapshot") -> list[dict[str, Any]]:
    """One row per edge topic, the busiest first, then those that wait."""
    from aggregator.observe.selection import by_topic

    rates: dict[tuple[str, str], float] = defaultdict(float)
    for source, rate in taken.rates.items():
        rates[source.edge, source.topic] += rate
    rows = [
        {
            "edge": one.edge,
            "topic": one.topic,
            "records_per_s": round(rates[one.edge, one.topic], 1),
            "lag_records": one.lag_records or 0,
            "lag_ms": one.lag_ms or 0,
            "delivered": one.delivered,
            "dead": one.dead,
        }
        for one in by_topic(taken.status.flows)
    ]
    return sorted(rows, key=lambda row: (-row["records_per_s"], -row["lag_records"], row["edge"], row["topic"]))


def _plain(taken: "Snapshot", rows: list[dict[str, Any]]) -> dict[str, Any]:
    slots = [
        {
            "slot": slot.slot,
            "epoch": slot.epoch,
            "transactions": slot.transactions,
            "held": len(slot.held),
            "waiting": len(slot.waiting),
            "rss_bytes": slot.rss_bytes,
        }
        for slot in taken.slots
    ]
    edges = [
        {
            "edge": edge.edge,
            "state": edge.state,
            "lag_records": edge.lag_records,
            "read_bytes_per_s": edge.read_bytes_per_s,
            "written_bytes_per_s": edge.written_bytes_per_s,
            "rate_limit_bytes_per_s": edge.rate_limit_bytes_per_s,
        }
        for edge in taken.status.edges
    ]
    return {"hub": taken.status.hub, "epoch": taken.epoch, "edges": edges, "topics": rows, "slots": slots}


def _text(taken: "Snapshot", rows: list[dict[str, Any]], most: int) -> Iterator[str]:
    total = sum(taken.rates.values())
    states = ", ".join(f"{edge.edge} {edge.state}" for edge in taken.status.edges)
    yield f"{taken.status.hub}: epoch {taken.epoch}, {total:,.0f} records/s; {states}"
    if not taken.status.watched:
        yield "no hub watches these edges, so nothing flows; why, where a hub told it: aggregator status --problems"
    yield ""
    yield from table(
        ("edge", "read", "written", "limit"),
        [
            (
                edge.edge,
                per_second(edge.read_bytes_per_s),
                per_second(edge.written_bytes_per_s),
                per_second(edge.rate_limit_bytes_per_s),
            )
            for edge in taken.status.edges
        ],
    )
    yield ""
    yield from table(
        ("edge", "topic", "records/s", "lag records", "lag", "delivered", "dead"),
        [
            (
                row["edge"],
                row["topic"],
                row["records_per_s"],
                row["lag_records"],
                ago(row["lag_ms"]),
                row["delivered"],
                row["dead"],
            )
            for row in rows[:most]
        ],
    )
    if len(rows) > most:
        yield f"and {len(rows) - most:,} more topics that are quieter: --most"
    yield ""
    yield from table(
        ("slot", "epoch", "transactions", "held", "waiting", "memory MB"),
        [(s.slot, s.epoch, s.transactions, len(s.held), len(s.waiting), s.rss_bytes // 1_000_000) for s in taken.slots],
    )
