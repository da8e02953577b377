"""Publishes positions of consumer groups: it reads the groups of all edges at intervals, and writes them to central.

Invariant: the publisher runs beside the flows and delays no record. A step that fails is tried again at the next look.
An edge that does not answer delays the others by at most its time-outs. Only changes are written, and never a
tombstone. The metadata that a group commits with a position stays at the edge, because it can be any text.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.config.model import HubConfig, OffsetsConfig
from aggregator.config.patterns import full_matches
from aggregator.coordinates import EdgePartition, Partition
from aggregator.count_text import format_count
from aggregator.errors import AggregatorError, HoldError, RetryError, Unreachable
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.groups import commit_offsets, committed_offsets, group_names, idle_groups
from aggregator.kafka.writers.acknowledged_writes import Record, write_acknowledged
from aggregator.offsets.group_commits import committable, forward
from aggregator.offsets.mirror_records import Checkpoint, OffsetSync
from aggregator.offsets.published_positions import PublishedRecords, published_positions
from aggregator.offsets.translation import Translation
from aggregator.offsets.translator import Translator
from aggregator.repeated_warnings import RepeatedWarnings
from aggregator.replicate.identity.identities import require_own_clusters
from aggregator.state.internal_topics import offset_topics
from aggregator.state.names import checkpoints, offset_syncs
from aggregator.threads import Pulse, map_concurrently

# The time that one look may take beside the pause: there are many groups, and each is searched for.
LOOK_S = 600.0
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Look:
    """The results of one look at the edges' groups, and the troubles that it met."""

    committed: dict[str, dict[EdgePartition, int]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    troubles: dict[str, str] = field(default_factory=dict)


class OffsetsPublisher:
    """Publishes positions of consumer groups until `stop` is set.

    Args:
        config: The hub, which asks for it.
        settings: What is asked for.
        stop: Ends it.
    """

    def __init__(self, config: HubConfig, settings: OffsetsConfig, stop: threading.Event) -> None:
        self._config, self._settings, self._stop = config, settings, stop
        self._translator = Translator(config)
        self._told: PublishedRecords | None = None
        self._said = RepeatedWarnings()

    def run(self, pulse: Pulse) -> None:
        """Look, and look again after the interval.

        Args:
            pulse: Called at every look.

        Raises:
            AggregatorError: but for what comes right by itself.
        """
        while not self._stop.is_set():
            pulse()
            look = _Look()
            try:
                self._publish(look)
            except (RetryError, HoldError) as error:
                look.troubles["central"] = error.message
            for sentence in self._said.due(look.troubles, time.monotonic()).values():
                log.warning("positions of consumer groups: %s", sentence)
            self._stop.wait(self._settings.interval.total_seconds())

    def _publish(self, look: _Look) -> None:
        if self._told is None:
            topics.ensure(
                self._config.central,
                offset_topics(self._config),
                replication_factor=self._config.replication_factor,
            )
            self._told = published_positions(self._config)
        for edge, groups in map_concurrently(self._of_edge, self._config.edges).items():
            if isinstance(groups, AggregatorError):
                look.troubles[edge] = f"edge {edge}: {groups.message}"
                continue
            look.answered.add(edge)
            for group, own in groups.items():
                look.committed.setdefault(group, {}).update(own)
        found = self._translator.translate(look.committed, flows=look.answered if self._settings.syncs else ())
        self._write(self._told, found.results)
        if self._settings.commits:
            self._commit(committable(self._config, found.results, found.facts)[0], look)

    def _of_edge(self, edge: str) -> dict[str, dict[EdgePartition, int]] | AggregatorError:
        """The committed offsets of an edge's groups, or the error that hides them."""
        cluster = self._config.edges[edge]
        try:
            require_own_clusters(self._config, [edge])
            return {
                group: {EdgePartition(edge, *at): offset for at, offset in committed_offsets(cluster, group).items()}
                for group in self._wanted(group_names(cluster))
            }
        except (RetryError, HoldError) as error:
            return error

    def _wanted(self, groups: list[str]) -> list[str]:
        """The groups that the configuration asks for."""

        def match(patterns: Iterable[str]) -> list[bool]:
            taken = [full_matches(pattern, groups) for pattern in patterns]
            return [any(one) for one in zip(*taken, strict=True)] if taken else [False] * len(groups)

        asked, left_out = match(self._settings.groups), match(self._settings.exclude)
        return [group for group, yes, no in zip(groups, asked, left_out, strict=True) if group and yes and not no]

    def _write(self, told: PublishedRecords, found: Iterable[Translation]) -> None:
        changed = {at: value for at, value in self._records(found) if told.get(at) != value}
        if not changed:
            return
        records = [Record(topic, key, value) for (topic, key), value in changed.items()]
        if why := write_acknowledged(self._config.central, records):
            raise Unreachable(
                f"central does not take {format_count(len(changed), 'position')}: {why}",
                hint="aggregator acls print --for central names every right",
            )
        told |= changed

    def _records(self, found: Iterable[Translation]) -> Iterator[tuple[tuple[str, bytes], bytes]]:
        """Topic and key, and value, of what is to be told."""
        for one in found:
            edge, topic, partition = one.source
            if not one.group and one.before is not None:
                sync = OffsetSync(topic, partition, one.before.position.next_offset, one.before.offset)
                yield (offset_syncs(edge), sync.encode_key()), sync.encode_value()
            if one.group and self._settings.checkpoints and one.central_offset is not None and one.topic is not None:
                at = Checkpoint(one.group, one.topic, partition, one.edge_offset, one.central_offset)
                yield (checkpoints(edge), at.encode_key()), at.encode_value()

    def _commit(self, wanted: Mapping[str, Mapping[Partition, int]], look: _Look) -> None:
        """Commit at central for groups that have no member there; one that is refused keeps no other from it."""
        central = self._config.central
        for group in sorted(idle_groups(central, wanted)):
            try:
                if due := forward(wanted[group], committed_offsets(central, group)):
                    commit_offsets(central, group, due)
                    log.info("group %s goes on at central in %s", group, format_count(len(due), "partition"))
            except HoldError as error:
                look.troubles[f"group {group}"] = error.message
