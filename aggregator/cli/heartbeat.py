"""`aggregator heartbeat emit|status`: writes an edge's heartbeats from a machine near it, and shows whether they arrive
at central.

Invariant: `emit` writes only to the topic `heartbeats` of one edge, and asks central for nothing. Its principal needs
Write on that one topic. The first heartbeat that the edge refuses ends the command with an error.
"""

import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import click

from aggregator.cli.terminal.arguments import LENGTH
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import config_option, output_option, progress, table
from aggregator.cli.terminal.output import emit as show
from aggregator.config.load import load_config
from aggregator.errors import FatalError
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.formatting import ago


@click.group(cls=CommandGroup)
def heartbeat() -> None:
    """Heartbeats: write an edge's from near it, and see whether they come through."""


@heartbeat.command(name="emit", epilog="\b\nExample:\n  aggregator heartbeat emit --edge eu")
@config_option
@click.option("--edge", required=True, help="Whose; its connection is that of the configuration's `edges:`.")
@click.option("--source", metavar="ALIAS", help="Who writes, in the beat's key; the hub's name by default.")
@click.option("--for", "lasts", type=LENGTH, metavar="DURATION", help="Stop after this long, as 60s or 5m.")
def emit_(config: Path, edge: str, source: str | None, lasts: timedelta | None) -> None:
    """Write heartbeats to an edge, byte for byte as MirrorMaker 2 does, until SIGTERM.

    For an edge whose `heartbeats` the hub may not write (`heartbeats: {emit: false}`), and where a clock beside the
    edge is to be compared with central's.
    """
    from aggregator.edges.heartbeats import Heartbeat
    from aggregator.kafka.writers.heartbeat_writer import HeartbeatWriter

    hub = load_config(config, os.environ)
    if edge not in hub.edges:
        raise FatalError(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    for_s = lasts.total_seconds() if lasts else float("inf")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    began, interval_s = time.monotonic(), hub.heartbeats.interval.total_seconds()
    writer = HeartbeatWriter(hub.edges[edge])
    try:
        announced = False
        while not stop.is_set() and time.monotonic() - began < for_s:
            beat = Heartbeat(source or hub.hub, edge, utc_now_ms())
            writer.write(beat.encode_key(), beat.encode_value())
            if not announced:
                progress(f"{edge} takes the beats of {beat.source}")
                announced = True
            stop.wait(interval_s)
    finally:
        writer.close()


@heartbeat.command(name="status", epilog="\b\nExample:\n  aggregator heartbeat status -o json")
@config_option
@output_option
def status_(config: Path, output: str) -> None:
    """Every edge's last beat: how old it is at central, how long it took, and what its clock says."""
    from aggregator.observe.status import hub_status

    seen = hub_status(load_config(config, os.environ), now_ms=utc_now_ms())
    answer = [
        {
            "edge": one.edge,
            "heartbeat_age_ms": one.heartbeat_age_ms,
            "latency_ms": one.latency_ms,
            "skew_ms": one.skew_ms,
            "state": one.state,
            "reason": one.reason,
        }
        for one in seen.edges
    ]
    rows = [(e.edge, ago(e.heartbeat_age_ms), ago(e.latency_ms), ago(e.skew_ms), e.state, e.reason) for e in seen.edges]
    show(answer, output, lambda: table(("edge", "last beat", "took", "clock", "state", "why"), rows))
