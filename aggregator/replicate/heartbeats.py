"""This module writes heartbeats in MirrorMaker 2's format to every edge, from one thread for each edge.

Invariant: the writer never waits for an edge. A heartbeat that cannot be delivered is dropped, and its absence is the
signal. An error that ends the heartbeats of one edge does not affect the other edges. The thread of that edge is
restarted.
"""

import threading
from collections.abc import Callable
from functools import partial

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.edges.heartbeats import Heartbeat
from aggregator.kafka.writers.lossy_producer import LossyProducer
from aggregator.machine_clock import utc_now_ms
from aggregator.threads import Pulse, Threads

_BOUND_S = 30.0


class HeartbeatEmitter:
    """Writes a heartbeat to every edge once per interval; as in MirrorMaker 2, the source is the hub.

    Args:
        config: The hub.
        is_known: Whether the cluster that answers for an edge is the edge's: nothing is written to another one.
    """

    def __init__(self, config: HubConfig, is_known: Callable[[str], bool]) -> None:
        self._config = config
        self._is_known = is_known
        self._interval_s = config.heartbeats.interval.total_seconds()
        self._stop = threading.Event()

    def start(self, threads: Threads) -> None:
        """Begin to beat, if the configuration says so.

        Args:
            threads: Of the driver's process.
        """
        if self._config.heartbeats.emit:
            for edge in self._config.edges:
                bound_s = self._interval_s + _BOUND_S
                threads.start(f"heartbeats-{edge}", partial(self._emit, edge), stop=self._stop, bound_s=bound_s)

    def stop(self) -> None:
        """Stop writing heartbeats."""
        self._stop.set()

    def _emit(self, edge: str, pulse: Pulse) -> None:
        outlet: LossyProducer | None = None
        try:
            while not self._stop.wait(self._interval_s):
                pulse()
                if not self._is_known(edge):
                    _close(outlet)  # its client would stay with the brokers of the foreign cluster
                    outlet = None
                    continue
                outlet = outlet or LossyProducer(self._config.edges[edge])
                beat = Heartbeat(self._config.hub, edge, utc_now_ms())
                outlet.offer(HEARTBEATS, beat.encode_value(), key=beat.encode_key())
        finally:
            _close(outlet)


def _close(outlet: LossyProducer | None) -> None:
    if outlet is not None:
        outlet.close(0.2)
