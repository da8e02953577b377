"""Collects the facts that a planner needs, from central and from the edges.

Invariant: this module only reads. Central is read to its end before an edge is asked, so that an edge shows at least
what central knows of it. An edge that does not answer is an error, because a partial plan would look complete.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import TypeVar

from aggregator.backfill.planner import EdgePartitionState, FlowAtCentral, SampleFacts
from aggregator.backfill.ranges import by_incarnation, holds, union
from aggregator.backfill.request import Ask, Bound, Mode, Window
from aggregator.backfill.samples import sample_windows
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Partition
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.readers import ends
from aggregator.replicate.flow.limits import is_compacted
from aggregator.state.dead_letters import DELIVERED, Letter
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord
from aggregator.state.letter_log import read_letter_logs
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_requests
from aggregator.state.requests import by_flow

K = TypeVar("K")
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class CentralFacts:
    """What central knows of the hub's flows, read to its end.

    Attributes:
        ledger: Positions.
        decisions: Decisions about gaps.
        letters: Dead letters of the live flows.
        own_letters: Dead letters of backfills that do not write into a live topic, by flow and central topic.
        delivered: Incarnation and offset of the records that somebody had delivered by any of these letters, by flow.
        doubted: Flows of which there are more letters, or resolutions, than the ledger counts, with both numbers:
            somebody else wrote some. A forged letter would deliver a record twice; a forged resolution would hide a
            missing record. So none of the flow's letters counts.
    """

    ledger: Mapping[EdgePartition, LedgerRecord]
    decisions: Mapping[EdgePartition, tuple[GapDecision, ...]]
    letters: Mapping[EdgePartition, tuple[Letter, ...]]
    own_letters: Mapping[tuple[EdgePartition, str], tuple[Letter, ...]]
    delivered: Mapping[EdgePartition, frozenset[tuple[int, int]]] = field(default_factory=dict)
    doubted: Mapping[EdgePartition, str] = field(default_factory=dict)

    def require_own_letters(self, sources: Iterable[EdgePartition]) -> None:
        """Refuse to go by the letters of these flows if the hub did not write all of them.

        Raises:
            FatalError: there are more than the ledger counts.
        """
        for source in sources:
            if source in self.doubted:
                raise FatalError(
                    f"{source} has {self.doubted[source]}: by what another wrote a record would come twice",
                    hint=f"who may write the topic of dead letters? aggregator audit --edge {quote(source.edge)} tells"
                    " which of these records central has; --edge and --topic choose other flows; what a later version"
                    " wrote is for a hub of that version",
                )

    def flow(
        self,
        source: EdgePartition,
        passed: tuple[IncarnationRange, ...] = (),
        central: str = "",
        generated: tuple[IncarnationRange, ...] = (),
    ) -> FlowAtCentral:
        """What central knows of one flow.

        Args:
            source: The edge partition of the flow.
            passed: Segments that backfills into the same topic have passed.
            central: The name of that central topic.
            generated: Segments passed while the topic was still a generation (`--into`). Their dead-lettered records
            are in it, unless they became dead letters there as well.
        """
        entry, decisions = self.ledger[source], self.decisions.get(source, ())
        if source in self.doubted:
            return FlowAtCentral(source, entry, decisions, passed=passed)
        dead, own = _unresolved(self.letters.get(source, ())), _unresolved(self.own_letters.get((source, central), ()))
        there = by_incarnation(generated)
        dead = frozenset(
            (at, offset) for at, offset in dead if (at, offset) in own or not holds(there.get(at, ()), offset)
        )
        return FlowAtCentral(source, entry, decisions, dead, passed, own, self.delivered.get(source, frozenset()))


def read_central(config: HubConfig) -> CentralFacts:
    """Read ledger, decisions and dead letters.

    Raises:
        FatalError: a record is damaged, or an end stays stuck.
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    logs = read_letter_logs(config.central, names)
    live, own = list(logs.letters()), list(logs.letters(of_backfills=True))
    return CentralFacts(
        logs.ledger_before.live,
        by_flow(read_requests(config.central, names).decisions),
        _by(live, lambda letter: letter.source),
        _by(own, lambda letter: (letter.source, letter.central)),
        delivered((*live, *own)),
        logs.doubted(),
    )


def _by(letters: Iterable[Letter], key: Callable[[Letter], K]) -> dict[K, tuple[Letter, ...]]:
    found: dict[K, list[Letter]] = defaultdict(list)
    for letter in letters:
        found[key(letter)].append(letter)
    return {at: tuple(some) for at, some in found.items()}


def delivered(letters: Iterable[Letter]) -> dict[EdgePartition, frozenset[tuple[int, int]]]:
    """Incarnation and offset of the records that somebody had delivered by these letters, by flow."""
    found: dict[EdgePartition, set[tuple[int, int]]] = defaultdict(set)
    for one in letters:
        if one.outcome == DELIVERED:
            found[one.source].add((one.incarnation, one.offset))
    return {source: frozenset(some) for source, some in found.items()}


def _unresolved(letters: Iterable[Letter]) -> frozenset[tuple[int, int]]:
    return frozenset((one.incarnation, one.offset) for one in letters if not one.resolved_by)


def asked_flows(config: HubConfig, ledger: Iterable[EdgePartition], ask: Ask) -> list[EdgePartition]:
    """The hub's flows that some window takes; heartbeats are a signal and no data.

    Raises:
        FatalError: no flow of this hub is asked for.
    """
    flows = [
        source
        for source in sorted(ledger)
        if source.edge in config.edges
        and rule_for(config, source.edge, source.topic) is not None
        and any(window.takes(source) for window in ask.windows)
    ]
    if not flows:
        raise FatalError(
            "no flow of this hub is asked for",
            hint="aggregator status shows them; a topic that was never replicated is read by the hub, from its start",
        )
    return flows


def look_at_edge(
    config: HubConfig, edge: str, sources: Sequence[EdgePartition], ask: Ask
) -> dict[EdgePartition, EdgePartitionState]:
    """Ask one edge; a partition that it does not show is left out.

    Raises:
        Unreachable: the edge does not answer.
    """
    cluster = config.edges[edge]
    shown = topics.described(cluster, {source.topic for source in sources})
    at = {
        source: (source.topic, source.partition)
        for source in sources
        if source.topic in shown and source.partition < shown[source.topic].partitions
    }
    found = ends.log_offsets(cluster, at.values())
    asked: dict[EdgePartition, list[OffsetRange]] = defaultdict(list)
    for window in ask.windows:
        taken = {source: place for source, place in at.items() if window.takes(source)}
        for source, offsets in _offsets(config, edge, taken, window).items():
            asked[source].append(offsets)
    logs = {source: found[place].readable for source, place in at.items()}
    known = sample_windows(cluster, {source: (logs[source], union(asked[source])) for source in at}, _last_times(ask))
    restated = sorted({source.topic for source in at}) if ask.mode is Mode.RESTATE else ()
    settings = topic_settings.settings(cluster, restated)
    return {
        source: EdgePartitionState(
            shown[source.topic].topic_id,
            logs[source],
            union(asked[source]),
            known.get(source, SampleFacts()),
            compacted=is_compacted(settings.get(source.topic, {})),
        )
        for source in at
    }


def _offsets(
    config: HubConfig, edge: str, at: Mapping[EdgePartition, Partition], window: Window
) -> dict[EdgePartition, OffsetRange]:
    """A window in offsets; without an end it goes as far as anything can."""
    begins = _bound(config, edge, at, window.since, 0)
    stops = _bound(config, edge, at, window.until, _FAR)
    return {source: OffsetRange(begins[source], max(begins[source], stops[source])) for source in at}


def _bound(
    config: HubConfig, edge: str, at: Mapping[EdgePartition, Partition], bound: Bound | None, otherwise: int
) -> dict[EdgePartition, int]:
    if bound is None or bound.time is None:
        offset = otherwise if bound is None or bound.offset is None else bound.offset
        return dict.fromkeys(at, offset)
    found = ends.offsets_at(config.edges[edge], at.values(), bound.time)
    return {source: found[place] for source, place in at.items()}


def _last_times(ask: Ask) -> list[int]:
    """The ends of time windows in ms: records behind such an end must not be older than it."""
    return [int(window.until.time.timestamp() * 1000) for window in ask.windows if window.until and window.until.time]
