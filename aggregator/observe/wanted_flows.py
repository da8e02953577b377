"""Finds the flows that the configuration wants, for each edge, each with its ledger record.

Invariant: no cluster is touched. Ledger records of a topic that no rule names, or of an edge that is no longer
configured, are left out. A gap that an edge showed counts only while its flow still stands at the gap's position.
"""

from collections.abc import Mapping

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.observe.edge_snapshot import EdgeSnapshot, Entries
from aggregator.replicate.discovery.edge_topic import start_of
from aggregator.state.gap import Gap
from aggregator.state.ledger import LedgerRecord


class WantedFlows:
    """The wanted flows of every edge, from the newest ledger records that were taken.

    Other threads read while one takes: each edge's entries are replaced as a whole.
    """

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._is_wanted: dict[tuple[str, str], bool] = {}
        self._entries: dict[str, Entries] = {edge: {} for edge in config.edges}

    def ingest(self, ledger: Mapping[EdgePartition, LedgerRecord]) -> None:
        """Sort the ledger's winning records by edge."""
        found: dict[str, dict[EdgePartition, LedgerRecord]] = {edge: {} for edge in self._entries}
        for source, entry in ledger.items():
            at = (source.edge, source.topic)
            if source.edge in found:
                if at not in self._is_wanted:
                    self._is_wanted[at] = start_of(self._config, *at) is not None
                if self._is_wanted[at]:
                    found[source.edge][source] = entry
        self._entries.update(found)

    def of(self, edge: str) -> Entries:
        """The wanted flows of one edge with their ledger records."""
        return self._entries[edge]

    def gaps(self, seen: Mapping[str, EdgeSnapshot]) -> dict[EdgePartition, Gap]:
        """The gap of every flow that has one: in its ledger record, or as its edge showed it.

        Args:
            seen: What each edge showed last.
        """
        found: dict[EdgePartition, Gap] = {}
        for edge, entries in self._entries.items():
            found |= {source: entry.gap for source, entry in entries.items() if entry.gap is not None}
            for source, (position, gap) in seen[edge].gaps.items():
                if source in entries and entries[source].position == position:
                    found[source] = gap
        return found
