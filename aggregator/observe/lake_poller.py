"""A look at the lake's tables every few seconds, beside everything else: they may lie on slow storage.

Invariant: reads only; tables that do not answer are looked at again, and the last answer stays.
"""

import logging
import threading
from functools import partial

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError
from aggregator.lake.status import TableStatus, lake_status
from aggregator.threads import Pulse, Threads

_EVERY_S = 10.0
# Slow storage may take minutes for many tables.
_BOUND_S = 600.0
log = logging.getLogger(__name__)


class LakePoller:
    """Looks again and again; a hub without a lake has no tables."""

    def __init__(self, config: HubConfig) -> None:
        self.tables: tuple[TableStatus, ...] = ()
        self._config = config

    def start(self, threads: Threads, over: threading.Event) -> None:
        """Look in a thread.

        Args:
            threads: Of the watcher's process.
            over: Ends it.
        """
        if self._config.lake:
            threads.start("lake-poller", partial(self._run, over), stop=over, bound_s=_BOUND_S)

    def _run(self, over: threading.Event, pulse: Pulse) -> None:
        while not over.is_set():
            pulse()
            try:
                self.tables = tuple(lake_status(self._config))
            except AggregatorError as error:
                log.debug("the lake is looked at again: %s", error.message)
            over.wait(_EVERY_S)
