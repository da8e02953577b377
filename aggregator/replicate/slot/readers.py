"""This module manages the readers of a slot, one for each edge, and decides what happens to a flow that cannot be read.

Invariant: a partition is assigned exactly while its flow may be read. It is always assigned at the offset and leader
epoch of the flow's cursor. The state of flows lies in cursors, so a rewind undoes it. One thing survives a rewind: the
doubt whether an edge's log is still the one that was read. It stays until it can be judged.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import partial

from aggregator.backoff import Backoff
from aggregator.coordinates import EdgePartition, Partition
from aggregator.errors import HoldError, RetryError, Unreachable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition
from aggregator.replicate.flow.cursor import HoldReason, PendingRetry
from aggregator.replicate.flow.flow import Flow
from aggregator.replicate.flow.gaps import damaged, gap, truncation_gap
from aggregator.replicate.slot.partition_guard import PartitionGuard
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.ports import Reader, SlotPorts
from aggregator.replicate.slot.refused_topics import RefusedTopic
from aggregator.replicate.slot.topic_identity import CheckedReader
from aggregator.state.gap import Gap, GapKind

_PAUSES = Backoff(first_s=0.5, most_s=30.0)
# The pauses stay short for a wait that is nearly over; each try reads a batch again.
_SOON = Backoff(first_s=0.5, most_s=2.0)
_DAMAGED_AGAIN_S = 60.0
_DOUBT = "the edge's log may have been cut before our position"


class Truncation(Enum):
    """What is known of an edge's log that may have been cut before a flow's position."""

    SUSPECTED = auto()  # the edge has not answered yet
    FOUND = auto()


class Readers:
    """Reads the flows of one slot.

    Args:
        plan: How patient a drain is.
        ports: Where readers come from.
        flows: All of the slot.
        guard: No flow skips what may lie undecided at central.
    """

    def __init__(
        self, plan: SlotPlan, ports: SlotPorts, flows: Mapping[EdgePartition, Flow], guard: PartitionGuard
    ) -> None:
        self._plan = plan
        self._ports = ports
        self._flows = flows
        self._guard = guard
        self._readers: dict[str, Reader] = {}
        self._opened_s = ports.now()
        self._asked_at: dict[str, float] = {}  # when an edge was asked anew, or filled a poll
        self._heard_at: dict[EdgePartition, float] = {}
        self._superseded: set[EdgePartition] = set()  # flows released or restarted since the newest poll
        self._resumed: set[EdgePartition] = set()  # flows released or assigned since their last records
        self._confirmed: set[EdgePartition] = set()  # flows whose edge has confirmed their position
        self._without_epochs: set[str] = set()  # edges that do not tell leader epochs
        self._truncation: dict[EdgePartition, Truncation] = {}  # flows whose log may have been cut

    def open(self) -> None:
        """Connect, and read every flow from where it stands."""
        for edge in sorted({source.edge for source in self._flows}):
            # Assigned at once: see `EdgeReader`.
            self._readers[edge] = self._checked(edge, self._ports.open_reader(edge))
        self.assign()
        self._resumed.clear()  # a new client compares each position with its first leader

    def _checked(self, edge: str, reader: Reader) -> Reader:
        """A reader that hands over nothing of a topic that was created again, if the edge can be asked."""
        ids = self._ports.open_topic_ids(edge)
        if ids is None:
            return reader
        return CheckedReader(reader, ids, partial(self._topic_id, edge), now=self._ports.now)

    def _topic_id(self, edge: str, at: Partition) -> str | None:
        flow = self._flows.get(EdgePartition(edge, *at))
        return None if flow is None else flow.plan.entry.topic_id

    def add(self, flow: Flow) -> None:
        """Read one flow more, and connect to its edge if none of the flows before it is read there."""
        edge = flow.plan.source.edge
        if edge not in self._readers:
            self._readers[edge] = self._checked(edge, self._ports.open_reader(edge))
            self._readers[edge].assign({})
            self.reset_silence(edge, self._ports.now())
        self._resumed.add(flow.plan.source)  # its client may know the leader
        if flow.is_readable:
            self._start(flow)

    def close(self) -> None:
        """Close the readers of all edges."""
        for reader in self._readers.values():
            reader.close()

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[tuple[str, Reader]]:
        return iter(self._readers.items())

    def assign(self) -> None:
        """Read every flow that may be read from where it stands, and nothing else; the rewind after an abort too."""
        starts: dict[str, dict[Partition, StartPosition]] = {edge: {} for edge in self._readers}
        for source, flow in self._flows.items():
            if flow.is_readable and source in self._truncation:  # a rewind has removed the wait
                flow.cursor = flow.cursor.with_waiting(PendingRetry(now := self._ports.now(), now, _DOUBT))
            elif flow.is_readable:
                starts[source.edge][source.topic, source.partition] = flow.cursor.start
        self._resumed |= self._flows.keys()  # flows that are not read now are read again later
        for edge, reader in self._readers.items():
            reader.assign(starts[edge])
            self.reset_silence(edge, self._ports.now())  # silence counts from this moment

    def reset_silence(self, edge: str, now: float) -> None:
        """Count an edge's silence anew: it is asked again, was not asked, or has more than was asked for."""
        self._asked_at[edge] = now

    def is_silent(self, source: EdgePartition, now: float) -> bool:
        """Whether an edge has said nothing of a flow for the patience of a drain; it may be busy with others."""
        heard_s = max(self._asked_at[source.edge], self._heard_at.get(source, 0.0))
        return now - heard_s > self._plan.patience_s

    def begin_poll(self, edge: str, polled: PollResult, now: float) -> None:
        """Begin to process a poll. Flows that are started anew from now on ignore the rest of it."""
        self._superseded.clear()
        heard = (*((chunk.topic, chunk.partition) for chunk in polled.chunks), *polled.ends)
        self._heard_at |= {EdgePartition(edge, *at): now for at in heard}

    def advance(self, flow: Flow, offset: int, leader_epoch: int | None = None) -> None:
        """Advance a flow to `offset`; a flow of a backfill goes on with its next range, or ends."""
        if not flow.is_readable:
            return
        self._confirmed.add(flow.plan.source)
        flow.cursor = flow.cursor.with_waiting(None)  # the retry has succeeded
        leapt = flow.advance(offset, leader_epoch)
        if flow.is_done or leapt:
            self._release(flow)
        if leapt and not flow.is_done:
            self._start(flow)

    def end(self, flow: Flow, offset: int) -> None:
        """A flow was read to the end of its partition.

        If only markers were read, no leader epoch is known, so a later truncation could not be detected. The reader
        then asks for the leader's epoch and reads the partition to its end again.
        """
        source, entry = flow.plan.source, flow.cursor.entry
        if source in self._superseded:
            return
        if not flow.is_readable or entry.leader_epoch is not None or offset < entry.next_offset:
            self.advance(flow, offset)
        elif self._learn_leader_epoch(flow):
            if flow.cursor.entry.leader_epoch is None:
                self.advance(flow, offset)
                return
            self._release(flow)
            self._start(flow)

    def _learn_leader_epoch(self, flow: Flow) -> bool:
        """Learn a leader epoch that nothing before the position exceeds, if the edge tells one; False: it waits."""
        source = flow.plan.source
        if flow.cursor.entry.leader_epoch is not None or source.edge in self._without_epochs:
            return True
        try:
            leader_epoch = self._readers[source.edge].leader_epoch((source.topic, source.partition))
        except RetryError as error:
            self.wait(flow, error.message)
            return False
        if leader_epoch is None:
            self._without_epochs.add(source.edge)
        else:
            flow.cursor = flow.cursor.with_leader_epoch(leader_epoch)
        return True

    def is_drained(self, flow: Flow) -> bool:
        """Whether a flow is held, or has reached what `--drain` asked for in the log that its edge has now.

        A position at the end does not count before the edge has confirmed it, because the log may have been truncated.
        A position that the client reported as lost does not count either, until the log has been checked. A drain waits
        with its patience for transactions that central has not decided; a first position is held as long.
        """
        source, hold = flow.plan.source, flow.cursor.hold
        if hold is not None:
            waited_s = self._ports.now() - self._opened_s
            return hold.reason is not HoldReason.UNDECIDED or waited_s > self._plan.patience_s
        confirmed = source in self._confirmed and self._truncation.get(source) is not Truncation.SUSPECTED
        return flow.is_drained and (flow.plan.until is None or flow.is_done or confirmed)

    def hold(self, flow: Flow, reason: HoldReason, detail: str) -> None:
        """Let a flow stand still until the epoch ends."""
        self._release(flow)
        flow.cursor = flow.cursor.with_hold(reason, detail)

    def hold_until(self, flow: Flow, reason: HoldReason, detail: str, retry_at_s: float) -> None:
        """Let a flow stand still, and try it again then."""
        self._release(flow)
        flow.cursor = flow.cursor.with_hold_until(reason, detail, retry_at_s)

    def hold_or_wait(self, flow: Flow, closed: str, refused: RefusedTopic | None) -> None:
        """Let a flow stand still whose partition is closed: held where central refuses its topic, else it waits."""
        if refused is None:
            self.wait(flow, closed)
        else:
            self.hold_until(flow, HoldReason.CENTRAL, refused.detail, refused.retry_at_s)

    def wait(self, flow: Flow, why: str, *, is_soon: bool = False) -> None:
        """Try this flow again after a while; the longer it waits, the longer the pause; a drain gives up.

        Args:
            flow: Which.
            why: The reason.
            is_soon: What it waits for is under way.
        """
        now, before = self._ports.now(), flow.cursor.waiting
        since_s = before.since_s if before else now
        waited_s = now - since_s
        if self._plan.drain and waited_s > self._plan.patience_s:
            self.hold(flow, HoldReason.WAITING, why)
            return
        self._release(flow)
        flow.cursor = flow.cursor.with_waiting(
            PendingRetry(since_s, now + (_SOON if is_soon else _PAUSES).pause_after_s(waited_s), why)
        )

    def retry_due(self, now: float) -> None:
        """Try again what has waited long enough."""
        for source, flow in self._flows.items():
            waiting = flow.cursor.waiting
            if waiting is not None and waiting.retry_at_s is not None and now >= waiting.retry_at_s:
                flow.cursor = flow.cursor.with_retry()
                # A client does not compare a restarted partition with a leader that it knows already.
                if flow.is_readable and (source not in self._truncation or self._check_truncation(flow)):
                    self.reset_silence(source.edge, now)
                    self._start(flow)

    def fault(self, edge: str, fault: Fault) -> None:
        """Handle a partition that cannot be read on."""
        flow = self._flows.get(EdgePartition(edge, *fault.at))
        if flow is None or not flow.is_readable or flow.plan.source in self._superseded:
            return
        if fault.kind is FaultKind.POSITION_LOST:
            if self._check_truncation(flow):
                self.wait(flow, fault.detail)
        elif fault.kind is FaultKind.DAMAGED:
            self._damage(flow, fault)
        else:
            self._confirmed.discard(flow.plan.source)  # without a witness the position may be lost
            self.wait(flow, fault.detail)

    def reject_other_log(self, flow: Flow, chunk: Chunk) -> bool:
        """Whether records are not taken, because they are of another log, or because nobody can say it now.

        librdkafka validates the position against every new leader while it reads a partition. It does not validate a
        partition that is assigned again if it already knows the leader. And a lower leader epoch than the cursor's
        alone proves nothing: the cursor's may be that of a later record.
        """
        source, known = flow.plan.source, flow.cursor.entry.leader_epoch
        epoch, newest = chunk.leader_epoch, flow.plan.live_leader_epoch
        if not flow.is_readable:
            return False
        if epoch is not None and newest is not None and epoch > newest and self._hold_if_truncated_ahead(flow, newest):
            return True
        resumed = source in self._resumed
        self._resumed.discard(source)
        if known is None or epoch is None or epoch == known:
            return False
        if epoch > known and not resumed:
            return False
        return not self._check_truncation(flow)

    def _hold_if_truncated_ahead(self, flow: Flow, newest: int) -> bool:
        """Whether the log was truncated before the end of a backfill's range, and the live flow has not noticed it.

        Records that are newer than the live flow's last one lie behind the backfill's end, in the same log.
        """
        source, end = flow.plan.source, flow.plan.segments[-1].offsets.end
        reader, at = self._readers[source.edge], (source.topic, source.partition)
        try:
            cut = reader.find_truncation(at, reader.log_range(at), newest)
        except RetryError as error:
            self.wait(flow, error.message)
            return True
        if cut.newer is None or cut.newer >= end:
            return False
        why = f"the edge's log was cut at {cut.end}, and the live flow has not met that yet"
        self.hold(flow, HoldReason.GAP, f"{why}: let the hub run until `aggregator gaps` shows it, then resume")
        return True

    @staticmethod
    def _require_same_log(flow: Flow, leader_epoch: int | None) -> None:
        known = flow.cursor.entry.leader_epoch
        if known is not None and leader_epoch is not None and leader_epoch < known:
            raise HoldError(
                f"{flow.plan.source}: its leader has epoch {leader_epoch}, and what was read has {known}: another log",
                hint="a recreated topic goes on as a new incarnation as soon as its id is seen; else look at the edge",
            )

    def _check_truncation(self, flow: Flow) -> bool:
        """Whether the log before the position is what was read; if not, the flow is held, waits, or goes on behind."""
        source = flow.plan.source
        self._truncation[source] = Truncation.SUSPECTED
        try:
            lost, whole = self._find_gap(flow)
        except HoldError as error:
            self.hold(flow, HoldReason.RECREATED, str(error))
            return False
        except RetryError as error:
            self.wait(flow, error.message)
            return False
        if lost is not None:
            if self._skip_or_hold_gap(flow, lost):
                self._truncation[source] = Truncation.FOUND
            return False
        del self._truncation[source]
        if whole is not None:
            flow.cursor = flow.cursor.with_leader_epoch(*whole)
        return True

    def _skip_or_hold_gap(self, flow: Flow, lost: Gap) -> bool:
        """Go on behind a gap, or stand still before it, as the flow's rule says; False: it waits for central."""
        if flow.may_skip(lost) and (closed := self._guard.await_open([flow.plan])):
            self.wait(flow, closed)
            return False
        self._release(flow)
        if not flow.may_skip(lost):
            flow.cursor = flow.cursor.with_gap(lost)
            return True
        flow.skip(lost)
        if not flow.is_done:
            self._start(flow)
        return True

    def _damage(self, flow: Flow, fault: Fault) -> None:
        """A batch that cannot be read is a gap up to its end; it is tried again, because it may be mended there.

        The batch may start a new leader epoch that cannot be read. So the log before the batch is checked now, and the
        flow keeps a leader epoch that is an upper bound for the batch. With it, a later truncation behind the batch is
        detected.
        """
        now = self._ports.now()
        if not self._learn_leader_epoch(flow) or not self._check_truncation(flow):
            return
        entry = flow.cursor.entry
        lost = entry.gap if entry.gap is not None and entry.gap.start == entry.next_offset else None
        if lost is None:
            try:
                behind = self._readers[flow.plan.source.edge].readable_from(fault.at, entry.next_offset)
            except RetryError:
                behind = None
            if behind is None:
                self.wait(flow, fault.detail)
                return
            now_ms = self._ports.clock_ms()
            lost = damaged(entry.next_offset, behind, since_ms=now_ms, leader_epoch=entry.leader_epoch)
        self._skip_or_hold_gap(flow, lost)
        if flow.cursor.hold is not None:
            flow.cursor = flow.cursor.with_waiting(PendingRetry(now, now + _DAMAGED_AGAIN_S, fault.detail))

    def _find_gap(self, flow: Flow) -> tuple[Gap | None, tuple[int, int] | None]:
        """The gap, if there is one; else a leader epoch up to which the log before the position is whole.

        The second number beside that epoch is the offset before which no record has a higher epoch than the flow's.

        The leader's epoch is asked for first: what is cut after that has a higher one, and is found the next time. A
        search that met such a higher one has read two logs, and says nothing of either.
        """
        source, entry, now_ms = flow.plan.source, flow.cursor.entry, self._ports.clock_ms()
        reader, at = self._readers[source.edge], (source.topic, source.partition)
        leader_epoch = None if entry.leader_epoch is None else reader.leader_epoch(at)
        self._require_same_log(flow, leader_epoch)
        log = reader.log_range(at)
        lost = gap(entry.next_offset, *log, since_ms=now_ms)
        if entry.leader_epoch is None or (lost is not None and lost.kind is GapKind.EXPIRED):
            return lost, None
        cut = reader.find_truncation(at, log, entry.leader_epoch)
        if leader_epoch is not None and cut.newer_epoch is not None and cut.newer_epoch > leader_epoch:
            raise Unreachable(f"{source}: its log was truncated while that was looked for", hint="it is asked again")
        known = leader_epoch if cut.newer_epoch is None else cut.newer_epoch
        whole = None if known is None else (known, cut.end)
        return truncation_gap(lost, cut, entry.next_offset, since_ms=now_ms), whole

    def _release(self, flow: Flow) -> None:
        source = flow.plan.source
        self._resumed.add(source)
        self._superseded.add(source)
        self._readers[source.edge].incremental_unassign((source.topic, source.partition))

    def _start(self, flow: Flow) -> None:
        source = flow.plan.source
        self._readers[source.edge].incremental_assign((source.topic, source.partition), flow.cursor.start)
