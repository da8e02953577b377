"""Runs a backfill in this process: opens a Spark session, runs the driver, shows its progress, and returns the exit
code.

Invariant: SIGTERM ends the run cleanly, and it can be resumed. Progress is a bar on a terminal, and elsewhere a line
every ten seconds.
"""

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aggregator.backfill.backfill_state import Backfill
from aggregator.backfill.driver import BackfillOutcome
from aggregator.backfill.execution import run_to_end
from aggregator.backfill.monitor import BackfillWatch
from aggregator.backfill.store import read_backfills
from aggregator.cli.terminal.output import progress
from aggregator.cli.terminal.signals import stopping_on_signals
from aggregator.config.model import HubConfig
from aggregator.engine.session import open_session
from aggregator.errors import AggregatorError, ExitCode
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.cross_check import read_policies
from aggregator.replicate.flow.cursor import HoldReason
from aggregator.state.names import HubNames
from aggregator.threads import Pulse, Threads

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY_S = 1.0
_NICE = 15
_LINE_EVERY = 10


def run_backfill(config: HubConfig, backfill: Backfill) -> int:
    """Run a backfill in this process until it ends or a signal stops it.

    Returns:
        The exit code: 0 finished, 1 cancelled or stopped before its end, 4 flows held, edges silent or something
        undecided at central, 5 planned records could not be read any more.

    Raises:
        AggregatorError: with the exit code of its class.
    """
    id_, policies = backfill.plan.id, read_policies(config, utc_today())
    stop = threading.Event()
    # The lowest CPU priority, which a local session and its workers inherit: live flows on this machine go first.
    os.nice(max(0, _NICE - os.nice(0)))
    with stopping_on_signals(stop):
        spark = open_session(config, f"aggregator {config.hub} backfill {id_}")
        try:
            identity = f"{id_}@{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
            with _shown(config, id_):
                outcome = run_to_end(config, spark, policies, backfill, identity=identity, stop=stop)
        finally:
            spark.stop()
    for line in _sentences(config, id_, outcome):
        progress(line)
    return exit_code(outcome)


def report_outcome(backfill: Backfill) -> int:
    """Print that a backfill has finished before, and return its exit code; a scheduler may have started it twice."""
    progress(f"backfill {backfill.plan.id} has finished already")
    return ExitCode.DATA_LOSS if backfill.end is not None and backfill.end.lost else ExitCode.DONE


def exit_code(outcome: BackfillOutcome) -> ExitCode:
    """The exit code that tells a scheduler how the run ended."""
    if outcome.lost or any(hold.reason == HoldReason.GAP for hold in outcome.holds):
        return ExitCode.DATA_LOSS
    if outcome.holds or outcome.silent or outcome.undecided_partitions:
        return ExitCode.HELD
    return ExitCode.DONE if outcome.finished else ExitCode.FAILED


def _sentences(config: HubConfig, id_: str, outcome: BackfillOutcome) -> Iterator[str]:
    for source, lost in (outcome.lost or {}).items():
        offsets = ", ".join(f"{one.start}-{one.end - 1}" for one in lost)
        yield f"lost: {source}: offsets {offsets} could not be read any more"
    for hold in outcome.holds:
        yield f"held: {hold.source} ({hold.reason}): {hold.detail}"
    for topic, partition in outcome.undecided_partitions:
        yield f"not visible yet: {topic}-{partition} at central: a transaction is undecided, or it has no leader"
    for edge, why in sorted(outcome.silent.items()):
        yield f"edge {edge}: {why or 'it did not answer, or is paused'}; resume when it is back"
    counts = read_backfills(config.central, HubNames(config.hub))[id_].counts()
    counted = f"{counts['delivered']:,} delivered, {counts['dead']:,} dead letters, {counts['suppressed']:,} suppressed"
    if outcome.finished:
        yield f"backfill {id_} has finished: {counted}"
    else:
        why = "was cancelled" if outcome.cancelled else "is not finished"
        yield f"backfill {id_} {why}: {counted} so far; aggregator backfill resume {id_} goes on"


@contextmanager
def _shown(config: HubConfig, id_: str) -> Iterator[None]:
    """Progress from central's records, beside the work."""
    over = threading.Event()

    def show(pulse: Pulse) -> None:
        _tell(config, id_, over, pulse)

    thread = Threads().start("progress", show, stop=over, bound_s=None)
    try:
        yield
    finally:
        over.set()
        thread.join()


def _tell(config: HubConfig, id_: str, over: threading.Event, pulse: Pulse) -> None:
    bar = _bar() if sys.stderr.isatty() else None
    task = bar.add_task(f"backfill {id_}", total=None) if bar else None
    watch, turn = BackfillWatch(config), 0
    try:
        while not over.wait(_EVERY_S):
            pulse()
            turn += 1
            try:
                found = next((one for one in watch.poll(time.monotonic()) if one.id == id_), None)
            except AggregatorError:
                continue  # the driver reports it if it lasts
            if found is None:
                continue
            if bar is not None and task is not None:
                bar.update(task, total=found.asked, completed=found.done)
            elif turn % _LINE_EVERY == 0:
                progress(f"backfill {id_}: {found.done:,} of {found.asked:,} offsets, {found.per_s:,.0f} records/s")
    finally:
        watch.close()
        if bar is not None:
            bar.stop()


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    bar.start()
    return bar
