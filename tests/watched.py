"""A hub that watches its edges, without Spark."""

import threading

from aggregator.observe.observation import HubObserver
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.heartbeats import HeartbeatEmitter
from aggregator.threads import Threads


class Watched:
    """Everything of a running hub but Spark: beats, one slot in a thread, and the monitor that tells."""

    def __init__(self, epochs, watches=()):
        self._epochs, self._stop = epochs, threading.Event()
        self.threads = Threads(self._stop)
        for edge in epochs.config.edges:
            EdgeWatch(epochs.config, edge, lambda *_: "")._ensure_heartbeats()
        self._emitter = HeartbeatEmitter(epochs.config, lambda _: True)
        self._emitter.start(self.threads)
        (self._plan,) = epochs.plans(drain=False, beats=True)
        self._slot = epochs.start(self._plan)
        self.monitor = HubObserver(epochs.config, self._stop, self.threads, wanted=True)
        self.monitor.begin(watches)

    def end(self):
        """End as a hub does: the slot first, the monitor's last word after it."""
        self._epochs.central.publish(self._plan.epoch)
        assert self._slot.outcome().result == "stopped"
        self._emitter.stop()
        self.monitor.finish()

    def states(self) -> dict[str, str]:
        """What the monitor says now."""
        seen = self.monitor.latest()
        return {edge.edge: edge.state for edge in seen.status.edges} if seen else {}
