"""Watching beside a running hub: its monitor, and whoever asks for what it finds, from the lease to the last word.

Invariant: whatever goes wrong in here ends the watching and never the hub, apart from an address that can not be
listened on, which is told before the hub leads.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError
from aggregator.observe.exposition import MetricsServer, Watcher
from aggregator.observe.monitor import Monitor
from aggregator.replicate.cursor import Hold

_LAST_WORD_S = 10.0
log = logging.getLogger(__name__)


class Teller(Protocol):
    """Tells somebody outside what a watcher finds."""

    def serve(self, watcher: Watcher) -> None:
        """Tell what this one finds from now on."""
        ...

    def close(self) -> None:
        """Tell nothing more."""
        ...


class Watching:
    """The monitor of the hub that leads, its metrics, and whoever else tells what it finds.

    Args:
        config: The hub.
        stop: Ends it.
        wanted: False for a run that replicates nothing, or only what is there: nobody watches then.
        tellers: Those who listen already.

    Raises:
        ConfigError: the address for metrics can not be listened on.
    """

    def __init__(
        self, config: HubConfig, stop: threading.Event, *, wanted: bool, tellers: Sequence[Teller] = ()
    ) -> None:
        self._config = config
        self._stop = stop
        self._wanted = wanted
        self._monitor: Monitor | None = None
        listen = config.metrics.listen if wanted else None
        metrics = (MetricsServer(listen, by_partition=config.metrics.partitions),) if listen else ()
        self._tellers: tuple[Teller, ...] = (*tellers, *metrics)

    def begin(self) -> None:
        """The hub leads."""
        if not self._wanted:
            return
        try:
            self._monitor = Monitor(self._config, self._stop, publish=True)
        except AggregatorError as error:
            log.warning("nobody watches the edges: %s", error.message)
            return
        self._monitor.start()
        for teller in self._tellers:
            teller.serve(self._monitor)

    def refuse(self, holds: Sequence[Hold]) -> None:
        """An epoch begins, and no slot gets these flows."""
        if self._monitor:
            self._monitor.refuse(holds)

    def finish(self) -> None:
        """The hub has ended: let the monitor say its last word."""
        if self._monitor:
            self._stop.set()
            self._monitor.join(_LAST_WORD_S)
        for teller in self._tellers:
            teller.close()
