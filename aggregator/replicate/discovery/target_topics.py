"""Makes the central topics that edges need, and carries settings over to them.

Invariant: topics are created and widened, and nothing is deleted.
"""

import logging
from collections.abc import Mapping

from aggregator.config.model import HubConfig
from aggregator.coordinates import Partition
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.replicate.discovery.central_topics import Snapshots, central_topics
from aggregator.replicate.discovery.topic_settings import changes, drifts

log = logging.getLogger(__name__)


class TargetTopics:
    """The topics of one hub's central cluster that edge topics are written to."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config

    @property
    def syncs(self) -> bool:
        """Whether settings of edge topics are applied to central's."""
        return self._config.config_sync == "apply"

    def ensure(self, snapshots: Snapshots) -> tuple[dict[str, dict[str, str]], list[Partition]]:
        """Create or widen topics where needed; return their settings and partitions.

        Args:
            snapshots: What edges show.

        Raises:
            Unreachable: central does not answer.
        """
        specs, central = central_topics(self._config, snapshots), self._config.central
        counts = topics.ensure(central, specs, replication_factor=self._config.replication_factor)
        names = [spec.name for spec in specs]
        settings = topic_settings.settings(central, names)
        if self.syncs and self._sync_settings(snapshots, settings):
            settings = topic_settings.settings(central, names)
        return settings, topics.partitions(counts)

    def _sync_settings(self, snapshots: Snapshots, settings: Mapping[str, Mapping[str, str]]) -> bool:
        """Carry over the settings that follow by themselves; return whether there were any."""
        shown = {
            edge: {name: one.synced_settings for name, one in topics.items()} for edge, topics in snapshots.items()
        }
        wanted = changes(drifts(self._config, shown, settings), confirmed=False)
        refused = {one[:2]: one.why for one in topic_settings.change_settings(self._config.central, wanted)}
        for name, given in wanted.items():
            for key, value in given.items():
                why = refused.get((name, key))
                told = f"{key}: {why}" if why else f"{name} at central gets {key}={value}, as at its edges"
                log.warning("settings: %s", told)
        return bool(wanted)
