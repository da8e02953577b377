"""Plans what the next run does with each edge topic: where its records go, how many wait, and what would stand still.

Invariant: pure. Flows and refusals are those that an epoch is planned with, in the run's own words. Waiting records are
counted whether a run would read them or not. Their number is unknown if no cluster answers.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.errors import NEXT
from aggregator.plan.prospects import Prospect
from aggregator.replicate.discovery.central_topics import Snapshots, target
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic, start_of
from aggregator.replicate.epoch.plan import EpochFlows
from aggregator.replicate.epoch.takeover import Takeover
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.gaps import accept_command, gap, sentence
from aggregator.state.ledger import LedgerRecord

Ledger = Mapping[EdgePartition, LedgerRecord]


@dataclass(frozen=True, slots=True)
class FlowStep:
    """An edge topic and where it goes.

    Attributes:
        edge: Its edge.
        topic: As the edge calls it.
        central: Its central topic.
        policy: File of its policy.
        partitions: Number of its partitions; for a silent edge, the number that the hub knows.
        new: Partitions that the hub has no position of.
        waiting_records: At most, whether a run would read them or not; None: nobody can say.
        held: Reasons why partitions may not start, or stand still.
        dead: Why every record that was looked at would be a dead letter; empty where one would not.
        some_dead: Why some of them would be; empty where none would, or all.
    """

    edge: str
    topic: str
    central: str
    policy: str
    partitions: int
    new: int
    waiting_records: int | None
    held: tuple[str, ...]
    dead: str = ""
    some_dead: str = ""


@dataclass(frozen=True, slots=True)
class TakeoverStep:
    """A partition that begins at the position of MirrorMaker 2.

    Attributes:
        edge: Its edge.
        topic: As the edge calls it.
        partition: Number of the partition.
        position: The next offset that a run would read; None: nothing is taken over now.
        copied: Whether MirrorMaker 2 has an offset of it; one without begins at the log's start, as it would there.
        exactly_once: Whether it ran exactly once, so that nothing behind its offset was delivered.
        note: What is not as it should be.
        lost: Whether a run would hold it, because the edge's log ends before the position.
    """

    edge: str
    topic: str
    partition: int
    position: int | None
    copied: bool
    exactly_once: bool
    note: str = ""
    lost: bool = False


def takeover_steps(takeovers: Iterable[Takeover], snapshots: Snapshots) -> Iterator[TakeoverStep]:
    """Each partition that begins at MirrorMaker 2's position.

    Args:
        takeovers: Its topics, as they were found.
        snapshots: What the edges show.
    """
    for one in takeovers:
        topic = snapshots[one.edge][one.topic]
        for at in one.partitions:
            if one.progress is None:
                yield TakeoverStep(one.edge, one.topic, at, None, copied=False, exactly_once=False, note="not now")
                continue
            upto = one.position(at)
            position, high_watermark = upto or topic.log_start_offsets[at], topic.last_stable_offsets[at]
            high_watermark += topic.undecided[at] if topic.undecided else 0
            lost = position > high_watermark
            note = "" if upto else "MirrorMaker 2 has no offset: from the start, as there"
            if lost:
                note = f"the edge's log ends at {high_watermark}: a run holds it as a truncated log"
            exactly = one.progress.tasks > 0
            yield TakeoverStep(
                one.edge, one.topic, at, position, copied=upto > 0, exactly_once=exactly, note=note, lost=lost
            )


class PlannedFlows:
    """The flows of a planned epoch, by edge topic.

    Args:
        flows: What an epoch was planned with.
        snapshots: What the edges show.
        now_ms: The present.
    """

    def __init__(self, flows: EpochFlows, snapshots: Snapshots, *, now_ms: int) -> None:
        self._of: dict[tuple[str, str], list[FlowPlan]] = defaultdict(list)
        self._held = defaultdict[tuple[str, str], list[str]](list)
        self._now_ms = now_ms
        for hold in flows.holds:
            self._held[hold.source.edge, hold.source.topic].append(f"{hold.source}: {hold.detail}")
        for flow in chain.from_iterable(flows.by_slot.values()):
            at = (flow.source.edge, flow.source.topic)
            lost = self._gap(flow, snapshots[flow.source.edge].get(flow.source.topic))
            if lost:
                self._held[at].append(f"{flow.source}: {lost}")
            else:
                self._of[at].append(flow)

    def _gap(self, flow: FlowPlan, topic: EdgeTopic | None) -> str:
        """The gap before which a run would hold the flow, as a sentence; empty if there is none."""
        lost = flow.entry.gap
        if lost is None and topic is not None and not flow.skips_gaps:
            start, end = (
                offsets[flow.source.partition] for offsets in (topic.log_start_offsets, topic.last_stable_offsets)
            )
            # The end is asked for before the ledger is read, so a running hub may have passed it by then.
            lost = gap(flow.entry.next_offset, start, max(end, flow.entry.next_offset), since_ms=self._now_ms)
        if lost is None:
            return ""
        remedy = accept_command(flow.source.edge, flow.source.topic)
        return f"{sentence(lost, flow.entry.next_offset)}{NEXT}{remedy} goes on without it"

    def held(self, edge: str, topic: str) -> tuple[str, ...]:
        """The reasons why partitions of a topic would stand still."""
        return tuple(self._held[edge, topic])

    def lost_topics(self, snapshots: Snapshots) -> list[tuple[str, str]]:
        """Topics that would be held, and that their edges do not show any more."""
        return sorted(at for at, why in self._held.items() if why and at[1] not in snapshots[at[0]])

    def moving(self, snapshots: Snapshots) -> dict[tuple[str, str], list[tuple[EdgePartition, int]]]:
        """Edge topics that a run would read records of, each with its flows and where they go on."""
        found: dict[tuple[str, str], list[tuple[EdgePartition, int]]] = {}
        for (edge, name), flows in self._of.items():
            topic = snapshots[edge][name]
            at = [
                (one.source, max(one.entry.next_offset, topic.log_start_offsets[one.source.partition])) for one in flows
            ]
            waits = [(source, offset) for source, offset in at if offset < topic.last_stable_offsets[source.partition]]
            if waits:
                found[edge, name] = waits
        return found


def flow_steps(
    config: HubConfig,
    snapshots: Snapshots,
    ledger: Ledger,
    planned: PlannedFlows,
    met: Mapping[tuple[str, str], Prospect],
) -> Iterator[FlowStep]:
    """Every topic that the edges show, and every topic that they no longer show and that would be held.

    Args:
        config: The hub.
        snapshots: What the edges show.
        ledger: Winning records.
        planned: What a run would begin with.
        met: Findings in waiting records, by edge topic.
    """
    for edge, shown in sorted(snapshots.items()):
        for name, topic in sorted(shown.items()):
            sources = [EdgePartition(edge, name, partition) for partition in range(len(topic.log_start_offsets))]
            ahead = met.get((edge, name), Prospect())
            yield replace(
                _step(config, edge, name, len(sources), (*planned.held(edge, name), *ahead.held)),
                new=sum(source not in ledger for source in sources),
                waiting_records=sum(_waiting(ledger.get(source), topic, source.partition) for source in sources),
                dead=ahead.all_dead,
                some_dead=ahead.some_dead,
            )
    for edge, name in planned.lost_topics(snapshots):
        held = planned.held(edge, name)
        yield _step(config, edge, name, len(held), held)


def _waiting(entry: LedgerRecord | None, topic: EdgeTopic, partition: int) -> int:
    """Offsets between where a flow goes on, or would begin, and the end that readers see."""
    begin = topic.initial_offsets[partition]
    if entry is not None:
        begin = entry.next_offset if entry.topic_id == topic.topic_id else 0
    return max(0, topic.last_stable_offsets[partition] - max(begin, topic.log_start_offsets[partition]))


def waiting_steps(config: HubConfig, shown: Mapping[str, DiscoveredTopics]) -> Iterator[FlowStep]:
    """Topics that a run would wait for, because nobody answers for them."""
    for edge, seen in sorted(shown.items()):
        for name, one in sorted(seen.unanswered.items()):
            if name not in seen.topics:
                yield _step(config, edge, name, one.partitions, (f"{edge}/{name}: {one.why}",))


def silent_steps(config: HubConfig, ledger: Ledger, silent: Mapping[str, str]) -> Iterator[FlowStep]:
    """The known topics of edges that do not answer; their waiting records are unknown.

    Args:
        config: The hub.
        ledger: Winning records.
        silent: Edges that do not answer, with the reason.
    """
    known: dict[tuple[str, str], int] = defaultdict(int)
    for source in ledger:
        if source.edge in silent and start_of(config, source.edge, source.topic) is not None:
            known[source.edge, source.topic] += 1
    for (edge, name), partitions in sorted(known.items()):
        yield _step(config, edge, name, partitions, ())


def _step(config: HubConfig, edge: str, topic: str, partitions: int, held: tuple[str, ...]) -> FlowStep:
    """The step of a topic whose number of waiting records is unknown."""
    rule = rule_for(config, edge, topic)
    policy = str(rule.policy) if rule else ""
    return FlowStep(edge, topic, target(config, edge, topic), policy, partitions, 0, None, held)
