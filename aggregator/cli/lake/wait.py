"""`aggregator lake wait`: waits until a table has the records that its edges had before a time. Schedulers call it
before jobs that read the table.

Invariant: the command only reads, so it can be repeated without an effect.
"""

import math
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.arguments import LENGTH, TimeArgument
from aggregator.cli.terminal.output import config_option, emit, output_option, progress
from aggregator.config.load import load_config
from aggregator.count_text import format_count
from aggregator.errors import HoldError, RetryError
from aggregator.moments import iso

if TYPE_CHECKING:
    from aggregator.audit.arrival import Arrived
    from aggregator.config.model import HubConfig

_AGAIN_S, _TOLD_S = 2.0, 30.0
_MOST = 3


@click.command(
    epilog="""\b
Examples:
  aggregator lake wait orders --until 2026-11-26T00:00:00Z
  aggregator lake wait orders --timeout 10m -o json

\b
Exit codes: 0 the table has them; 4 it has not, after the timeout."""
)
@config_option
@click.argument("table")
@click.option(
    "--until",
    type=TimeArgument(),
    default=lambda: datetime.now(UTC),
    metavar="TIME",
    help="Records before this time: ISO, or how long ago; now by default. A time to come is waited for first.",
)
@click.option("--timeout", type=LENGTH, metavar="DURATION", default="1h", show_default=True, help="Give up after this.")
@output_option
def wait(config: Path, *, table: str, until: datetime, timeout: timedelta, output: str) -> None:
    """Wait until a table has every record that its edges had before a time, when this was called.

    All edges whose topics feed the table count. What becomes no row (dead letters, suppressed records, rows in the
    quarantine) is waited for, too: behind it the table is complete.
    """
    began_s = time.monotonic()
    arrived = _waited(load_config(config, os.environ), table, until, timeout.total_seconds())
    waited_ms = round((time.monotonic() - began_s) * 1000)
    until_text = iso(until.timestamp() * 1000)
    emit(
        {"table": table, "until": until_text, "version": arrived.version, "waited_ms": waited_ms},
        output,
        lambda: [f"table {table} has all records before {until_text} (version {arrived.version})"],
    )


def _waited(hub: "HubConfig", table: str, until: datetime, timeout_s: float) -> "Arrived":
    """Wait until the table has what was asked for, and return what arrived.

    Raises:
        HoldError: the time is over.
    """
    from aggregator.audit.arrival import Arrived, poll_arrival

    give_up_s, told_s = time.monotonic() + timeout_s, -math.inf
    before = iso(until.timestamp() * 1000)
    seen, missing = poll_arrival(hub, table, until), f"{before} is to come"
    while True:
        if datetime.now(UTC) >= until:
            try:
                look = next(seen)
            except RetryError as error:
                missing, seen = error.message, poll_arrival(hub, table, until)
            else:
                if isinstance(look, Arrived):
                    return look
                more = f" and {format_count(len(look) - _MOST, 'partition')} more" if len(look) > _MOST else ""
                missing = f"{'; '.join(map(str, look[:_MOST]))}{more}"
        now_s = time.monotonic()
        if now_s >= give_up_s:
            raise HoldError(
                f"table {table} has not all records before {before}: {missing}",
                hint="aggregator status --problems and aggregator lake status show what stands still",
            )
        if now_s - told_s >= _TOLD_S:
            progress(f"waiting: {missing}")
            told_s = now_s
        time.sleep(min(_AGAIN_S, give_up_s - now_s))
