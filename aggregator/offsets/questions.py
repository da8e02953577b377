"""Converts a group's committed offset at an edge into a search at central, or into the reason why there is none.

Invariant: pure. A position counts in the incarnation that its offset belongs to. After an accepted rewind, an offset
before the cut belongs to the previous incarnation. A topic that was created again is not searched until the hub has met
it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Partition, Position
from aggregator.offsets.translation import PositionQuery, Translation, Why, cut_before
from aggregator.replicate.discovery.central_topics import is_by_key, target
from aggregator.replicate.discovery.edge_topic import start_of
from aggregator.replicate.flow.gaps import segments
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord

BY_KEY = "`partition_by: key` spreads its records over all partitions, where no position has all before"
RECREATED = "the topic at the edge is another one than the hub has read; ask again"


@dataclass(frozen=True, slots=True)
class TranslationInputs:
    """The state of flows and topics on which the questions are based.

    Attributes:
        ledger: Where each flow stands.
        decisions: About gaps of each flow; those of flows in their first incarnation are no matter.
        edges: Id of each topic that the edge has, by edge and topic.
        central: Id and partitions of each topic that central has.
        targets: Central topics that each edge topic was ever written to, and whether by key, by edge and topic.
    """

    ledger: Mapping[EdgePartition, LedgerRecord]
    decisions: Mapping[EdgePartition, tuple[GapDecision, ...]] = field(default_factory=dict)
    edges: Mapping[tuple[str, str], str] = field(default_factory=dict)
    central: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    targets: Mapping[tuple[str, str], frozenset[tuple[str, bool]]] = field(default_factory=dict)


def question(
    config: HubConfig, group: str, source: EdgePartition, offset: int, facts: TranslationInputs
) -> PositionQuery | Translation:
    """What to look for at central, or the translation that says why nothing can be found.

    Args:
        config: The hub's configuration.
        group: The group whose position it is.
        source: The edge partition.
        offset: The next one that the group reads.
        facts: The facts that were read of the hub.
    """
    made = Translation(group, source, offset)
    edge, topic, partition = source
    if start_of(config, edge, topic) is None:
        return made.refused(Why.NOT_REPLICATED, "no rule leads this topic to central: aggregator explain says why")
    name = target(config, edge, topic)
    made = Translation(group, source, offset, name, partition)
    if is_by_key(config, edge, topic):
        made = Translation(group, source, offset, name)
        return made.refused(Why.BY_KEY, BY_KEY)
    entry, known = facts.ledger.get(source), facts.central.get(name)
    if entry is None or known is None or partition >= known[1]:
        return made.refused(Why.NOT_BEGUN, "the hub has delivered nothing of it yet: aggregator status shows its flows")
    if facts.edges.get((edge, topic)) != entry.topic_id:
        return made.refused(Why.RECREATED, RECREATED)
    position = position_at(offset, entry, facts.decisions.get(source, ()))
    if (against := _refusal(position, entry)) is not None:
        return made.refused(*against)
    former_topics = {one for one, by_key in facts.targets.get((edge, topic), ()) if by_key or one != name}
    return PositionQuery(group, source, position, (name, partition), known[0], tuple(sorted(former_topics)))


def _refusal(position: Position, entry: LedgerRecord) -> tuple[Why, str] | None:
    """The reason in the flow's ledger record why no record of the hub tells of a position."""
    if cut := cut_before(position, entry):
        return Why.GAP, cut
    return (Why.COPIED, copied(entry)) if position < Position(0, entry.copied) else None


def position_at(offset: int, entry: LedgerRecord, decisions: tuple[GapDecision, ...]) -> Position:
    """An offset of the edge's log as a position, with the incarnation that it belongs to.

    Args:
        offset: Offset in the present log.
        entry: The flow's ledger record.
        decisions: Decisions about its gaps.
    """
    if offset >= entry.next_offset:
        return Position(entry.incarnation, offset)
    return Position(segments(entry.position, offset, decisions)[0].incarnation, offset)


def copied(entry: LedgerRecord) -> str:
    """Why a position among MirrorMaker 2's copies has no translation."""
    return f"MirrorMaker 2 had copied what lies before {entry.copied}, without `hub.origin`: its own checkpoints tell"


def merged_partitions(config: HubConfig, partitions: Iterable[Partition], facts: TranslationInputs) -> set[Partition]:
    """The partitions of central topics of several edge topics: no group's position there is one flow's."""
    topics = {(one.edge, one.topic) for one in facts.ledger if start_of(config, one.edge, one.topic) is not None}
    sources = Counter(target(config, *one) for one in topics if one[0] in config.edges)
    return {at for at in partitions if sources[at[0]] > 1}
