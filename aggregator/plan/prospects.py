"""Predicts what would happen to waiting records: a few of each topic go through the strip, before any run.

Invariant: few records are read, and nothing is written. The result holds reasons and places, never any content of a
record. It speaks only of the records that were looked at; others may fare differently.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition, Partition
from aggregator.errors import HoldError, RetryError
from aggregator.kafka.readers import single_records
from aggregator.privacy.batch.strip import Batch, Strip
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import Snapshots, target
from aggregator.replicate.discovery.compacted_keys import require_keys
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.strips import strips
from aggregator.schema.dry_run import DryRunRegistry
from aggregator.schema.registry import Registry
from aggregator.threads import map_concurrently

# Partitions of each topic, and of all topics of an edge: a plan must be much cheaper than a run.
_PARTITIONS_OF_A_TOPIC, _PARTITIONS = 3, 600
_PATIENCE_S = 10.0
_PLACES = 3  # of a partition: its first unread record, one in the middle, one of the newest; and the one behind each

Moving = Mapping[tuple[str, str], Sequence[tuple[EdgePartition, int]]]
Settings = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class Prospect:
    """Describes what would become of the waiting records of a topic.

    Attributes:
        looked: Records that were looked at.
        dead: Number of these records that would be dead letters, by reason.
        held: Why a flow would stand still before one, with its flow.
    """

    looked: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    held: list[str] = field(default_factory=list)

    @property
    def all_dead(self) -> str:
        """Why all examined records would be dead letters; empty if one would not, or if none was examined."""
        if not self.looked or self.dead.total() < self.looked:
            return ""
        which = "the record that was looked at" if self.looked == 1 else f"all {self.looked} records looked at"
        return f"{which} would be {'a dead letter' if self.looked == 1 else 'dead letters'}: {self._reasons}"

    @property
    def some_dead(self) -> str:
        """Why some of the examined records would be dead letters; empty if none would, or all."""
        dead = self.dead.total()
        return f"{dead} of {self.looked} records looked at would be: {self._reasons}" if 0 < dead < self.looked else ""

    @property
    def _reasons(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self.dead.most_common())


def prospects(
    config: HubConfig,
    policies: Mapping[Path, Policy],
    snapshots: Snapshots,
    moving: Moving,
    *,
    settings: Settings,
    central: Registry,
) -> dict[tuple[str, str], Prospect]:
    """Look at the first unread records of some partitions of each topic, at some in the middle, and at the newest.

    Args:
        config: The hub.
        policies: Policies of its rules, by path.
        snapshots: What the edges show.
        moving: Edge topics that a run would read, with its flows and where they go on.
        settings: Settings of central's topics, as they are or would be.
        central: Its registry; nothing is registered.

    Raises:
        ConfigError: a policy contradicts itself for a topic.
    """
    strip_for = strips(config, policies, config.keys, central=DryRunRegistry(central), patience_s=0.0)
    by_edge = defaultdict[str, list[tuple[EdgePartition, int]]](list)
    for (edge, name), flows in sorted(moving.items()):
        if name != HEARTBEATS and len(by_edge[edge]) < _PARTITIONS:
            by_edge[edge] += flows[:_PARTITIONS_OF_A_TOPIC]
    found: dict[tuple[str, str], Prospect] = defaultdict(Prospect)
    samples = map_concurrently(lambda edge: list(_sampled(config, snapshots, edge, by_edge[edge])), by_edge)
    for source, record in (one for of_edge in samples.values() for one in of_edge):
        limits = TopicLimits.of(settings.get(target(config, source.edge, source.topic), {}))
        _look(found[source.edge, source.topic], source, record, strip_for, keyed=limits.requires_key)
    return dict(found)


def _sampled(
    config: HubConfig, snapshots: Snapshots, edge: str, flows: Collection[tuple[EdgePartition, int]]
) -> Iterator[tuple[EdgePartition, single_records.RecordContent]]:
    """The first unread records of flows, two in the middle and two of the newest; an edge that is silent has none."""
    offsets: dict[Partition, list[int]] = {}
    for source, offset in flows:
        end = snapshots[edge][source.topic].last_stable_offsets[source.partition]
        offsets[source.topic, source.partition] = _spread(offset, end - single_records.BEFORE_END)
    for number in range(max(map(len, offsets.values()), default=0)):
        positions = {at: spread[number] for at, spread in offsets.items() if number < len(spread)}
        try:
            seen = single_records.records_at(config.edges[edge], positions, timeout_s=_PATIENCE_S)
        except RetryError:
            return
        for (topic, partition), record in sorted(seen.items(), key=lambda one: one[0]):
            yield EdgePartition(edge, topic, partition), record


def _spread(first: int, last: int) -> list[int]:
    """Pairs of neighbouring offsets, from the first to the last: who writes two kinds in turns has both there.

    One offset where nothing lies between.
    """
    if last <= first:
        return [first]
    places = {first + (last - first) * place // (_PLACES - 1) for place in range(_PLACES)}
    return sorted({at for place in places for at in (place, place + 1)})


def _look(
    into: Prospect,
    source: EdgePartition,
    record: single_records.RecordContent,
    strip_for: Callable[[EdgePartition], Strip],
    *,
    keyed: bool,
) -> None:
    """Strip one record; a registry that does not answer now says nothing about it."""
    try:
        stripped = strip_for(source).strip(Batch([record.key], [record.value], [list(record.headers)]))
        if keyed:
            require_keys(source.topic, [record.key], stripped)
    except HoldError as error:
        told = f"{source}: {error}"
        if told not in into.held:
            into.held.append(told)
    except RetryError:
        return
    else:
        into.dead.update(str(one.reason) for one in stripped.rejected.values())
    into.looked += 1
