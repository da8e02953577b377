"""Observes the live flows for the driver of a backfill: how fast they go, and how many records they still have to read.

Invariant: this module only reads. Edges are asked only about flows that have just moved, so the driver waits for no
edge that is away. An edge that does not answer is left out of the count.
"""

from collections import defaultdict

from aggregator.backfill.pace import Load
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.errors import AggregatorError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.tail import LogTail
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.names import HubNames

_LOOK_EVERY_S = 1.0


class LiveFlows:
    """Follows a hub's ledger from its present end on.

    Args:
        config: The hub.

    Raises:
        Unreachable: central does not answer.
    """

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._topic = HubNames(config.hub).ledger
        count = topics.partition_count(config.central, self._topic)
        starts = ends.stable_end_offsets(config.central, [(self._topic, partition) for partition in range(count)])
        self._tail = LogTail(config.central, self._topic, {at: start for (_, at), start in starts.items()})
        self._known: dict[EdgePartition, LedgerRecord] = {}
        self._looked_s: float | None = None

    def poll(self, now_s: float) -> Load | None:
        """The work of the live flows since the last look; None if another look is too early.

        Args:
            now_s: Seconds on a clock that only goes forward.
        """
        if self._looked_s is not None and now_s - self._looked_s < _LOOK_EVERY_S:
            return None
        arrived = winners(self._tail.poll(), self._topic)
        since_s, self._looked_s = self._looked_s, now_s
        moved = {source: entry for source, entry in arrived.items() if source.edge in self._config.edges}
        pairs = [(self._known[source], entry) for source, entry in moved.items() if source in self._known]
        self._known |= moved
        if since_s is None:
            return None
        taken = sum(max(0, new.next_offset - old.next_offset) for old, new in pairs)
        return Load(taken / (now_s - since_s), self._behind(moved))

    def close(self) -> None:
        """Close the connection to central."""
        self._tail.close()

    def _behind(self, moved: dict[EdgePartition, LedgerRecord]) -> int:
        by_edge: dict[str, list[EdgePartition]] = defaultdict(list)
        for source in moved:
            by_edge[source.edge].append(source)
        found = 0
        for edge, sources in by_edge.items():
            at = [(source.topic, source.partition) for source in sources]
            try:
                stable = ends.stable_end_offsets(self._config.edges[edge], at)
            except AggregatorError:
                continue
            found += sum(max(0, stable[place] - moved[of].next_offset) for of, place in zip(sources, at, strict=True))
        return found
