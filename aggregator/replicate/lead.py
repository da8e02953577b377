"""Leading: how a driver process waits for its turn, and what it says when another one took it.

Invariants (protocol): the lease is read *before* the id is taken, so that starting twice harms nobody; E, whoever is
fenced ends with 6 when it sees another driver, else with 1.
"""

import logging
import threading
import time

from aggregator.errors import AggregatorError, AnotherHub, Failed, Fenced
from aggregator.kafka.control import Lease
from aggregator.replicate.lease import Verdict, verdict
from aggregator.replicate.world import KafkaDriverCentral

_TICK_S = 0.1
_TAKEN_OVER_S = 10.0
log = logging.getLogger(__name__)


def await_turn(
    central: KafkaDriverCentral, what: str, *, standby: bool, stop: threading.Event, hint: str
) -> Lease | None:
    """Wait until no other driver holds the lease.

    Args:
        central: Where the lease is.
        what: Who else may run, for the sentences.
        standby: Wait for as long as another one runs.
        stop: Ends the wait.
        hint: What to do about another one.

    Returns:
        The lease of whoever was waited for, if anybody was.

    Raises:
        AnotherHub: one runs, and this process is not to wait.
    """
    first, began = central.control().lease, time.monotonic()
    held: Lease | None = None
    while not stop.is_set():
        latest = central.control().lease
        match verdict(first, latest, time.monotonic() - began):
            case Verdict.FREE:
                return held
            case Verdict.HELD if standby:
                if held is None:
                    log.info("standing by: %s is running", latest.driver if latest else what)
                held, first, began = latest, latest, time.monotonic()
            case Verdict.HELD:
                raise AnotherHub(f"{what} is running ({latest.driver if latest else ''})", hint=hint)
        stop.wait(_TICK_S)
    return held


def overtaken(central: KafkaDriverCentral, newest: int, identity: str, error: AggregatorError) -> AggregatorError:
    """Fenced, or without an answer: look for whoever did it, for up to ten seconds; a time-out looks the same.

    Args:
        central: Where control is.
        newest: The newest epoch that this driver knows.
        identity: This driver's.
        error: What it met.
    """
    deadline = time.monotonic() + _TAKEN_OVER_S
    while time.monotonic() < deadline:
        state = central.control()
        epoch, lease = state.epoch, state.lease
        other = lease.driver if lease else ""
        if epoch and epoch.epoch > newest:
            other = epoch.driver
        if other not in ("", identity):
            return AnotherHub(f"another hub took over ({other})", hint="nothing to do, if that was intended")
        time.sleep(0.2)
    lost = "its transactional id" if isinstance(error, Fenced) else "touch with central"
    return Failed(f"the driver lost {lost}: {error.message}", hint="start it again")
