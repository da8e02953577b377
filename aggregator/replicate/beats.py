"""Writes heartbeats to every edge, MirrorMaker 2's bytes, from one thread.

Invariant: never waits for an edge; a beat that can not be delivered is simply missing, which is the signal.
"""

import threading
import time

from aggregator.config.model import HubConfig
from aggregator.edges.heartbeats import Heartbeat
from aggregator.kafka.names import HEARTBEATS
from aggregator.kafka.outlet import Outlet


class HeartbeatEmitter:
    """Beats on every edge once per interval; flow direction as in MirrorMaker 2: source is the hub, target the edge."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._emit, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to beat, if the configuration says so."""
        if self._config.heartbeats.emit:
            self._thread.start()

    def stop(self) -> None:
        """Stop beating."""
        self._stop.set()

    def _emit(self) -> None:
        outlets = {edge: Outlet(cluster) for edge, cluster in self._config.edges.items()}
        interval_s = self._config.heartbeats.interval.total_seconds()
        while not self._stop.wait(interval_s):
            for edge, outlet in outlets.items():
                beat = Heartbeat(self._config.hub, edge, int(time.time() * 1000))
                outlet.offer(HEARTBEATS, beat.encode_value(), key=beat.encode_key())
        for outlet in outlets.values():
            outlet.close(0.2)
