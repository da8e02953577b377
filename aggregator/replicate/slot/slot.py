"""A slot is one long task that owns edge partitions for an epoch and delivers each of their records exactly once.

Invariants (protocol): C, a slot looks, takes its id, and reads control *to its end*. Then it reads its own ledger
partition, where only records of this epoch count. D, it writes to its own ledger partition only, and writes a first
position before the first poll. E, a fenced slot ends normally. F, a definite refusal makes it rewind. After an unknown
outcome it discards the producer and returns to C.
"""

import math
from collections.abc import Mapping

from aggregator.backoff import Backoff
from aggregator.coordinates import EdgePartition, Position
from aggregator.count_text import format_count
from aggregator.errors import Fenced, HoldError, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import PollResult
from aggregator.privacy.batch.strip import SchemaIdsPending
from aggregator.replicate.flow.cursor import HoldReason
from aggregator.replicate.flow.flow import Flow
from aggregator.replicate.slot.delivery import Delivery
from aggregator.replicate.slot.partition_guard import PartitionGuard
from aggregator.replicate.slot.plan import (
    SlotOutcome,
    SlotPlan,
    SlotResult,
    blocked_report,
    session_outcome,
    session_report,
    with_added_flows,
)
from aggregator.replicate.slot.planned_limits import LimitsChanged, require_planned_after
from aggregator.replicate.slot.ports import SlotPorts, Writer
from aggregator.replicate.slot.readers import Readers
from aggregator.replicate.slot.refused_topics import RefusedTopics
from aggregator.replicate.slot.traffic import SlotTraffic
from aggregator.state.ledger import LedgerRecord, flow_key
from aggregator.state.requests import encode

# A batch of any size costs some milliseconds of Python and numpy (docs/speed.md).
POLL_RECORDS = 16_000
_LOOK_EVERY_S, _REPORT_EVERY_S = 0.05, 1.0
_WAIT_ALONE_S, _WAIT_SHARED_S, _MAX_REST_S = 0.02, 0.004, 0.05
# The tries are bounded: if the ledger refuses for good, the slot still has to see that its epoch is over.
_TRIES = 5
_PAUSES = Backoff(first_s=0.2, most_s=5.0)


class Slot:
    """Runs one SlotPlan on its SlotPorts."""

    def __init__(self, plan: SlotPlan, ports: SlotPorts, delivery: Delivery) -> None:
        self._plan = plan
        self._ports = ports
        self._delivery = delivery
        self._failures = 0
        self._refused = RefusedTopics()
        self._traffic: SlotTraffic | None = None

    def run(self) -> SlotOutcome:
        """Deliver until the epoch ends, the drain is done, or the id is taken."""
        while True:
            seen = self._ports.poll_control()
            if seen.epoch_number > self._plan.epoch or seen.ended >= self._plan.epoch:
                return SlotOutcome(self._plan.slot, SlotResult.SUPERSEDED)
            writer = self._ports.open_writer()
            try:
                writer.open()
                seen = self._ports.read_control()
                if not seen.is_epoch(self._plan.epoch, self._plan.driver):
                    return SlotOutcome(self._plan.slot, SlotResult.SUPERSEDED)
                self._plan = with_added_flows(self._plan, seen)
                flows = self._flows(self._ports.read_ledger())
                self._traffic = traffic = self._traffic or SlotTraffic(self._plan, self._ports)
                core = (self._plan, self._ports, self._delivery)
                session = _ProducerSession(*core, writer, flows, refused=self._refused, traffic=traffic)
                if (outcome := session.run()) is not None:
                    return outcome
                require_planned_after(self._refused, session.plan.flows, self._ports)
                self._failures = 0
                self._ports.sleep(self._refused.pause_s)
            except Fenced:
                return SlotOutcome(self._plan.slot, SlotResult.FENCED)
            except LimitsChanged as error:
                return SlotOutcome(self._plan.slot, SlotResult.STOPPED, detail=error.message)
            except (OutcomeUnknown, TransactionAborted, Unreachable) as error:
                self._failures += 1
                self._ports.publish_telemetry(blocked_report(self._plan, self._refused, error.message))
                self._ports.sleep(_PAUSES.pause_s(self._failures))
            finally:
                writer.close()

    def _flows(self, ledger: Mapping[EdgePartition, LedgerRecord]) -> dict[EdgePartition, Flow]:
        flows = {}
        for plan in self._plan.flows:
            found = ledger.get(plan.source)
            current = found is not None and found.epoch == self._plan.epoch
            flow = Flow(plan, found if current and found else plan.entry, persisted=current)
            refused = self._refused.active_refusal(plan.central_topic, self._ports.now())
            if refused is not None:
                flow.hold_until(HoldReason.CENTRAL, refused.detail, refused.retry_at_s)
            flows[plan.source] = flow
        return flows


class _ProducerSession:
    """The work of one producer, from its `init_transactions` to a stop or an error."""

    def __init__(
        self,
        plan: SlotPlan,
        ports: SlotPorts,
        delivery: Delivery,
        writer: Writer,
        flows: dict[EdgePartition, Flow],
        *,
        refused: RefusedTopics,
        traffic: SlotTraffic,
    ) -> None:
        self._refused, self._traffic = refused, traffic
        self.plan, self._ports, self._delivery = plan, ports, delivery
        self._writer, self._flows = writer, flows
        self._open_since: float | None = None
        self._last_commit = self._last_look = self._last_report = ports.now()
        self._transactions = 0
        self._commit_s = 0.0  # how long recent commits took
        self._behind = False  # the last round filled a poll, so more records wait
        self._ages_ms: dict[str, int] = {}
        self._guard = PartitionGuard(ports, plan, refused, writer.acknowledged)
        self._readers = Readers(plan, ports, flows, self._guard)
        self._unwritten = [flow for flow in flows.values() if flow.plan.is_new_position and not flow.persisted]

    def run(self) -> SlotOutcome | None:
        """Deliver until the end; None: central refused something for good, and another producer goes on without it."""
        self._persist_first_positions()
        try:
            self._readers.open()
            return self._loop()
        finally:
            self._readers.close()

    def _persist_first_positions(self) -> None:
        """Write the positions that are new; one that passes over offsets of a closed partition is written later.

        An undecided record below a position counts as committed when it is settled.
        """
        over = {flow.plan.source for flow in self._unwritten if flow.position > Position(0, 0)}
        self._guard.await_open(flow.plan for flow in self._unwritten if flow.plan.source in over)  # one question
        open_now, left = list[Flow](), list[Flow]()
        for flow in self._unwritten:
            if closed := self._guard.await_open([flow.plan]) if flow.plan.source in over else "":
                flow.hold_until(HoldReason.UNDECIDED, closed, math.inf)
                left.append(flow)
            else:
                open_now.append(flow)
        self._write_first_positions(open_now)
        self._unwritten = left

    def _write_first_positions(self, fresh: list[Flow]) -> None:
        """Write them in one transaction; raise `Unreachable` after `_TRIES` refusals, so that control is read again."""
        for _ in range(_TRIES if fresh else 0):
            self._writer.begin()
            try:
                for flow in fresh:
                    self._write_entry(flow)
                self._writer.commit()
            except TransactionAborted as error:
                self._record_abort(error)
                self._writer.abort()
                self._guard.transaction_ended(self._writer.touched)
                self._ports.sleep(self._refused.pause_s)
            else:
                self._guard.transaction_ended(self._writer.touched)
                for flow in fresh:
                    flow.persist(self._ports.now())
                return
        if fresh:
            raise Unreachable(
                f"central refuses the first positions of {format_count(len(fresh), 'flow')}: {self._refused.why}",
                hint="mend what it names at central; the hub tries again by itself",
            )

    def _write_entry(self, flow: Flow) -> None:
        self._writer.produce(
            self.plan.names.ledger,
            flow_key(flow.plan.source, flow.plan.backfill),
            flow.cursor.entry.encode(),
            partition=self.plan.slot,
        )
        first = [flow.plan.decision] if flow.plan.decision and not flow.persisted else []
        for decision in (*first, *flow.cursor.decisions):
            self._writer.produce(self.plan.names.requests, *encode(decision), partition=0)

    def _loop(self) -> SlotOutcome | None:
        while True:
            try:
                ended = self._step(self._ports.now())
            except TransactionAborted as error:
                if self._abort(error):
                    return None
            except LimitsChanged:
                self._commit_if_moved()
                raise
            else:
                if ended:
                    return self._outcome(ended)

    def _step(self, now: float) -> SlotResult | None:
        """One round: look, poll, deliver, commit when due. Returns how the slot ends; None: it goes on."""
        if now - self._last_look >= _LOOK_EVERY_S:
            state = self._ports.poll_control()
            if state.epoch_number > self.plan.epoch or state.ended >= self.plan.epoch:
                self._commit_if_moved()
                return SlotResult.STOPPED
            self.plan = with_added_flows(self.plan, state)
            if state.pace is not None and state.pace.epoch == self.plan.epoch:
                self._traffic.pace(state.pace.rate)
            self._last_look = now
        busy = self._poll_edges(now)
        self._commit_when_due(busy=busy)
        if self._open_since is None:
            self._begin_flows()
        self._readers.retry_due(now)
        self._report(now)
        if self.plan.drain and self._all_drained(now):
            self._commit_if_moved()
            return SlotResult.DRAINED
        if self._guard.is_stuck():
            self._commit_if_moved()
            return SlotResult.STOPPED
        return None

    def _begin_flows(self) -> None:
        """Write first positions that are missing, when nothing is undecided, and read what the slot was given since."""
        if (len(self._flows) == len(self.plan.flows) and not self._unwritten) or self._guard.await_open([]):
            return
        known = self._flows.keys() | {flow.plan.source for flow in self._unwritten}
        more = (plan for plan in self.plan.flows if plan.source not in known)
        self._unwritten += [Flow(plan, plan.entry, persisted=False) for plan in more]
        fresh = [flow for flow in self._unwritten if flow.plan.source not in self._flows]
        self._persist_first_positions()
        for flow in fresh:
            self._flows[flow.plan.source] = flow
            self._readers.add(flow)

    def _poll_edges(self, now: float) -> bool:
        """Poll every edge once; whether anything came."""
        waiting = _WAIT_ALONE_S if len(self._readers) == 1 else _WAIT_SHARED_S
        if self._open_since is not None:
            waiting = 0.0
            if not self._behind:  # a round for a few records would cost more than the records
                rest_s = self.plan.commit_policy.rest_s(open_s=now - self._open_since, commit_s=self._commit_s)
                self._ports.sleep(min(_MAX_REST_S, rest_s))
        busy = self._behind = False
        if not len(self._readers):
            self._ports.sleep(waiting)
        for edge, reader in self._readers:
            most = self._traffic.available(edge, POLL_RECORDS)
            if not most:
                self._readers.reset_silence(edge, now)  # the rate limit keeps us from polling: the edge is not silent
                self._ports.sleep(waiting / len(self._readers))
            polled = reader.poll(most, waiting / len(self._readers) if most else 0.0)
            count = self._traffic.count_read(edge, polled.chunks)
            self._behind = self._behind or (count >= most > 0 and not self._traffic.is_limited(edge))
            if count >= most > 0:
                self._readers.reset_silence(edge, now)
            busy = busy or bool(polled.chunks)
            self._deliver_polled(edge, polled)
        return busy

    def _deliver_polled(self, edge: str, polled: PollResult) -> None:
        self._readers.begin_poll(edge, polled, self._ports.now())
        flows = [self._flows[EdgePartition(edge, chunk.topic, chunk.partition)] for chunk in polled.chunks]
        self._guard.await_open(flow.plan for flow in flows)  # asks about all their partitions at once
        for flow, chunk in zip(flows, polled.chunks, strict=True):
            if self._readers.reject_other_log(flow, chunk):
                continue
            for piece in flow.pieces(chunk):
                self._deliver(flow, piece)
                # Many new schemas in one poll take longer to compile than a transaction may stay open.
                self._commit_when_due(busy=True)
            self._readers.advance(flow, chunk.offsets[-1] + 1, chunk.leader_epoch)
        for (topic, partition), position in polled.ends.items():
            self._readers.end(self._flows[EdgePartition(edge, topic, partition)], position)
        for fault in polled.faults:
            self._readers.fault(edge, fault)

    def _deliver(self, flow: Flow, chunk: Chunk) -> None:
        """Deliver a chunk, or what lies before the first record that cannot go on."""
        if closed := self._guard.await_open([flow.plan]):
            refusal = self._refused.active_refusal(flow.plan.central_topic, self._ports.now())
            self._readers.hold_or_wait(flow, closed, refusal)
            return
        try:
            now_ms = self._ports.clock_ms()
            written = self._delivery.deliver(self._writer, flow, chunk, self._begin, now_ms=now_ms)
            self._traffic.count_written(flow.plan.source.edge, written)
            self._ages_ms[flow.plan.source.edge] = now_ms - chunk.timestamps_ms[-1]
        except HoldError as error:
            if len(chunk) > 1:
                for half in chunk.halves():
                    if flow.is_readable:
                        self._deliver(flow, half)
                return
            self._readers.hold(flow, HoldReason.of_refusal(error), str(error))
        except Unreachable as error:
            if isinstance(error, SchemaIdsPending) and error.place:
                self._deliver(flow, chunk.before(error.place))
            if flow.is_readable:
                self._readers.wait(flow, str(error), is_soon=isinstance(error, SchemaIdsPending) and error.is_soon)

    def _begin(self) -> None:
        if self._open_since is None:
            self._writer.begin()
            self._open_since = self._ports.now()

    def _commit_when_due(self, *, busy: bool) -> None:
        now = self._ports.now()
        policy = self.plan.commit_policy
        if self._open_since is None:
            if policy.idle_due(since_commit_s=now - self._last_commit):
                self._commit_if_moved()
        elif policy.due(
            pending_bytes=self._traffic.pending_bytes,
            open_s=now - self._open_since,
            drained=not busy,
            behind=self._behind,
            commit_s=self._commit_s,
        ):
            self._commit_if_moved()

    def _commit_if_moved(self) -> None:
        moved = [flow for flow in self._flows.values() if flow.has_changes]
        if moved and (self._open_since is not None or not self._guard.await_open([])):
            self._begin()
            for flow in moved:
                self._write_entry(flow)
            self._commit()
            for flow in moved:
                flow.commit()
            self._transactions += 1
            self._refused.clear(flow.plan.central_topic for flow in moved)
            self._open_since = None
            self._traffic.commit()
        self._last_commit = self._ports.now()

    def _commit(self) -> None:
        began = self._ports.now()
        self._writer.commit()
        self._guard.transaction_ended(self._writer.touched)
        took = self._ports.now() - began
        self._commit_s = min(took, self._commit_s + (took - self._commit_s) / 4)  # a slow one is soon forgotten

    def _abort(self, error: TransactionAborted) -> bool:
        """Rule F: abort, rewind the readers to the last committed positions, go on with backoff.

        Returns:
            Whether central refused something for good. A client keeps what it heard of a topic: the next try is for
            another one.
        """
        refused = self._record_abort(error)
        self._writer.abort()
        if refused:
            return True
        self._guard.transaction_ended(self._writer.touched)
        self._open_since = None
        self._traffic.abort()
        for flow in self._flows.values():
            flow.rewind()
        self._ports.sleep(self._refused.pause_s)
        self._readers.assign()
        return False

    def _record_abort(self, error: TransactionAborted) -> bool:
        """Remember and publish why a transaction was aborted; return whether central refuses something for good."""
        refusals = self._writer.refusals()
        self._refused.record_abort(error.message, refusals, self._ports.now())
        self._publish_telemetry()
        return bool(refusals)

    def _all_drained(self, now: float) -> bool:
        return all(
            self._readers.is_drained(flow) or (flow.is_readable and self._readers.is_silent(source, now))
            for source, flow in self._flows.items()
        )

    def _outcome(self, result: SlotResult) -> SlotOutcome:
        self._report(self._ports.now(), last=True)
        return session_outcome(self.plan, self._flows, result, self._guard.undecided())

    def _report(self, now: float, *, last: bool = False) -> None:
        if last or now - self._last_report >= _REPORT_EVERY_S:
            self._last_report, head = now, {"epoch": self.plan.epoch, "slot": self.plan.slot}
            for body in self._delivery.field_reports(self._ports.now(), last=last):
                self._ports.publish_telemetry(head | body)
            self._publish_telemetry()

    def _publish_telemetry(self) -> None:
        figures = {"transactions": self._transactions, "ages_ms": self._ages_ms} | self._traffic.figures()
        self._ports.publish_telemetry(session_report(self.plan, self._flows, self._refused) | figures)
