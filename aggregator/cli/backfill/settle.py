"""`backfill settle`: ends transactions that backfills left undecided. A new backfill does the same if it could not
begin otherwise.

Invariant: transactions that cannot be settled are named, together with the next step.
"""

import os
import secrets
import socket
import threading
from contextlib import suppress

from aggregator.backfill.settlement import is_stuck, settle_backfills
from aggregator.cli.terminal.output import progress
from aggregator.cli.terminal.signals import stopping_on_signals
from aggregator.config.model import HubConfig
from aggregator.errors import AnotherHub, ExitCode


def settle_transactions(hub: HubConfig) -> ExitCode:
    """Settle what backfills left undecided; the exit code says whether something is left.

    Raises:
        AnotherHub: a backfill runs; it settles what it finds.
        AggregatorError: with the exit code of its class.
    """
    stop = threading.Event()
    identity = f"settle@{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    with stopping_on_signals(stop):
        left = settle_backfills(hub, identity=identity, stop=stop)
    for reason in left.values():
        progress(f"not settled: {reason}")
    if not left:
        progress("nothing of a backfill is undecided at central")
    return ExitCode.HELD if left else ExitCode.DONE


def settle_if_stuck(hub: HubConfig) -> None:
    """Settle what keeps backfills from being planned; one that runs does so itself."""
    if is_stuck(hub):
        progress("a backfill left something undecided at central; it is settled first")
        with suppress(AnotherHub):
            settle_transactions(hub)
