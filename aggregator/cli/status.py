"""`aggregator status`: shows edges, flows, dead letters and the lake, once or whenever they change.

Invariant: the command only reads. The JSON names are a contract.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.status_text import status_lines
from aggregator.cli.terminal.arguments import LENGTH, PATTERN
from aggregator.cli.terminal.missing_rights import tell_lacking
from aggregator.cli.terminal.output import config_option, emit, output_option
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError, FatalError, HoldError
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.formatting import ago
from aggregator.threads import Threads

if TYPE_CHECKING:
    from aggregator.observe.hub_status import HubStatus
    from aggregator.observe.monitor import Monitor

_WAIT_S = 5.0


@click.command()
@config_option
@click.option("--edge", default="", help="One edge; all by default.")
@click.option("--topic", type=PATTERN, help="Regular expression on the whole topic name, as edges call it.")
@click.option("--problems", is_flag=True, help="Only what is not well or stands still, and topics without a rule.")
@click.option("--partitions", is_flag=True, help="A line for each partition; one for each topic by default.")
@click.option("--watch", is_flag=True, help="Show it again whenever it changed, until Ctrl-C.")
@click.option("--exit-when-healthy", is_flag=True, help="Watch until every edge is UP and nothing stands still.")
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="With --exit-when-healthy: give up after this.")
@output_option
def status(
    config: Path,
    *,
    edge: str,
    topic: str | None,
    problems: bool,
    partitions: bool,
    watch: bool,
    exit_when_healthy: bool,
    timeout: timedelta | None,
    output: str,
) -> None:
    """Show edges, flows, lag, dead letters and the lake.

    A problem is an edge that is not UP, a flow or a table that stands still, or another cluster behind a name.
    """
    from aggregator.lake.cycle.sources import lake_sources
    from aggregator.observe.selection import StatusSelection

    hub = load_config(config, os.environ)
    if edge and edge not in hub.edges:
        raise FatalError(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    if timeout is not None and not exit_when_healthy:
        raise click.UsageError("--timeout needs --exit-when-healthy")
    selection, feeds = StatusSelection(edge, topic, problems), partial(lake_sources, hub)

    def show(seen: "HubStatus") -> None:
        chosen = selection.of(seen, feeds)
        dead = {one.edge: one.dead for one in seen.edges if one.dead and edge in ("", one.edge)} if problems else {}
        emit(chosen.plain(), output, lambda: status_lines(chosen, partitions=partitions, problems=problems, dead=dead))

    if watch or exit_when_healthy:
        _watch(hub, show, output, until_healthy=exit_when_healthy, give_up=timeout)
    else:
        _look(hub, show)


def _look(hub: HubConfig, show: "Callable[[HubStatus], None]") -> None:
    """Once; with what can be said where the hub's own topics cannot be read."""
    from aggregator.observe.rights import lacking_rights
    from aggregator.observe.status import hub_status, unread_status

    now_ms, refusal = utc_now_ms(), None
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lacking_rights, hub)
        try:
            seen = hub_status(hub, now_ms=now_ms)
        except AggregatorError as error:
            tell_lacking(asked.result())
            if not any(one.own for one in asked.result()):
                raise
            refusal, seen = error, unread_status(hub, error.message, now_ms=now_ms)
        else:
            tell_lacking(asked.result())
    show(replace(seen, rights=asked.result()))
    if refusal is not None:
        raise refusal


def _watch(
    hub: HubConfig,
    show: "Callable[[HubStatus], None]",
    output: str,
    *,
    until_healthy: bool,
    give_up: timedelta | None,
) -> None:
    """A screen on a terminal; elsewhere one answer per change of a state.

    Raises:
        HoldError: the time is over and the hub is not healthy.
    """
    screen = sys.stdout.isatty() and output == "text"
    before: list[tuple[str, str]] = []
    until_s = time.monotonic() + give_up.total_seconds() if give_up else math.inf
    with monitoring(hub, Threads()) as monitor:
        number = -1
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                patience = ago(round(give_up.total_seconds() * 1000)) if give_up else ""
                raise HoldError(
                    f"the hub was not healthy within {patience}", hint="aggregator status --problems shows what is not"
                )
            taken = monitor.wait_for_newer(number, min(_WAIT_S, left_s))
            if taken is None:
                continue
            number, seen = taken.number, taken.status
            states = [(edge.edge, edge.state) for edge in seen.edges]
            if screen:
                click.clear()
            if screen or states != before:
                show(seen)
            before = states
            if until_healthy and seen.healthy:
                return


@contextmanager
def monitoring(hub: HubConfig, threads: Threads) -> "Iterator[Monitor]":
    """A monitor that only reads, while the block lasts.

    Args:
        hub: The hub to monitor.
        threads: The threads of this process.

    Raises:
        Unreachable: central does not answer.
    """
    from aggregator.observe.monitor import MONITOR_BOUND_S, Monitor

    stop = threading.Event()
    monitor = Monitor(hub, stop, threads, publish=False)
    thread = threads.start("monitor", monitor.run, stop=stop, bound_s=MONITOR_BOUND_S)
    try:
        yield monitor
    finally:
        stop.set()
        thread.join()
        monitor.close()
