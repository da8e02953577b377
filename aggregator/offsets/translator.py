"""Translates positions of groups: it reads the hub's ledger, and searches central for the delivered records.

Invariant: it only reads. The ledger is read before central's end offsets are requested. Everything that the ledger has
passed therefore lies below an end offset that has become stable since. Partitions are searched in parallel, and the
positions of one partition in their order.
"""

import time
from collections import defaultdict, deque
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition, Position
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.origin_reader import OriginReader, OriginSearch, OriginsFound
from aggregator.offsets.failback import Failback, failback
from aggregator.offsets.questions import BY_KEY, RECREATED, TranslationInputs, copied, question
from aggregator.offsets.search import Placed, Search, SearchWindow, run_search
from aggregator.offsets.translation import PositionQuery, Translation, Why, refuse_if_moved, translated
from aggregator.replicate.discovery.central_topics import is_by_key, target
from aggregator.replicate.discovery.edge_topic import start_of
from aggregator.state.control_log import read_control
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_requests
from aggregator.state.requests import by_flow

# After this number of records of other flows and of backfills in a row, a search gives up and reports it.
MAX_FOREIGN = 500_000
# A transaction of a slot takes half a second. One that stays open for longer is another producer's, or was abandoned.
_OPEN_S = 5.0
_AGAIN_S = 0.05
# A window that was read for one position also serves nearby positions of other groups.
_RECALLED = 32
GroupOffsets = Mapping[EdgePartition, int]


class StableRange(NamedTuple):
    """The offsets of a partition that a read_committed reader can reach, and whether no record lies behind them."""

    offsets: OffsetRange
    decided: bool


@dataclass(frozen=True, slots=True)
class Translations:
    """Holds the translations of some positions.

    Attributes:
        results: The translation of each position that was asked for, in that order.
        facts: The facts that they rest on.
    """

    results: tuple[Translation, ...]
    facts: TranslationInputs


class Translator:
    """Translates positions of groups, and remembers the results: the next search begins there.

    Args:
        config: The hub.
    """

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._names = HubNames(config.hub)
        self._known: dict[tuple[str, EdgePartition], tuple[PositionQuery, Translation]] = {}

    def translate(self, committed: Mapping[str, GroupOffsets], *, flows: Collection[str] = ()) -> Translations:
        """Translate what groups have committed, and forget groups and partitions that are not among it.

        Args:
            committed: Committed offsets by group.
            flows: Edges whose flows are translated themselves, too, under no group: where the hub stands.

        Raises:
            FatalError: the ledger or the control topic is damaged, or their ends stay stuck.
            Unreachable: a cluster does not answer.
        """
        facts = self._facts({source for own in committed.values() for source in own}, flows)
        own = {source: entry.next_offset for source, entry in facts.ledger.items() if source.edge in flows}
        asked = [
            question(self._config, group, source, offset, facts)
            for group, own in sorted({**committed, "": own}.items())
            for source, offset in sorted(own.items())
        ]
        answers = self._answers([one for one in asked if isinstance(one, PositionQuery)], facts)
        self._known = {(one.group, one.source): (one, answers[one]) for one in answers}
        return Translations(tuple(answers[one] if isinstance(one, PositionQuery) else one for one in asked), facts)

    def translate_back(self, edge: str, committed: Mapping[Partition, int]) -> tuple[Failback, ...]:
        """The edge positions of a central group, for every flow of the edge that the group reads.

        Args:
            edge: The edge's name.
            committed: Offsets that the group has committed at central.

        Raises:
            FatalError, Unreachable: as of `translate`.
        """
        config, central = self._config, self._config.central
        facts = self._facts((), {edge})
        own = (one for one in facts.ledger if one.edge == edge and start_of(config, edge, one.topic) is not None)
        asked = [
            Failback(one, at, committed[at])
            for one in sorted(own)
            if (at := (target(config, edge, one.topic), one.partition)) in committed
        ]
        if not asked:
            return ()
        settled = await_stable_ranges(central, {one.at for one in asked})
        reader = OriginReader(central, max_records=MAX_FOREIGN)
        try:
            return tuple(self._back(one, facts, settled[one.at], reader) for one in asked)
        finally:
            reader.close()

    def _back(self, asked: Failback, facts: TranslationInputs, settled: StableRange, reader: OriginReader) -> Failback:
        if is_by_key(self._config, asked.source.edge, asked.source.topic):
            return asked.refused(Why.BY_KEY, BY_KEY)
        entry, (offsets, decided) = facts.ledger[asked.source], settled
        if facts.edges.get((asked.source.edge, asked.source.topic)) != entry.topic_id:
            return asked.refused(Why.RECREATED, RECREATED)
        begin = min(max(asked.central_offset, offsets.start), offsets.end)
        look = partial(self._read_window, reader, asked.at, asked.source)
        if entry.copied:
            first = run_search(Search(Position(0, entry.copied), *offsets), look).at
            if first is None or begin < first.offset:
                return asked.refused(Why.COPIED, copied(entry))
        window = look(OffsetRange(begin, offsets.end)) if begin < offsets.end else SearchWindow(begin, begin)
        return failback(asked, window, entry, end=offsets.end, decided=decided)

    def _prefix(self, source: EdgePartition) -> bytes:
        """The prefix of the origins of a flow."""
        return f"{self._config.hub}/{source}/".encode()

    def _facts(self, sources: Collection[EdgePartition], flows: Collection[str]) -> TranslationInputs:
        """The facts about these flows, and about all flows of these edges."""
        config, central = self._config, self._config.central
        ledger = read_ledger(central, self._names)
        asked = {*sources, *(source for source in ledger if source.edge in flows)}
        wanted = {source for source in asked if start_of(config, source.edge, source.topic) is not None}
        decided = any(ledger[source].incarnation for source in wanted if source in ledger)
        control = read_control(central, self._names) if ledger else None
        targets: dict[tuple[str, str], set[tuple[str, bool]]] = defaultdict(set)
        for one in control.targets if control else ():
            targets[one.edge, one.topic].add((one.central, one.by_key))
        return TranslationInputs(
            ledger,
            by_flow(read_requests(central, self._names).decisions) if decided else {},
            {
                (edge, one.name): one.topic_id
                for edge in sorted({source.edge for source in wanted})
                for one in topics.described(
                    config.edges[edge], sorted({source.topic for source in wanted if source.edge == edge})
                ).values()
            },
            {one.name: (one.topic_id, one.partitions) for one in self._central_topics(wanted)},
            {at: frozenset(found) for at, found in targets.items()},
        )

    def _central_topics(self, sources: Iterable[EdgePartition]) -> Collection[topics.Topic]:
        names = {target(self._config, source.edge, source.topic) for source in sources}
        return topics.described(self._config.central, sorted(names)).values()

    def _answers(self, asked: list[PositionQuery], facts: TranslationInputs) -> dict[PositionQuery, Translation]:
        """An answer per question; an answer for a position that has not moved is still exact and is reused."""
        found = {one: kept for one in asked if (kept := self._kept(one)) is not None}
        left = [one for one in asked if one not in found]
        if not left:
            return found
        settled = await_stable_ranges(self._config.central, {one.at for one in left})
        rests = self._at_rest(left, facts)
        queues: dict[Partition, list[PositionQuery]] = defaultdict(list)
        for one in sorted(left, key=lambda one: (one.source, one.position)):
            queues[one.at].append(one)
        for one, search in self._searched(queues, settled, rests).items():
            entry, (offsets, decided) = facts.ledger[one.source], settled[one.at]
            found[one] = translated(one, search, entry, end=offsets.end, decided=decided)
        if moved := [one for one in left if one.former_topics and found[one].central_offset is not None]:
            self._refuse_moved(moved, facts, found)
        return found

    def _refuse_moved(
        self, moved: Collection[PositionQuery], facts: TranslationInputs, found: dict[PositionQuery, Translation]
    ) -> None:
        """Take back positions behind which earlier rules wrote elsewhere; today's place may be an earlier one, too."""
        there = topics.described(self._config.central, sorted({name for one in moved for name in one.former_topics}))
        places = {one: former for one in moved if (former := _former(one, facts, there))}
        if not places:
            return
        settled = await_stable_ranges(self._config.central, {at for former in places.values() for at in former})
        reader = OriginReader(self._config.central, max_records=MAX_FOREIGN)
        try:
            for one, former in places.items():
                for at in former:
                    look = partial(self._read_window, reader, at, one.source)
                    found[one] = refuse_if_moved(
                        found[one], at, run_search(Search(one.position, *settled[at].offsets), look)
                    )
        finally:
            reader.close()

    def _read_window(
        self, reader: OriginReader, tp: Partition, source: EdgePartition, span: OffsetRange
    ) -> SearchWindow:
        return _window(span.start, reader.look({tp: OriginSearch(span, self._prefix(source))})[tp])

    def _kept(self, asked: PositionQuery) -> Translation | None:
        before, answer = self._known.get((asked.group, asked.source), (None, None))
        if answer is None or before != asked or answer.central_offset is None:
            return None
        return answer

    def _at_rest(self, asked: Collection[PositionQuery], facts: TranslationInputs) -> set[PositionQuery]:
        """Positions at which their very flows stand, and stood before central's ends were asked for.

        Central has no record of such a flow behind it, and a quiet flow among busy ones costs no search.
        """
        caught = {one for one in asked if not one.former_topics and facts.ledger[one.source].position == one.position}
        caught = {one for one in caught if one.group}  # a question about the flow itself asks for its last record
        if not caught:
            return set()
        after = read_ledger(self._config.central, self._names)
        return {one for one in caught if one.source in after and after[one.source].position == one.position}

    def _searched(
        self,
        queues: Mapping[Partition, list[PositionQuery]],
        settled: Mapping[Partition, StableRange],
        rests: Collection[PositionQuery],
    ) -> dict[PositionQuery, Search]:
        """The search for each question, at its end; partitions are looked into side by side."""
        found: dict[PositionQuery, Search] = {}
        lanes = {at: self._search_partition(queue, settled[at].offsets, rests, found) for at, queue in queues.items()}
        looks = {at: look for at, lane in lanes.items() if (look := next(lane, None)) is not None}
        if not looks:
            return found
        reader = OriginReader(self._config.central, max_records=MAX_FOREIGN)
        try:
            while looks:
                seen = reader.look(looks)
                looks = {at: look for at in looks if (look := _next(lanes[at], seen[at])) is not None}
        finally:
            reader.close()
        return found

    def _search_partition(
        self,
        queue: Iterable[PositionQuery],
        offsets: OffsetRange,
        rests: Collection[PositionQuery],
        found: dict[PositionQuery, Search],
    ) -> Generator[OriginSearch, OriginsFound, None]:
        """The searches in one partition, one after the other; receive their results."""
        former, of, windows = None, None, deque[SearchWindow](maxlen=_RECALLED)
        for asked in queue:
            search = self._start(asked, offsets)
            if of != asked.source:
                windows.clear()
            if asked in rests:
                search = Search(asked.position, offsets.end, offsets.end)
            elif former is not None and of == asked.source:
                search = _later(search, former).narrowed_by(reversed(windows))
            while not search.over:
                look = OriginSearch(search.probe, self._prefix(asked.source))
                windows.append(_window(look.offsets.start, (yield look)))
                search = search.narrowed(windows[-1])
            found[asked] = former = search
            of = asked.source

    def _start(self, asked: PositionQuery, offsets: OffsetRange) -> Search:
        """The search for a position, from where an earlier one of the group lay if that is known."""
        known, answer = self._known.get((asked.group, asked.source), (None, None))
        if known is not None and answer is not None and answer.central_offset is not None:
            usable = known.topic_id == asked.topic_id and known.position <= asked.position
            if usable and offsets.start <= answer.central_offset <= offsets.end:
                return Search(asked.position, answer.central_offset, offsets.end, before=answer.before)
        return Search(asked.position, offsets.start, offsets.end)


def _former(asked: PositionQuery, facts: TranslationInputs, there: Mapping[str, topics.Topic]) -> list[Partition]:
    """Partitions of other topics to which earlier rules wrote the flow, as far as there still are any."""
    edge, topic, partition = asked.source
    return [
        (name, at)
        for name, by_key in sorted(facts.targets.get((edge, topic), ()))
        if name != asked.at[0] and name in there
        for at in range(there[name].partitions)
        if by_key or at == partition
    ]


def _later(start: Search, former: Search) -> Search:
    """The further one of two starts: its own, or behind what an earlier position of the same flow has found."""
    if former.trouble:
        return start
    onward = former.continued_at(start.wanted, start.high)
    return onward if onward.low > start.low else start


def _next(lane: Generator[OriginSearch, OriginsFound, None], seen: OriginsFound) -> OriginSearch | None:
    """Send a lane its results and return its next search; None at its end."""
    try:
        return lane.send(seen)
    except StopIteration:
        return None


def _window(start: int, seen: OriginsFound) -> SearchWindow:
    """The window that was read, with the positions in the headers."""
    return SearchWindow(start, seen.until, tuple(Placed(*one) for one in seen.found), seen.trouble)


def await_stable_ranges(cluster: ClusterConfig, partitions: Collection[Partition]) -> dict[Partition, StableRange]:
    """The range of each partition, after its open transactions are decided, if that takes only some seconds.

    Raises:
        Unreachable: the cluster does not answer.
    """
    highs = ends.log_end_offsets(cluster, partitions)
    deadline = time.monotonic() + _OPEN_S
    while True:
        ranges = ends.readable_ranges(cluster, partitions)
        if all(ranges[at].end >= high for at, high in highs.items()) or time.monotonic() > deadline:
            return {at: StableRange(ranges[at], ranges[at].end >= high) for at, high in highs.items()}
        time.sleep(_AGAIN_S)
