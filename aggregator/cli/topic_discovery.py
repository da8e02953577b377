"""Looks at running clusters and registries before a configuration exists, and finds topics, formats, fields and tags.

Invariant: a few records of each topic are read. Only the format of their values and the names of their fields are kept.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.cli.leaves import PolicyLeaf, json_leaves, merged, value_leaves
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import HEARTBEATS, OffsetRange, Partition
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.readers import ends, single_records
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.review.sniff import Sniffed, Value, sniffed
from aggregator.replicate.discovery.edge_topic import is_internal
from aggregator.replicate.flow.limits import is_compacted
from aggregator.schema.registry import Registry

# Per topic: partitions whose offsets are asked for, partitions that are read, and records of each of these.
_ASKED, _LOOKED_AT, _RECORDS = 50, 3, 3
# So many topics are read at a time, because a record may have many megabytes.
_AT_ONCE = 20
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """One topic name, and what all edges together tell about it.

    Attributes:
        name: Topic.
        edges: Edges that have it.
        compacted: Whether the topic is compacted at one edge at least, so that its key must stay distinct.
        leaves: Leaves of all versions of the value schema, or of sampled JSON; None where no fields are known.
        value_format: The format of the values; None where the topic has no records and no schema.
        note: A remark for a person about the topic's records.
    """

    name: str
    edges: tuple[str, ...]
    compacted: bool
    leaves: tuple[PolicyLeaf, ...] | None
    value_format: ValueFormat | None = ValueFormat.AVRO
    note: str = ""


class Source(NamedTuple):
    """One edge: its cluster and its registry."""

    cluster: ClusterConfig
    registry: Registry


class _TopicSample(NamedTuple):
    """One edge's view of a topic: the format of its values, and its fields by schema and by sampled JSON."""

    sniffed: Sniffed
    of_schemas: tuple[PolicyLeaf, ...] | None
    of_json: tuple[PolicyLeaf, ...]


def survey(edges: Mapping[str, Source]) -> list[FoundTopic]:
    """Ask every edge and its registry.

    Raises:
        Unreachable: an edge does not answer.
    """
    told: dict[str, dict[str, _TopicSample]] = defaultdict(dict)
    compacted: set[str] = set()
    for edge, source in edges.items():
        counts = {name: count for name, count in topics.topic_names(source.cluster).items() if is_replicable(name)}
        names = sorted(counts)
        for name, settings in topic_settings.settings(source.cluster, names).items():
            if is_compacted(settings):
                compacted.add(name)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            samples = _sampled(source.cluster, {name: counts[name] for name in some})
            for name in some:
                told[name][edge] = _describe(name, samples.get(name, ()), source.registry)
    return [_found(name, of_edges, compacted=name in compacted) for name, of_edges in sorted(told.items())]


def _describe(name: str, values: Sequence[Value], registry: Registry) -> _TopicSample:
    of_schemas = value_leaves(registry, name)
    found = sniffed(values, registry, has_schema=of_schemas is not None)
    is_json = found.value_format is ValueFormat.JSON
    return _TopicSample(found, of_schemas, tuple(json_leaves([value for value, _ in values])) if is_json else ())


def _found(name: str, of_edges: Mapping[str, _TopicSample], *, compacted: bool) -> FoundTopic:
    """Combine what the edges told of one topic."""
    told = list(of_edges.values())
    forms = list(dict.fromkeys(one.sniffed.value_format for one in told if one.sniffed.value_format is not None))
    value_format = forms[0] if len(forms) == 1 else _widest(forms)
    notes = [f"its edges differ: {', '.join(sorted(forms))}"] if len(forms) > 1 else []
    notes += [one.sniffed.note for one in told if one.sniffed.note]
    leaves = None
    if value_format is ValueFormat.JSON:
        leaves = merged([one.of_json for one in told])
    elif value_format in (None, ValueFormat.AVRO):
        leaves = merged([one.of_schemas for one in told if one.of_schemas is not None])
    return FoundTopic(name, tuple(of_edges), compacted, leaves, value_format, "; ".join(dict.fromkeys(notes)))


def _widest(forms: Sequence[ValueFormat]) -> ValueFormat | None:
    """The narrowest format that covers several edges: any JSON is text, and any text is bytes."""
    if not forms or ValueFormat.AVRO in forms:
        return ValueFormat.AVRO if forms else None
    return ValueFormat.BYTES if ValueFormat.BYTES in forms else ValueFormat.TEXT


def _sampled(cluster: ClusterConfig, counts: Mapping[str, int]) -> dict[str, list[Value]]:
    """A few values of each topic: old, middle and new ones of some partitions; none of what does not answer.

    Raises:
        Unreachable: the client cannot be used.
    """
    asked = [(name, number) for name, count in counts.items() for number in range(min(count, _ASKED))]
    filled: dict[str, dict[Partition, OffsetRange]] = defaultdict(dict)
    for at, log in ends.log_offsets(cluster, asked, refused={}).items():
        if len(log.readable) and len(filled[at[0]]) < _LOOKED_AT:
            filled[at[0]][at] = log.readable
    logs = {at: log for of_topic in filled.values() for at, log in of_topic.items()}
    found: dict[str, list[Value]] = defaultdict(list)
    read: set[tuple[Partition, int]] = set()
    for turn in range(_RECORDS):
        positions = {at: _position(log, turn) for at, log in logs.items()}
        fresh = {at: offset for at, offset in positions.items() if (at, offset) not in read}
        read |= set(fresh.items())
        for (name, _), record in single_records.records_at(cluster, fresh, timeout_s=_PATIENCE_S).items():
            if record.value is not None:
                found[name].append((record.value, list(record.headers)))
    return found


def _position(log: OffsetRange, turn: int) -> int:
    return (max(log.start, log.end - single_records.BEFORE_END), log.start, log.start + len(log) // 2)[turn]


def is_replicable(topic: str) -> bool:
    """Neither internal nor the heartbeats, which are a flow of their own."""
    return topic != HEARTBEATS and not is_internal(topic)
