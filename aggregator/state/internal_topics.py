"""This module lists the topics that a hub owns at central.

Invariant: each topic has the settings that the protocol needs. Every module that creates or checks such a topic takes
them from here.
"""

from aggregator.config.model import HubConfig
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.state import edge_status
from aggregator.state.names import HubNames, checkpoints, offset_syncs


def internal_topics(names: HubNames, slots: int) -> list[TopicSpec]:
    """Everything that a hub owns at central, with the settings that the protocol needs."""
    compact = {"cleanup.policy": "compact"}
    return [
        TopicSpec(names.ledger, slots, compact),
        TopicSpec(names.control, 1, compact),
        TopicSpec(names.requests, 1, compact),
        TopicSpec(names.dead_letters, 1, {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}),
        TopicSpec(names.edge_status, 1, edge_status.SETTINGS),
        # Kafka never deletes the active segment. With `segment.ms` at its default, records would stay for a week.
        TopicSpec(names.telemetry, 1, {"retention.ms": "3600000", "segment.ms": "600000"}),
    ]


def offset_topics(config: HubConfig) -> list[TopicSpec]:
    """Topics that tell positions of consumer groups, by MirrorMaker 2's names; none unless they are wanted."""
    if config.offsets is None:
        return []
    names = [checkpoints(edge) for edge in config.edges if config.offsets.checkpoints]
    names += [offset_syncs(edge) for edge in config.edges if config.offsets.syncs]
    return [TopicSpec(name, 1, {"cleanup.policy": "compact"}) for name in names]
