"""A takeover starts flows with `start: mirrormaker2` at the offsets up to which MirrorMaker 2 has copied.

Invariant: MirrorMaker 2's offsets give only the first position of a flow; afterwards the ledger decides. Nothing is
taken over while a worker of MirrorMaker 2 runs. Its group must have no member before and after the look. Tasks that ran
with exactly-once support have their transactional ids fenced. Only then is the offsets topic read, to its end. If an
answer is missing, these flows are held, and no others.
"""

import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from aggregator.config.match import rule_for
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import EdgePartition
from aggregator.count_text import format_count, format_first
from aggregator.errors import AggregatorError, HoldError
from aggregator.kafka.cluster.members import members
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.readers.log import read_to_end, read_visible
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.writers.fencing import fence
from aggregator.mirrormaker.connect_offsets import SourceOffsets, source_offsets, task_count
from aggregator.replicate.discovery.central_topics import Snapshots
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch.plan import Ledger, initial_partitions

_PATIENCE_S, _END_S, _FENCE_S = 5.0, 10.0, 20.0
_AGAIN_S = 5.0
_SHOWN, _PLACES = 3, 20
log = logging.getLogger(__name__)


class MirrorMakerRuns(HoldError):
    """A worker of MirrorMaker 2 is still a member of its group."""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """Holds the progress that MirrorMaker 2 left at central.

    Attributes:
        offsets: Offsets at which it stopped.
        tasks: Number of tasks that ran exactly once, by its last word; 0: it ran at least once.
    """

    offsets: SourceOffsets
    tasks: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """An edge topic with partitions that begin at MirrorMaker 2's position.

    Attributes:
        edge: Its edge.
        topic: Name of the topic at the edge.
        names: MirrorMaker 2's own names.
        partitions: Partitions that begin there.
        progress: Progress of MirrorMaker 2; None: see `why`.
        why: Reason why nothing is taken over.
        alive: Whether the reason is a worker that lives.
    """

    edge: str
    topic: str
    names: MirrorMaker2
    partitions: tuple[int, ...]
    progress: SourceProgress | None = None
    why: str = ""
    alive: bool = False

    def position(self, partition: int) -> int:
        """The offset below which MirrorMaker 2 had copied a partition; 0 if it has no offset."""
        return self.progress.offsets.positions.get((self.topic, partition), 0) if self.progress else 0

    def applied(self, shown: EdgeTopic) -> EdgeTopic:
        """The topic with the starts of its flows; one that MirrorMaker 2 never copied begins at its start."""
        if self.progress is None:
            return replace(shown, takeover_fault=self.why)
        copied = tuple(map(self.position, range(len(shown.log_start_offsets))))
        initial_offsets = tuple(upto or start for upto, start in zip(copied, shown.log_start_offsets, strict=True))
        # A flow that continues is not refused for old records, even if MirrorMaker 2 began it.
        ages = tuple(None if upto else oldest for upto, oldest in zip(copied, shown.oldest_ms, strict=True))
        return replace(shown, initial_offsets=initial_offsets, initial_timestamps_ms=ages, copied=copied)


@dataclass(frozen=True, slots=True)
class Takeovers:
    """Holds the edges' snapshots, with MirrorMaker 2's positions for the flows that begin there."""

    snapshots: Snapshots
    topics: tuple[Takeover, ...] = ()

    @property
    def groups(self) -> frozenset[str]:
        """The groups of workers that prevent a takeover."""
        return frozenset(one.names.group for one in self.topics if one.alive)


def find_takeovers(config: HubConfig, ledger: Ledger, snapshots: Snapshots) -> Iterator[Takeover]:
    """Edge topics with partitions that begin where MirrorMaker 2 stands; pure.

    Args:
        config: The hub.
        ledger: Winning records.
        snapshots: Topics that the edges show.
    """
    for edge, shown in sorted(snapshots.items()):
        for name, topic in sorted(shown.items()):
            rule = rule_for(config, edge, name)
            if rule is None or not isinstance(rule.start, MirrorMaker2):
                continue
            entries = [
                ledger.get(EdgePartition(edge, name, partition)) for partition in range(len(topic.log_start_offsets))
            ]
            begun = initial_partitions(topic, entries)
            begins = tuple(at for at, entry in enumerate(entries[:begun]) if entry is None)
            if begins:
                yield Takeover(edge, name, rule.start.at(edge), begins)


def take_over(config: HubConfig, ledger: Ledger, snapshots: Snapshots, *, fences: bool) -> Takeovers:
    """The positions of MirrorMaker 2 for the flows that begin there.

    Args:
        config: The hub.
        ledger: Winning records.
        snapshots: Topics that the edges show.
        fences: Whether its transactional ids are fenced; a caller that only looks fences none.
    """
    found: dict[MirrorMaker2, SourceProgress | AggregatorError] = {}
    topics = []
    for one in find_takeovers(config, ledger, snapshots):
        if one.names not in found:
            found[one.names] = _progress_or_why(config.central, one.names, fences=fences)
        answer = found[one.names]
        if isinstance(answer, AggregatorError):
            topics.append(replace(one, why=str(answer), alive=isinstance(answer, MirrorMakerRuns)))
        else:
            topics.append(replace(one, progress=answer))
    applied = {edge: dict(shown) for edge, shown in snapshots.items()}
    for one in topics:
        applied[one.edge][one.topic] = one.applied(applied[one.edge][one.topic])
    return Takeovers(applied if topics else snapshots, tuple(topics))


def _progress_or_why(cluster: ClusterConfig, names: MirrorMaker2, *, fences: bool) -> SourceProgress | AggregatorError:
    """One that cannot be taken over from holds its own flows; what else happens at central is found by everybody."""
    try:
        return source_progress(cluster, names, fences=fences)
    except AggregatorError as error:
        return error


def source_progress(cluster: ClusterConfig, names: MirrorMaker2, *, fences: bool) -> SourceProgress:
    """The progress that MirrorMaker 2 left, once it can add nothing; arguments as `take_over`.

    Raises:
        MirrorMakerRuns: a worker is in its group.
        HoldError: it keeps no offsets under these names.
        AggregatorError: central does not tell, or somebody takes an id back.
    """
    require_gone(cluster, names)
    there = topic_names(cluster)
    for key in ("offsets_topic", "configs_topic"):
        if getattr(names, key) not in there:
            raise HoldError(
                f"central has no topic {getattr(names, key)}, where MirrorMaker 2 with the alias {names.source} keeps "
                f"{'source offsets' if key == 'offsets_topic' else 'its settings'}",
                hint=f"name it: `start: {{mirrormaker2: {{source: …, {key}: …}}}}`; or write `start: earliest`",
            )

    def read(topic: str) -> list[LogRecord]:
        # A look does not wait for a transaction that a killed task left open. A run has aborted it before.
        partitions = range(there[topic])
        return (
            read_to_end(cluster, topic, partitions, timeout_s=_END_S)
            if fences
            else read_visible(cluster, topic, partitions)
        )

    tasks = task_count(read(names.configs_topic), names.connector)
    if fences and tasks:
        fence(cluster, [names.transactional_id(task) for task in range(tasks)], timeout_s=_FENCE_S)
    found = source_offsets(read(names.offsets_topic), names.connector, names.source)
    if not found.records:
        others = format_first([f"{connector} of {source}" for connector, source in found.others], _SHOWN)
        raise HoldError(
            f"{names.offsets_topic} at central holds no offset of {names.connector} of {names.source}"
            + (f", only of {others}" if others else ""),
            hint="name its `connector` and `source` in the rule's `start`, or write `start: earliest`",
        )
    require_gone(cluster, names)
    return SourceProgress(found, tasks)


def require_gone(cluster: ClusterConfig, names: MirrorMaker2) -> None:
    """Refuse to continue while a worker is in the group.

    Raises:
        MirrorMakerRuns: one is.
        Unreachable: nobody tells.
    """
    found = members(cluster, names.group, timeout_s=_PATIENCE_S)
    if found:
        raise MirrorMakerRuns(
            f"MirrorMaker 2 lives: its group {names.group} at central has {format_count(len(found), 'member')}"
            f" ({format_first(found, _SHOWN)})",
            hint="stop it, and see that nothing starts it again; a killed worker leaves within its session time-out",
        )


@dataclass(slots=True)
class WorkerWatch:
    """Asks while an epoch runs whether workers of MirrorMaker 2 that prevented a takeover have left.

    Args:
        cluster: Central.
        groups: Groups of workers that lived then.
    """

    cluster: ClusterConfig
    groups: frozenset[str]
    asked_s: float = field(default_factory=time.monotonic)

    def poll_left(self) -> bool:
        """Whether a group is empty now; asks every five seconds, and a central that is silent has not answered."""
        if not self.groups or time.monotonic() - self.asked_s < _AGAIN_S:
            return False
        self.asked_s = time.monotonic()
        try:
            return any(not members(self.cluster, group, timeout_s=_PATIENCE_S) for group in self.groups)
        except AggregatorError:
            return False


def takeover_lines(takeovers: Collection[Takeover]) -> Iterator[str]:
    """For the log where the flows begin."""
    for one in takeovers:
        if one.progress is None:
            continue
        at = [(partition, one.position(partition)) for partition in one.partitions]
        never = [str(partition) for partition, upto in at if not upto]
        places = [f"{partition}: {upto}" for partition, upto in at if upto]
        lacks = (
            f"; without an offset of its own, and begun at the start: {format_first(never, _PLACES)}" if never else ""
        )
        taken = format_first(places, _PLACES) or "no position"
        yield f"{one.edge}/{one.topic} is taken over from MirrorMaker 2 at {taken}{lacks}"
