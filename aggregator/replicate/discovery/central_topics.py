"""This module gives every edge topic the name, the partitions and the settings of its central topic.

Invariant: pure. All other modules take the name of a central topic from here. A central topic that several edge topics
feed has as many partitions as the widest of them.
"""

from collections.abc import Mapping

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.flow.limits import record_size_settings
from aggregator.state.control import Target
from aggregator.state.names import central_heartbeats, central_topic

Snapshots = Mapping[str, Mapping[str, EdgeTopic]]

# A record keeps its timestamp, so central must accept any. By default a broker refuses a timestamp an hour ahead of its
# clock, and such a refusal would abort its slot's transaction for ever. Brokers before 3.6 have no such bound.
_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
_HEARTBEAT_SETTINGS = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}


def target(config: HubConfig, edge: str, topic: str) -> str:
    """The central topic of a replicated edge topic."""
    if topic == HEARTBEATS:
        return central_heartbeats(edge)
    rule = rule_for(config, edge, topic)
    if rule is None:
        raise KeyError(topic)
    return central_topic(rule.central, edge, topic)


def central_topics(config: HubConfig, snapshots: Snapshots) -> list[TopicSpec]:
    """The topics that central needs, each with as many partitions as its widest source."""
    specs: dict[str, TopicSpec] = {}
    for edge, shown in snapshots.items():
        for topic in shown.values():
            name, count = target(config, edge, topic.name), len(topic.log_start_offsets)
            known = specs.get(name)
            rule = rule_for(config, edge, topic.name)
            own: frozenset[str] = frozenset()
            if rule is None:
                settings = dict(_HEARTBEAT_SETTINGS)
            else:
                policy = {"cleanup.policy": topic.settings.get("cleanup.policy", "delete")}
                settings = policy | _ANY_TIME | record_size_settings(topic.synced_settings, known) | rule.central_config
                own = frozenset(_ANY_TIME.keys() - rule.central_config.keys())
            specs[name] = TopicSpec(name, max(count, known.partitions if known else 0), settings, own)
    return list(specs.values())


def targets(config: HubConfig, snapshots: Snapshots) -> set[Target]:
    """The target of each edge topic."""
    return {
        Target(edge, name, target(config, edge, name), is_by_key(config, edge, name))
        for edge, shown in snapshots.items()
        for name in shown
    }


def is_by_key(config: HubConfig, edge: str, topic: str) -> bool:
    """Whether a rule divides this edge topic by key."""
    rule = rule_for(config, edge, topic)
    return rule is not None and rule.partition_by == "key"
