"""Judges which cluster answers under each name, for an observer who only follows what a hub keeps at central.

Invariant: the judgement uses only records of the hub and decisions of people. No cluster is asked.
"""

from collections.abc import Mapping

from aggregator.config.model import HubConfig
from aggregator.observe.central_tails import CentralFeeds
from aggregator.replicate.discovery.edge_watch import EdgeAnswer
from aggregator.replicate.identity.clusters import KEY_OF_CENTRAL, Identity, KnownClusters, foreign_cluster


class ClusterIdentities:
    """Judges for one monitor which cluster answers under each name.

    Args:
        config: The hub's configuration.
        feeds: The topics that the hub keeps at central.
    """

    def __init__(self, config: HubConfig, feeds: CentralFeeds) -> None:
        self._config = config
        self._feeds = feeds

    def judge(self, edge: str, shown: str) -> str:
        """The reason why the answering cluster is not the edge's own; see `clusters.foreign_cluster`."""
        known = self._known()
        return foreign_cluster(edge, shown, known, known.kept.get(KEY_OF_CENTRAL, ""), {})

    def of(self, answers: Mapping[str, EdgeAnswer]) -> tuple[Identity, ...]:
        """The identity of every cluster, by the edges' last answers: a watch has judged its own edge."""
        kept = self._known().kept
        edges = (
            Identity(edge, _shown_id(answer), kept.get(edge), answer.foreign if answer.trouble else "")
            for edge, answer in answers.items()
        )
        return (Identity("central", kept.get(KEY_OF_CENTRAL), kept.get(KEY_OF_CENTRAL)), *edges)

    def _known(self) -> KnownClusters:
        return KnownClusters.of(self._config, self._feeds.control.clusters, self._feeds.acceptances)


def _shown_id(answer: EdgeAnswer) -> str | None:
    return answer.cluster_id if answer.foreign or answer.answered_s is not None else None
