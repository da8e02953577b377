"""Reads the newest records of an edge's topics: which schema ids they name, and which have no known wire format.

Invariant: this module only reads, and only few records: two neighbours of a few partitions of each topic. Only a
record's schema id is kept.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.config.glue import is_glue
from aggregator.config.match import rule_for
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.coordinates import Partition
from aggregator.doctor.registries import Unframed
from aggregator.errors import DeadLetterError
from aggregator.kafka.readers import single_records
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics
from aggregator.schema.wire import VALUE_ID_HEADER, glue_split, header_id, split

_PARTITIONS_OF_A_TOPIC, _PARTITIONS = 3, 300
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Records:
    """Holds what the newest records of an edge name.

    Attributes:
        ids: Schema ids, each with the topics of the records that name it.
        unframed: Records that are in no known wire format, by topic.
    """

    ids: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    unframed: Mapping[str, Unframed] = field(default_factory=dict)


def read_records(config: HubConfig, policies: Mapping[Path, Policy], edge: str, shown: DiscoveredTopics) -> Records:
    """Look at the newest records of topics whose values have schemas.

    Raises:
        Unreachable: the edge's client cannot be used.
    """
    positions = dict(list(_positions(config, policies, edge, shown))[:_PARTITIONS])
    ids, bad, seen = defaultdict[int, set[str]](set), defaultdict[str, int](int), defaultdict[str, int](int)
    by_glue = is_glue(config.edges[edge].schemas or "")
    for (topic, _), record in _neighbours(config.edges[edge], positions):
        if record.value is None:
            continue
        seen[topic] += 1
        try:
            schema_id = _schema_id(record, by_glue=by_glue)
        except DeadLetterError:
            bad[topic] += 1
        else:
            if schema_id is not None:
                ids[schema_id].add(topic)
    return Records(
        {schema_id: tuple(sorted(topics)) for schema_id, topics in ids.items()},
        {topic: Unframed(count, seen[topic]) for topic, count in bad.items()},
    )


def _neighbours(
    cluster: ClusterConfig, positions: Mapping[Partition, int]
) -> Iterator[tuple[Partition, single_records.RecordContent]]:
    """The record at each position and the one behind it: a producer that writes in turns has both kinds there."""
    for further in (0, 1):
        moved = {at: offset + further for at, offset in positions.items()}
        yield from single_records.records_at(cluster, moved, timeout_s=_TIMEOUT_S).items()


def _positions(
    config: HubConfig, policies: Mapping[Path, Policy], edge: str, shown: DiscoveredTopics
) -> Iterator[tuple[Partition, int]]:
    for name, topic in sorted(shown.topics.items()):
        rule = rule_for(config, edge, name)
        if rule is None or not policies[rule.policy].view(name).value_format.has_schema:
            continue
        ranges = enumerate(zip(topic.log_start_offsets, topic.last_stable_offsets, strict=True))
        filled = [(partition, start, end) for partition, (start, end) in ranges if end > start]
        for partition, start, end in filled[:_PARTITIONS_OF_A_TOPIC]:
            yield (name, partition), max(start, end - single_records.BEFORE_END)


def _schema_id(record: single_records.RecordContent, *, by_glue: bool) -> int | None:
    """The id that a record names; None where it names its schema by a GUID, which only its own registry knows.

    Raises:
        DeadLetterError: it names none.
    """
    assert record.value is not None
    if by_glue:
        glue_split(record.value)
        return None
    header = dict(record.headers).get(VALUE_ID_HEADER)
    if header is None:
        return split(record.value)[0]
    named = header_id(header)
    return named if isinstance(named, int) else None
