"""A look at the lake's tables every few seconds, beside everything else: they may lie on slow storage.

Invariant: reads only; tables that do not answer are looked at again, and the last answer stays.
"""

import logging
import threading

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError
from aggregator.lake.status import TableStatus, lake_status

_EVERY_S = 10.0
log = logging.getLogger(__name__)


class LakeLook(threading.Thread):
    """Looks until `stop` is set; a hub without a lake has no tables."""

    def __init__(self, config: HubConfig, stop: threading.Event) -> None:
        super().__init__(name="lake-look", daemon=True)
        self.tables: tuple[TableStatus, ...] = ()
        self._config = config
        self._ended = stop

    def run(self) -> None:
        """Look."""
        while self._config.lake and not self._ended.is_set():
            try:
                self.tables = tuple(lake_status(self._config))
            except AggregatorError as error:
                log.debug("the lake is looked at again: %s", error.message)
            self._ended.wait(_EVERY_S)
