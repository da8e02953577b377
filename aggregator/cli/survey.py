"""What running clusters and a registry show to somebody who has no configuration yet: topics, fields, tags.

Invariant: only names, types and settings are read, never a record.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.errors import DeadLetterError
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.privacy.policy import paths
from aggregator.replicate.discovery.edge_topic import is_internal
from aggregator.schema.avro import Kind, Node, Schema
from aggregator.schema.heritage import with_heritage
from aggregator.schema.registry import Registry

log = logging.getLogger(__name__)


class Leaf(NamedTuple):
    """A value that a policy can name: its path, its types, and the tags that it has or inherits."""

    path: str
    kind: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """One topic name and what is known of it over all edges.

    Attributes:
        name: Topic.
        edges: Edges that have it.
        compacted: At one edge at least, so that its key must stay distinct.
        leaves: Of all versions of its value schema; None where the registry has none.
    """

    name: str
    edges: tuple[str, ...]
    compacted: bool
    leaves: tuple[Leaf, ...] | None


def survey(edges: Mapping[str, ClusterConfig], registry: Registry | None) -> list[FoundTopic]:
    """Ask every edge and the registry.

    Raises:
        Unreachable: an edge does not answer.
    """
    found: dict[str, list[str]] = {}
    compacted: set[str] = set()
    for edge, cluster in edges.items():
        names = sorted(name for name in topics.topic_names(cluster) if is_replicable(name))
        for name, settings in topic_settings.settings(cluster, names).items():
            if "compact" in settings.get("cleanup.policy", ""):
                compacted.add(name)
        for name in names:
            found.setdefault(name, []).append(edge)
    return [
        FoundTopic(name, tuple(having), name in compacted, value_leaves(registry, name))
        for name, having in sorted(found.items())
    ]


def is_replicable(topic: str) -> bool:
    """Neither internal nor the heartbeats, which are a flow of their own."""
    return topic != HEARTBEATS and not is_internal(topic)


def value_leaves(registry: Registry | None, topic: str) -> tuple[Leaf, ...] | None:
    """Leaves of every version of the topic's value schema, merged by path; None without a readable version."""
    merged: dict[str, Leaf] = {}
    read = False
    for version in registry.versions(f"{topic}-value") if registry else ():
        try:
            schema = with_heritage(version.text, version.tags, ())
        except DeadLetterError as error:
            log.warning("%s version %d: %s", version.subject, version.version, error.message)
            continue
        read = True
        for leaf in leaves(schema):
            known = merged.get(leaf.path, leaf)
            kinds = sorted({*known.kind.split(" or "), *leaf.kind.split(" or ")})
            merged[leaf.path] = Leaf(leaf.path, " or ".join(kinds), known.tags | leaf.tags)
    return tuple(merged.values()) if read else None


def leaves(schema: Schema) -> list[Leaf]:
    """Every leaf once per type; a type inside itself is followed once."""
    found: list[Leaf] = []

    def walk(number: int, path: str, tags: frozenset[str], above: frozenset[int]) -> None:
        node = schema.nodes[number]
        tags |= node.tags
        if number in above:
            return
        inner = above | {number}
        if node.kind is Kind.RECORD:
            for field in node.fields:
                walk(field.node, paths.join(path, field.name), tags | field.tags, inner)
        elif node.kind is Kind.MAP:
            found.append(Leaf(paths.join(path, paths.KEYS), "map key", tags))
            walk(node.children[0], paths.join(path, paths.VALUES), tags, inner)
        elif node.kind in (Kind.ARRAY, Kind.UNION):
            step = paths.join(path, paths.ITEMS) if node.kind is Kind.ARRAY else path
            for child in node.children:
                walk(child, step, tags, inner)
        elif node.kind is not Kind.NULL:
            found.append(Leaf(path, _kind(node), tags))

    walk(schema.root, "", frozenset(), frozenset())
    return found


def _kind(node: Node) -> str:
    return node.logical.name if node.logical else node.kind.value
