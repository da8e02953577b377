"""Runs observation beside a hub: its monitor and the servers of its findings, from the lease until the end.

Invariants: an error in this module leads to a restart and never ends the hub. The exception is an address that cannot
be listened on, which is reported before the hub leads. A monitor that an error ended is replaced by a new one, which
reads its state from central. Until that one has a snapshot, the last snapshot of its predecessor is shown.
"""

import threading
from collections.abc import Collection, Sequence
from typing import Protocol

from aggregator.config.model import HubConfig
from aggregator.kafka.writers.lossy_producer import LossyProducer
from aggregator.observe.exposition import Watcher
from aggregator.observe.metrics_server import MetricsServer
from aggregator.observe.monitor import MONITOR_BOUND_S, Monitor
from aggregator.observe.snapshot import Snapshot
from aggregator.offsets.publisher import LOOK_S, OffsetsPublisher
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.flow.cursor import Hold
from aggregator.state.edge_status import policies_record, threads_record
from aggregator.state.names import HubNames
from aggregator.threads import Pulse, Supervised, Threads, ThreadStatus

_LAST_WORD_S = 10.0
_AGAIN_LOOKS = 15


class SnapshotServer(Protocol):
    """Serves a watcher's snapshots to readers outside of the process."""

    def serve(self, watcher: Watcher) -> None:
        """Serve what this watcher finds from now on."""
        ...

    def close(self) -> None:
        """Stop serving."""
        ...


class HubObserver:
    """The monitor of the hub that leads, its metrics server, and other servers of its snapshots.

    Args:
        config: The hub.
        stop: Ends it.
        threads: Threads of the hub's process.
        wanted: False for a run that replicates nothing, or only what is there: nobody watches then.
        servers: Those who listen already.

    Raises:
        ConfigError: the address for metrics cannot be listened on.
    """

    def __init__(
        self,
        config: HubConfig,
        stop: threading.Event,
        threads: Threads,
        *,
        wanted: bool,
        servers: Sequence[SnapshotServer] = (),
    ) -> None:
        self._config = config
        self._stop = stop
        self._threads = threads
        self._wanted = wanted
        self._monitor: Monitor | None = None
        self._before: Snapshot | None = None
        self._holds: Sequence[Hold] = ()
        self._objections: Sequence[str] = ()
        self._watches: Collection[EdgeWatch] = ()
        self._process: ProcessPublisher | None = None
        self._running: tuple[Supervised, ...] = ()
        metrics = (MetricsServer(config.metrics, threads),) if wanted and config.metrics.listen else ()
        self._servers: tuple[SnapshotServer, ...] = (*servers, *metrics)

    def begin(self, watches: Collection[EdgeWatch] = ()) -> None:
        """Start the monitor and the servers, because the hub leads now.

        Args:
            watches: The watches of the hub's driver; the monitor reads what they find.

        Raises:
            Unreachable: central does not answer.
        """
        self._watches = watches
        self._process = ProcessPublisher(self._config) if self._wanted else None
        self.set_objections(self._objections)
        watching = self._threads.watch(self._stop, self._process or _nobody)
        if self._wanted:
            monitor = self._threads.start("monitor", self._watch, stop=self._stop, bound_s=MONITOR_BOUND_S)
            self._running = (monitor, watching, *self._tell_offsets())
            for teller in self._servers:
                teller.serve(self)

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None before the first."""
        return (self._monitor and self._monitor.latest()) or self._before

    def publish_refused(self, holds: Sequence[Hold]) -> None:
        """An epoch begins, and no slot gets these flows."""
        self._holds = holds
        if self._monitor:
            self._monitor.publish_refused(holds)

    def set_objections(self, objections: Sequence[str]) -> None:
        """Somebody asked for changed policies: what speaks against them, or nothing where they are in force."""
        self._objections = objections
        if self._process:
            self._process.set_objections(objections)

    def finish(self) -> None:
        """The hub has ended: let the monitor publish its last states."""
        if self._running:
            self._stop.set()
        for one in self._running:
            one.join(_LAST_WORD_S)
        if self._process:
            self._process.close()
        for teller in self._servers:
            teller.close()

    def _tell_offsets(self) -> list[Supervised]:
        """The thread that tells positions of consumer groups, where that is wanted."""
        if (settings := self._config.offsets) is None:
            return []
        publisher = OffsetsPublisher(self._config, settings, self._stop)
        bound_s = settings.interval.total_seconds() + LOOK_S
        return [self._threads.start("offsets", publisher.run, stop=self._stop, bound_s=bound_s)]

    def _watch(self, pulse: Pulse) -> None:
        number = self._before.number + 1 if self._before else 0
        monitor = Monitor(self._config, self._stop, self._threads, publish=True, number=number, watches=self._watches)
        try:
            self._monitor = monitor
            monitor.publish_refused(self._holds)
            monitor.run(pulse)
        finally:
            self._before, self._monitor = monitor.latest() or self._before, None
            monitor.close()


class ProcessPublisher:
    """Publishes to the topic of edge states how the leading hub's threads are, and why the hub did not take changed
    policies.

    It does so at every change, and now and then.

    Args:
        config: The hub.
    """

    def __init__(self, config: HubConfig) -> None:
        self._topic = HubNames(config.hub).edge_status
        self._outlet = LossyProducer(config.central)
        self._before: tuple[ThreadStatus, ...] | None = None
        self._objections: Sequence[str] = ()
        self._looks = 0

    def __call__(self, found: tuple[ThreadStatus, ...]) -> None:
        """Publish the states of the threads when they have changed, and now and then when they have not."""
        self._looks += 1
        if self._before is not None and _alike(found, self._before) and self._looks % _AGAIN_LOOKS:
            return
        self._before = found
        self._offer(threads_record(found))
        self._offer(policies_record(self._objections))

    def set_objections(self, objections: Sequence[str]) -> None:
        """Take what speaks against policies that changed."""
        self._objections = objections
        self._offer(policies_record(objections))

    def close(self) -> None:
        """Publish that there are no threads any more, and that the next hub takes the files as they are."""
        self._offer(threads_record(()))
        self._offer(policies_record(()))
        self._outlet.close()

    def _offer(self, record: tuple[str, bytes]) -> None:
        key, value = record
        self._outlet.offer(self._topic, value, key=key.encode())


def _alike(one: tuple[ThreadStatus, ...], other: tuple[ThreadStatus, ...]) -> bool:
    """Whether two say the same; moments differ by the rounding of clocks."""
    return [(t.name, t.condition, t.restarts, t.error) for t in one] == [
        (t.name, t.condition, t.restarts, t.error) for t in other
    ]


def _nobody(_: tuple[ThreadStatus, ...]) -> None:
    """Takes the threads' states where nothing is watched."""
