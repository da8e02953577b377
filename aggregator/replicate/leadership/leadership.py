"""A leading driver process waits for its turn, runs epoch after epoch, and notices when another driver took over.

Invariants (protocol): the lease is read *before* the id is taken, so starting a hub twice does no harm. E, a fenced
driver ends with exit code 6 if it sees another driver, and with 1 otherwise. After an epoch that ended early, a driver
goes on only when it has written its own lease successfully. The hub's driver and the driver of a backfill lead in the
same way.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from aggregator.backoff import Backoff
from aggregator.errors import (
    AggregatorError,
    AnotherHub,
    FatalError,
    Fenced,
    OutcomeUnknown,
    RetryError,
    Unreachable,
)
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease import LeaseState, lease_state
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.state.control import Lease
from aggregator.threads import Threads

T = TypeVar("T")
_TICK_S = 0.1
# A slower answer counts as this long for the watch: while central is slow, the other driver cannot move its lease.
_PROMPT_S = 0.5
# The pause between two questions to a silent central; each question also costs a time-out.
_AWAY_S = 1.0
_TAKEN_OVER_S = 10.0
_MAX_FAILURES = 5
_PAUSES = Backoff(first_s=0.5, most_s=10.0)
# An epoch that lasted this long resets the count of failures.
_LASTED_S = 60.0
log = logging.getLogger(__name__)


def await_lease(
    central: KafkaDriverCentral,
    what: str,
    *,
    standby: bool,
    stop: threading.Event,
    hint: str,
    now: Callable[[], float] = time.monotonic,
) -> Lease | None:
    """Wait until no other driver holds the lease.

    Args:
        central: Where the lease is.
        what: Who else may run, for the sentences.
        standby: Wait for as long as another one runs.
        stop: Ends the wait.
        hint: What to do about another one.
        now: Seconds on a clock that only goes forward.

    Returns:
        The lease of whoever was waited for, if anybody was.

    Raises:
        AnotherHub: one runs, and this process is not to wait.
        Unreachable: central does not answer, and this process is not to wait.
    """
    first: Lease | None = None
    held: Lease | None = None
    watched_s: float | None = None
    answered_s, away = now(), False
    while not stop.is_set():
        asked_s = now()
        try:
            latest = central.read_control().lease
        except Unreachable as error:
            if not standby:
                raise
            if not away:
                log.warning("standing by: central does not answer (%s); it is asked again", error.message)
            away, watched_s = True, None  # no driver could move the lease: the watch starts over
            stop.wait(_AWAY_S)
            continue
        away, before_s, answered_s = False, answered_s, now()
        if watched_s is None:
            first, watched_s = latest, 0.0
        else:
            watched_s += asked_s - before_s + min(_PROMPT_S, answered_s - asked_s)
        match lease_state(first, latest, watched_s):
            case LeaseState.FREE:
                return held
            case LeaseState.HELD if standby:
                if held is None:
                    log.info("standing by: %s is running", latest.driver if latest else what)
                held, first, watched_s = latest, latest, 0.0
            case LeaseState.HELD:
                raise AnotherHub(f"{what} is running ({latest.driver if latest else ''})", hint=hint)
        stop.wait(_TICK_S)
    return held


def explain_fencing(
    central: KafkaDriverCentral, epoch_number: int, identity: str, error: AggregatorError
) -> AggregatorError:
    """Find out why the driver was fenced or lost central. Reads the control topic for up to ten seconds and looks for
    another driver.

    Args:
        central: Where control is.
        epoch_number: The newest epoch that this driver knows.
        identity: This driver's.
        error: What it met.
    """
    deadline = time.monotonic() + _TAKEN_OVER_S
    while time.monotonic() < deadline:
        state = central.read_control()
        epoch, lease = state.epoch, state.lease
        other = lease.driver if lease else ""
        if epoch and epoch.epoch > epoch_number:
            other = epoch.driver
        if other not in ("", identity):
            return AnotherHub(f"another hub took over ({other})", hint="nothing to do, if that was intended")
        time.sleep(0.2)
    lost = "its transactional id" if isinstance(error, Fenced) else "touch with central"
    return FatalError(f"the driver lost {lost}: {error.message}", hint=error.hint or "start it again")


@contextmanager
def hold_leadership(
    central: KafkaDriverCentral,
    renewal: LeaseRenewal,
    watches: Sequence[EdgeWatch],
    threads: Threads,
    *,
    identity: str,
    epoch_number: Callable[[], int],
) -> Iterator[None]:
    """Take the id, keep the lease and look at the edges while the block lasts; give the lease back at its end.

    Args:
        central: Where the lease is; its turn was awaited.
        renewal: Keeps it.
        watches: Of the edges.
        threads: Of this process.
        identity: This driver's.
        epoch_number: The newest epoch that this driver knows.

    Raises:
        AnotherHub: another driver took over.
        FatalError: the id was lost for no visible reason.
        Unreachable: central does not answer.
    """
    try:
        central.take_id()
        renewal.start(threads)
        for watch in watches:
            watch.start(threads)
        yield
        renewal.release()
    except (Fenced, OutcomeUnknown) as error:
        raise explain_fencing(central, epoch_number(), identity, error) from None
    finally:
        renewal.stop()
        for watch in watches:
            watch.stop()


def run_epochs(
    run: Callable[[], T],
    renewal: LeaseRenewal,
    stop: threading.Event,
    *,
    trouble: Callable[[T], str],
    is_last: Callable[[T], bool],
    hint: str,
    now: Callable[[], float] = time.monotonic,
) -> T | None:
    """Run epochs until one was the last, or `stop` is set.

    Args:
        run: Opens one and watches it to its end.
        renewal: Proves after a failure that this driver still leads.
        stop: Ends it after the epoch that runs.
        trouble: What went wrong in one; empty where it ended by the protocol.
        is_last: Whether one that ended by the protocol was the last.
        hint: What to do when none comes to its end.
        now: Seconds on a clock that only goes forward.

    Returns:
        What the last one came to; None where central did not answer when it was to be opened.

    Raises:
        FatalError: five in a row ended early, none of which lasted for a minute.
        OutcomeUnknown, Fenced: another driver may have taken over.
    """
    failures, result = 0, None
    while not stop.is_set():
        opened_s = now()
        try:
            result = run()
        except OutcomeUnknown:
            raise
        except RetryError as error:  # central did not answer while the epoch was opened
            result, said = None, error.message
        else:
            said = trouble(result)
        if said:
            failures = 1 if now() - opened_s > _LASTED_S else failures + 1
            _recover(renewal, stop, said, failures, hint)
            continue
        failures = 0
        if result is not None and is_last(result):
            break
    return result


def _recover(renewal: LeaseRenewal, stop: threading.Event, said: str, failures: int, hint: str) -> None:
    """After a fenced or failed slot: prove by a lease write that we still lead, then go on with backoff."""
    renewal.try_renew()
    if failures >= _MAX_FAILURES:
        raise FatalError(f"no epoch came to its end {failures} times in a row: {said}", hint=hint)
    log.warning("epoch ended early (%s); the next one follows", said)
    stop.wait(_PAUSES.pause_s(failures))
