"""Compares one edge topic with central and the lake, window by window.

Invariant: reads only. The lake's version is fixed first, then central's end, then the edge's. So a record in the lake
can be seen at central, and a record at central at the edge. Only what the ledger had passed is compared.
"""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aggregator.audit.backfills import BackfillEffects, Restate, explained
from aggregator.audit.findings import FlowAudit, Selection
from aggregator.audit.former_topics import FormerTopics, lacking, with_gone_topics
from aggregator.audit.lake_view import LakeView
from aggregator.audit.omissions import LAKE, NO_TABLE, RECREATED, AuditWindow, Omission, at_central, at_edge, in_table
from aggregator.audit.records import Letters, committed
from aggregator.audit.tally import AuditFinding, Rules, Sums, Tally, compare, marks_of, ranges, ranges_of
from aggregator.backfill.ranges import union
from aggregator.config.model import ClusterConfig, HubConfig, TopicRule
from aggregator.coordinates import CentralPartition, EdgePartition, IncarnationRange, OffsetRange, Partition
from aggregator.errors import HoldError, RetryError
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.committed_reader import central_partitions
from aggregator.kafka.readers.log import decided_ranges
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.flow.gaps import segments
from aggregator.replicate.flow.limits import is_compacted
from aggregator.state.gap import GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import central_topic

# Offsets of one pass; each costs six bytes.
WINDOW = 16_000_000
_MAX_UNKNOWN = 10_000
_LOOK_AGAIN_S = 1.0


@dataclass(slots=True)
class AuditInputs:
    """Holds what the comparison reads once and uses for every group of flows.

    Attributes:
        held: Flows that the hub last said it does not read, as `edge/topic/partition`, and why.
        patient_until: Until when a table that lacks what central has is looked at again; on the monotonic clock, in s.
        former: Where flows were written before.
    """

    config: HubConfig
    ledger: Mapping[EdgePartition, LedgerRecord]
    decisions: Mapping[EdgePartition, tuple[GapDecision, ...]]
    letters: Letters
    backfill_effects: BackfillEffects
    now_ms: int
    held: Mapping[str, str] = field(default_factory=dict)
    patient_until: float = 0.0
    former: FormerTopics = field(default_factory=FormerTopics)
    unknown_origins: dict[Partition, set[int]] = field(default_factory=dict)


@dataclass(slots=True)
class AuditedFlow:
    """One flow during its audit."""

    source: EdgePartition
    entry: LedgerRecord
    asked: AuditWindow
    segments: list[IncarnationRange]
    backfill_suppressed: int = 0
    restates: tuple[Restate, ...] = ()
    sums: Sums = field(default_factory=Sums)
    findings: list[AuditFinding] = field(default_factory=list)
    absent: list[tuple[int, OffsetRange]] = field(default_factory=list)
    beyond: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    later: dict[Partition, list[OffsetRange]] = field(default_factory=dict)

    def closed(self, lacking: Sequence[Omission] = (), *, in_lake: bool) -> FlowAudit:
        """Weigh what is absent against what was suppressed, and put it all together.

        Args:
            lacking: What the table has not got yet.
            in_lake: The flow feeds a table.
        """
        suppressed = sum(len(offsets) for _, offsets in self.absent)
        findings, self.sums.restated = explained(self.findings, self.restates)
        known = self.entry.suppressed + self.backfill_suppressed
        if suppressed > known:
            note = f"{known} of them may be suppressed records" if known else ""
            for incarnation in sorted({at for at, _ in self.absent}):
                lost = tuple(offsets for at, offsets in self.absent if at == incarnation)
                findings.append(AuditFinding("missing", "central", incarnation, lost, note))
            suppressed = 0
        for (place, incarnation), offsets in sorted(self.beyond.items()):
            note = "the edge never had them"
            findings.append(AuditFinding("unexplained", place, incarnation, tuple(ranges_of(offsets)), note))
        position = self.entry.next_offset
        omissions = [
            *at_edge(self.asked, self.entry, self.segments),
            *at_central(self.sums, suppressed, in_lake=in_lake),
            *(in_table(self.sums) if in_lake else ()),
            *(lacking if in_lake or lacking else (NO_TABLE,)),
        ]
        begin = self.segments[0].offsets.start if self.segments else position
        end = self.segments[-1].offsets.end if self.segments else position
        return FlowAudit(
            self.source,
            self.entry.incarnation,
            OffsetRange(begin, end),
            max(0, self.asked.log.end - position),
            self.sums,
            suppressed,
            in_lake,
            findings=tuple(findings),
            restates=self.restates,
            omissions=tuple(omissions),
        )


class Comparison:
    """The flows of one edge topic."""

    def __init__(self, inputs: AuditInputs, rule: TopicRule, edge: str, topic: str) -> None:
        self._inputs = inputs
        self._config = inputs.config
        self._edge = edge
        self._cluster: ClusterConfig = inputs.config.edges[edge]
        self._topic = topic
        self._central = target(inputs.config, edge, topic)
        self._former = inputs.former.of(edge, topic, self._central)
        self._gone: list[str] = []
        self._by_key = rule.partition_by == "key" or inputs.former.by_key(edge, topic)
        self._table = central_topic(rule.lake, edge, topic) if rule.lake and inputs.config.lake else None
        self._view: LakeView | None = None
        self._ranges: dict[Partition, OffsetRange] = {}
        self._ends: dict[Partition, int] = {}
        self._rules = Rules()
        self._keeps_ms = -1
        self._lacks: dict[Partition, Omission] = {}
        self._known: dict[Partition, dict[bytes, EdgePartition]] = {}

    def run(self, sources: Sequence[EdgePartition], selection: Selection) -> Iterator[FlowAudit]:
        """Audit these flows; one that cannot be asked says why."""
        try:
            opened = self._open(sources, selection)
            for parts in self._passes(opened):
                self._pass(parts)
        except (HoldError, RetryError) as error:
            for source in sources:
                yield FlowAudit(source, self._inputs.ledger[source].incarnation, trouble=error.message)
        else:
            for source in sources:
                if source in opened:
                    closed = opened[source].closed(self._lacking(opened[source]), in_lake=self._rules.lake)
                    yield with_gone_topics(closed, self._gone)
                else:
                    yield FlowAudit(source, self._inputs.ledger[source].incarnation, trouble=RECREATED)

    # --- what there is

    def _open(self, sources: Sequence[EdgePartition], selection: Selection) -> dict[EdgePartition, AuditedFlow]:
        ledger = self._inputs.ledger
        shown = topics.described(self._cluster, [self._topic]).get(self._topic)
        same = [s for s in sources if shown and shown.topic_id == ledger[s].topic_id and s.partition < shown.partitions]
        at = {source: (source.topic, source.partition) for source in same}
        self._open_central()
        # Asked after central's end was fixed: an origin beyond these ends never existed at the edge.
        logs = ends.log_offsets(self._cluster, at.values())
        self._ends = {place: log.high_watermark for place, log in logs.items()}
        asked = self._asked(at, selection)
        opened = {}
        for source, place in at.items():
            entry, decisions, log = ledger[source], self._inputs.decisions.get(source, ()), logs[place]
            # Where a log was cut, the present records are not those that were read there before.
            cut = entry.gap.start if entry.gap is not None and entry.gap.kind is GapKind.TRUNCATED else log.last_stable
            begin, end = asked[source]
            comparable = OffsetRange(begin, min(end, cut, log.last_stable))
            parts = [within(part, comparable) for part in segments(entry.position, log.start, decisions)]
            parts = [part for part in parts if len(part.offsets)]
            suppressed, restates = self._inputs.backfill_effects.suppressed.get(source, 0), self._restates(source)
            window = AuditWindow(
                log.readable,
                OffsetRange(begin, end),
                bounded=selection.until is not None,
                held=self._inputs.held.get(str(source), ""),
            )
            opened[source] = AuditedFlow(source, entry, window, parts, suppressed, restates)
        return opened

    def _restates(self, source: EdgePartition) -> tuple[Restate, ...]:
        """The restates of a flow that its table contains."""
        committed = self._view.committed if self._view else frozenset()
        return tuple(one for one in self._inputs.backfill_effects.restates.get(source, ()) if one.mark in committed)

    def _asked(self, at: Mapping[EdgePartition, Partition], selection: Selection) -> dict[EdgePartition, OffsetRange]:
        first, last = selection.since, selection.until
        begins = ends.offsets_at(self._cluster, at.values(), first) if first else {}
        stops = ends.offsets_at(self._cluster, at.values(), last) if last else {}
        return {source: OffsetRange(begins.get(place, 0), stops.get(place, 2**62)) for source, place in at.items()}

    def _open_central(self) -> None:
        """The lake's version first: rows that it has are then at central before the end that is read.

        Records in the quarantine are delivered, too.
        """
        partitions = central_partitions(self._config.central, [self._central, *self._former])
        there = sorted({one.topic for one in partitions})
        self._gone = [one for one in self._former if one not in there]
        if self._table is not None:
            self._view = self._await_table(self._table, partitions)
        self._ranges = decided_ranges(self._config.central, [(one.topic, one.partition) for one in partitions])
        ours = topic_settings.settings(self._config.central, there).values() if there else ()
        theirs = self._edge_settings()
        # Of several topics the longest retention counts: a record is called expired only where it is for all.
        keeps = [int(one.get("retention.ms", -1)) if "delete" in one.get("cleanup.policy", "") else -1 for one in ours]
        self._keeps_ms = -1 if -1 in keeps else max(keeps, default=-1)
        self._rules = Rules(
            lake=self._view is not None and not self._view.problem,
            edge_compacts=is_compacted(theirs),
            central_compacts=any(map(is_compacted, ours)),
        )

    def _await_table(self, table: str, partitions: Sequence[CentralPartition]) -> LakeView:
        """The table as soon as it has what is at central now, or as it is when patience ends."""
        fed = [(one.topic, one.partition) for one in partitions if one.topic == self._central]
        ends = decided_ranges(self._config.central, fed)
        upto = {at: offsets.end for at, offsets in ends.items() if len(offsets)}
        while True:
            view = LakeView.opened(self._config, table, partitions, self._inputs.backfill_effects.marks())
            if not view.lacks(upto) or time.monotonic() >= self._inputs.patient_until:
                return view
            time.sleep(_LOOK_AGAIN_S)

    def _edge_settings(self) -> Mapping[str, str]:
        try:
            return topic_settings.settings(self._cluster, [self._topic]).get(self._topic, {})
        except RetryError:
            return {}  # no right to describe: compaction then explains nothing

    # --- passes

    def _passes(self, opened: Mapping[EdgePartition, AuditedFlow]) -> Iterator[list[tuple[AuditedFlow, Tally]]]:
        """Windows that are looked at together: one, or those of all partitions where any partition holds any key."""
        size = WINDOW // max(1, len(opened)) if self._by_key else WINDOW
        queues = [[(flow, window) for window in windows(flow.segments, size)] for flow in opened.values()]
        if self._by_key:
            together = [[one for one in row if one] for row in itertools.zip_longest(*queues)]
        else:
            together = [[one] for queue in queues for one in queue]
        for row in together:
            yield [(flow, Tally(window)) for flow, window in row]

    def _pass(self, parts: list[tuple[AuditedFlow, Tally]]) -> None:
        for flow, tally in parts:
            self._read_edge(flow, tally)
            dead = self._inputs.letters.get((flow.source, tally.segment.incarnation))
            if dead is not None:
                tally.count(tally.dead, dead)
        self._read_central(parts)
        for flow, tally in parts:
            if self._view is not None:
                self._read_lake(self._view, flow, tally)
            findings, absent = compare(tally, self._rules)
            flow.findings += findings
            never = absent & marks_of(flow.entry.unread, tally.segment)
            flow.sums.never_read += int(np.count_nonzero(never))
            absent &= ~never
            flow.sums.add(flow.source, tally)
            unread = (tally.edge > 0) & (tally.central == 0) & (tally.dead == 0)
            flow.sums.expired += int(np.count_nonzero(unread & tally.expired))
            if self._rules.central_compacts:
                flow.sums.compacted += int(np.count_nonzero(absent))
            else:
                lost = ranges(absent, tally.segment.offsets.start)
                flow.absent += [(tally.segment.incarnation, one) for one in lost]

    def _read_edge(self, flow: AuditedFlow, tally: Tally) -> None:
        wanted = {(flow.source.topic, flow.source.partition): tally.segment.offsets}
        deadline_ms = self._inputs.now_ms - self._keeps_ms if self._keeps_ms >= 0 else None
        for piece in committed(self._cluster, wanted, f"edge {self._edge}"):
            offsets = np.array(piece.offsets, np.int64)
            tally.count(tally.edge, offsets)
            if deadline_ms is not None:
                old = np.array(piece.timestamps_ms, np.int64) < deadline_ms
                tally.expired[tally.indexes(offsets[old])] = True

    def _read_central(self, parts: list[tuple[AuditedFlow, Tally]]) -> None:
        flows = {flow.source: (flow, tally) for flow, tally in parts}
        mine = {source.partition for source in flows}
        wanted = {at: there for at, there in self._ranges.items() if self._by_key or at[1] in mine}
        for piece in committed(self._config.central, wanted, "central"):
            at = (piece.topic, piece.partition)
            known = self._known.get(at) or self._known.setdefault(at, self._sources(at))
            upto = self._view.positions.get(at, 0) if self._view else 0
            found: dict[EdgePartition, tuple[list[int], list[int]]] = {source: ([], []) for source in flows}
            for offset, text in zip(piece.offsets, piece.origins, strict=True):
                source, incarnation, number, tombstone = parsed(text, known)
                if source is None:
                    unknown = self._inputs.unknown_origins.setdefault(at, set())
                    if len(unknown) < _MAX_UNKNOWN:
                        unknown.add(offset)
                elif source in flows:
                    flow, tally = flows[source]
                    if not tally.covers(incarnation, number):
                        self._note_beyond(flow, "central", incarnation, number)
                    elif tombstone:
                        tally.count_further_tombstone(number, tombstone)
                    else:
                        found[source][offset >= upto].append(number)
            for source, (in_lake, later) in found.items():
                tally = flows[source][1]
                tally.count(tally.central, np.array(in_lake + later, np.int64))
                tally.not_in_lake_yet[tally.indexes(np.array(later, np.int64))] = True
                if later and self._view:
                    flows[source][0].later.setdefault(at, []).extend(ranges_of(later))

    def _sources(self, tp: Partition) -> dict[bytes, EdgePartition]:
        """Beginnings of the origins that belong into a central partition, or once did."""
        once = self._inputs.former.into(tp[0])
        return {
            f"{self._config.hub}/{source}".encode(): source
            for source in self._inputs.ledger
            if source.edge in self._config.edges
            and (_replicated_to(self._config, source) == tp[0] or (source.edge, source.topic) in once)
            and (self._by_key or source.partition == tp[1])
        }

    def _note_beyond(self, flow: AuditedFlow, place: str, incarnation: int, offset: int) -> None:
        """Note an origin outside the current window if the edge never had it. Origins of other windows or earlier
        incarnations are ignored.
        """
        end = self._ends[flow.source.topic, flow.source.partition]
        if incarnation > flow.entry.incarnation or (incarnation == flow.entry.incarnation and offset >= end):
            flow.beyond.setdefault((place, incarnation), set()).add(offset)

    def _read_lake(self, view: LakeView, flow: AuditedFlow, tally: Tally) -> None:
        end = self._ends[flow.source.topic, flow.source.partition]
        for incarnations, offsets, deleted in view.rows(flow.source):
            here = incarnations == tally.segment.incarnation
            tally.count(tally.lake, offsets[here & (deleted == 0)])
            tally.delete(offsets[here & (deleted > 0)], deleted[here & (deleted > 0)])
            present = flow.entry.incarnation
            unexplained = (incarnations > present) | ((incarnations == present) & (offsets >= end))
            for incarnation, offset in zip(
                incarnations[unexplained].tolist(), offsets[unexplained].tolist(), strict=True
            ):
                self._note_beyond(flow, "lake", incarnation, offset)
        tally.count_deleted()

    def _lacking(self, flow: AuditedFlow) -> list[Omission]:
        """The offsets of a flow that the table still lacks, by central partition, with the reason."""
        if self._view is None or self._view.problem:
            return [Omission(LAKE, "unreadable", self._view.problem)] if self._view else []
        found = []
        for at, offsets in sorted(flow.later.items()):
            why = self._lacks.get(at) or self._lacks.setdefault(at, self._why(self._view, at))
            found.append(replace(why, offsets=union(offsets), records=sum(map(len, offsets))))
        return found

    def _why(self, view: LakeView, tp: Partition) -> Omission:
        if tp[0] in self._former:
            return lacking(view.table, tp, view.positions.get(tp))
        return view.why(tp, self._ranges[tp])


def _replicated_to(config: HubConfig, source: EdgePartition) -> str | None:
    try:
        return target(config, source.edge, source.topic)
    except KeyError:
        return None


def within(part: IncarnationRange, asked: OffsetRange) -> IncarnationRange:
    """The part of a segment that was asked for; it may be empty."""
    start, end = max(part.offsets.start, asked.start), min(part.offsets.end, asked.end)
    return IncarnationRange(part.incarnation, OffsetRange(start, max(start, end)))


def windows(parts: list[IncarnationRange], size: int) -> list[IncarnationRange]:
    """Segments in pieces of at most `size` offsets."""
    return [
        IncarnationRange(part.incarnation, OffsetRange(start, min(part.offsets.end, start + size)))
        for part in parts
        for start in range(part.offsets.start, part.offsets.end, size)
    ]


def parsed(text: bytes | None, known: Mapping[bytes, EdgePartition]) -> tuple[EdgePartition | None, int, int, int]:
    """Source, incarnation, offset and tombstone of an origin; no source for what is none of ours."""
    head, *numbers = (text or b"").rsplit(b"/", 2)
    source, tombstone = known.get(head), b"0"
    if source is None:
        head, *numbers = (text or b"").rsplit(b"/", 3)
        source, tombstone = known.get(head), numbers.pop() if numbers else b""
    try:
        return (source, int(numbers[1]), int(numbers[0]), int(tombstone)) if source else (None, 0, 0, 0)
    except (ValueError, IndexError):
        return None, 0, 0, 0
