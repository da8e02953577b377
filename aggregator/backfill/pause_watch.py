"""Tells which edges of a backfill are paused: neither the live hub nor a backfill reads those.

Invariant: the answer comes from the requests topic, read to its end. A record that arrives there is only the reason to
read it again.
"""

import contextlib
from collections.abc import Collection

from aggregator.config.model import HubConfig
from aggregator.errors import RetryError
from aggregator.state.names import HubNames
from aggregator.state.pauses import paused_edges
from aggregator.state.request_log import RequestWatch, read_requests


class PauseWatch:
    """Follows the pauses of some edges.

    Args:
        config: The hub.
        edges: Edges whose pauses matter.
    """

    def __init__(self, config: HubConfig, edges: Collection[str]) -> None:
        self._config = config
        self._edges = frozenset(edges)
        self._names = HubNames(config.hub)
        self._arrivals = RequestWatch(config.central, self._names)
        self._paused = frozenset[str]()
        self._is_old = True

    def paused(self) -> frozenset[str]:
        """Read the requests, and return the backfill's edges that are paused now.

        Raises:
            FatalError: an end that stays stuck.
            Unreachable: central does not answer.
        """
        self._paused = self._edges & paused_edges(read_requests(self._config.central, self._names).pauses.values())
        self._is_old = False
        return self._paused

    def poll(self) -> frozenset[str]:
        """The paused edges as of the newest request that arrived, or of an earlier one if central is silent."""
        self._is_old = self._is_old or bool(self._arrivals.poll().pauses.keys() & self._edges)
        if self._is_old:
            with contextlib.suppress(RetryError):
                self.paused()
        return self._paused

    def close(self) -> None:
        """Close the connection to central."""
        self._arrivals.close()
