"""The lease renewal updates the driver's lease every two seconds, and is the first to notice that it was fenced.

Invariant: `lost` is set once and never cleared, whatever error ended the renewal. An empty transaction would prove
nothing, so every beat writes a real record.
"""

import logging
import threading
import time
from collections.abc import Callable

from aggregator.errors import AggregatorError, FatalError, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease import RENEW_INTERVAL_S
from aggregator.state.control import Lease
from aggregator.threads import Pulse, Supervised, Threads

# Longer than a commit can take before it is an error.
_BOUND_S = 60.0
# A password is often changed at the brokers before the hub gets it.
_AUTHENTICATION_TIMEOUT_S = 300.0
_SIGN_IN = "renew what `central.client` names: certificate, key, password or trust; `aggregator doctor` tells which"
log = logging.getLogger(__name__)


class LeaseRenewal:
    """Updates the lease in a thread of its own until the lease is released or lost."""

    def __init__(self, central: KafkaDriverCentral, driver: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self.lost: AggregatorError | None = None
        self._central = central
        self._driver = driver
        self._beat = 0
        self._refused_s: float | None = None
        self._why = ""
        self._now = now
        self._stop = threading.Event()
        self._thread: Supervised | None = None

    def start(self, threads: Threads) -> None:
        """Write the first beat, then keep beating.

        Args:
            threads: Of the driver's process.

        Raises:
            Fenced: another driver was quicker.
        """
        self.renew()
        self._thread = threads.start("lease", self._keep, stop=self._stop, bound_s=_BOUND_S, on_error=self._lose)

    def renew(self, *, released: bool = False) -> None:
        """Publish the lease once, with the next beat.

        Raises:
            Fenced: another driver took the id.
            OutcomeUnknown: no definite answer.
        """
        self._beat += 1
        self._central.publish(Lease(self._driver, self._beat, released=released))

    def try_renew(self) -> None:
        """Move the lease, or say once that central does not: what it refused was aborted, so nobody else has our id.

        Raises:
            FatalError: central has let nobody in for some minutes, and says why.
            Fenced, OutcomeUnknown: as `beat`.
        """
        began_s = self._now()
        try:
            self.renew()
        except (TransactionAborted, Unreachable) as error:
            why = self._central.authentication_error()
            if self._refused_s is None or (why and not self._why):
                log.warning("the lease does not move, and a standby may take over: %s", why or error.message)
            self._refused_s, self._why = began_s if self._refused_s is None else self._refused_s, why
            if why and self._now() - self._refused_s > _AUTHENTICATION_TIMEOUT_S:
                raise FatalError(
                    f"central has not let the driver in for {_AUTHENTICATION_TIMEOUT_S:.0f} s: {why}", hint=_SIGN_IN
                ) from None
            return
        if self._refused_s is not None:
            log.warning("the lease moves again")
        self._refused_s = None

    def release(self) -> None:
        """Stop beating and say so, so that the next driver need not wait.

        Raises:
            AggregatorError: central did not take the last beat; the next driver watches for six seconds.
        """
        self.stop()
        if self.lost is None:
            self.renew(released=True)

    def stop(self) -> None:
        """Stop beating and leave the lease as it is; waits for a beat under way, because its producer goes next."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self, pulse: Pulse) -> None:
        while not self._stop.wait(RENEW_INTERVAL_S):
            pulse()
            self.try_renew()

    def _lose(self, error: BaseException, said: str) -> None:
        """A foreign error may have come at any point of a transaction: nobody knows what became of the beat."""
        if isinstance(error, AggregatorError):
            self.lost = error
        else:
            self.lost = OutcomeUnknown(f"the lease could not be kept: {said}", hint="start it again")
