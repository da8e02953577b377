"""The slot: one long task that owns edge partitions for an epoch and delivers each of their records exactly once.

Invariants (protocol): C, a slot looks, takes its id, reads control *to its end*, then its own ledger partition, and
counts a ledger record only if it carries this epoch; D, it writes its own ledger partition only, and a first position
before the first poll; E, fenced ends normally; F, a definite refusal rewinds, an unknown outcome discards the
producer and goes back to C.
"""

from collections.abc import Mapping

from aggregator.coordinates import EdgePartition
from aggregator.errors import Fenced, HoldError, OutcomeUnknown, RetryError, TransactionAborted, Unreachable
from aggregator.kafka.chunk import Chunk
from aggregator.kafka.codes import FaultKind
from aggregator.kafka.ends import Partition
from aggregator.kafka.gap import Gap, GapKind
from aggregator.kafka.ledger import LedgerRecord, flow_key
from aggregator.kafka.reader import Fault, Polled
from aggregator.kafka.requests import encode
from aggregator.replicate.delivery import Delivery
from aggregator.replicate.flow import Flow, Hold
from aggregator.replicate.gaps import cut_log, gap
from aggregator.replicate.ports import Reader, SlotWorld, Writer
from aggregator.replicate.slot_plan import SlotOutcome, SlotPlan
from aggregator.replicate.throttle import Throttle

# A batch costs its loops some milliseconds of Python and numpy, whatever is in it (docs/speed.md).
POLL_RECORDS = 16_000
_LOOK_EVERY_S = 0.05
_TELL_EVERY_S = 1.0
_WAIT_ALONE_S = 0.02
_WAIT_SHARED_S = 0.004
_REST_MOST_S = 0.05
_RETRY_MOST_S = 30.0


class Slot:
    """Runs one SlotPlan against a SlotWorld."""

    def __init__(self, plan: SlotPlan, world: SlotWorld, delivery: Delivery) -> None:
        self._plan = plan
        self._world = world
        self._delivery = delivery
        self._attempt = 0

    def run(self) -> SlotOutcome:
        """Deliver until the epoch ends, the drain is done, or the id is taken."""
        while True:
            if self._world.look().newest > self._plan.epoch:
                return SlotOutcome(self._plan.slot, "superseded")
            writer = self._world.writer()
            try:
                writer.open()
                if self._world.control().newest > self._plan.epoch:
                    return SlotOutcome(self._plan.slot, "superseded")
                flows = self._flows(self._world.ledger())
                return _Turn(self._plan, self._world, self._delivery, writer, flows).run()
            except Fenced:
                return SlotOutcome(self._plan.slot, "fenced")
            except (OutcomeUnknown, Unreachable):
                self._attempt += 1
                self._world.sleep(min(5.0, 0.1 * 2**self._attempt))
            finally:
                writer.close()

    def _flows(self, ledger: Mapping[EdgePartition, LedgerRecord]) -> dict[EdgePartition, Flow]:
        flows = {}
        for plan in self._plan.flows:
            found = ledger.get(plan.source)
            current = found is not None and found.epoch == self._plan.epoch
            flows[plan.source] = Flow(plan, found if current and found else plan.entry, persisted=current)
        return flows


class _Turn:
    """One life of a producer: from a fresh `init_transactions` to a stop or an error."""

    def __init__(
        self,
        plan: SlotPlan,
        world: SlotWorld,
        delivery: Delivery,
        writer: Writer,
        flows: dict[EdgePartition, Flow],
    ) -> None:
        self._plan = plan
        self._world = world
        self._delivery = delivery
        self._writer = writer
        self._flows = flows
        self._readers: dict[str, Reader] = {}
        self._heard: dict[str, float] = {}
        self._open_since: float | None = None
        self._pending_bytes = 0
        self._last_commit = self._last_look = self._last_told = world.now()
        self._aborts = 0
        self._transactions = 0
        self._commit_s = 0.0  # what a commit takes, lately
        self._behind = False  # the last round brought all that was asked for: more is waiting
        self._ages_ms: dict[str, int] = {}
        self._throttle = Throttle(plan.terms.rate if plan.terms else None, world.now())

    def run(self) -> SlotOutcome:
        self._persist_first_positions()
        try:
            for edge in sorted({source.edge for source in self._flows}):
                self._readers[edge] = self._world.reader(edge)  # not earlier: see `EdgeReader`
            self._assign()
            return self._loop()
        finally:
            for reader in self._readers.values():
                reader.close()

    def _persist_first_positions(self) -> None:
        fresh = [flow for flow in self._flows.values() if flow.plan.fresh and not flow.persisted]
        while fresh:
            self._writer.begin()
            try:
                for flow in fresh:
                    self._write_entry(flow)
                self._writer.commit()
            except TransactionAborted:
                self._writer.abort()
                self._world.sleep(0.2)
            else:
                for flow in fresh:
                    flow.persisted = True
                return

    def _write_entry(self, flow: Flow) -> None:
        self._writer.produce(
            self._plan.names.ledger,
            flow_key(flow.plan.source, flow.plan.backfill),
            flow.entry().encode(),
            partition=self._plan.slot,
        )
        first = [flow.plan.decision] if flow.plan.decision and not flow.persisted else []
        for decision in (*first, *flow.decisions):
            self._writer.produce(self._plan.names.requests, *encode(decision), partition=0)

    def _assign(self) -> None:
        """(Re)assign every readable flow at its cursor; the rewind after an abort too."""
        wanted: dict[str, dict[Partition, int]] = {}
        epochs: dict[str, dict[Partition, int]] = {}
        for source, flow in self._flows.items():
            if flow.reading:
                wanted.setdefault(source.edge, {})[source.topic, source.partition] = flow.next_offset
                if flow.leader_epoch is not None:
                    epochs.setdefault(source.edge, {})[source.topic, source.partition] = flow.leader_epoch
        for edge, positions in wanted.items():
            self._readers[edge].assign(positions, epochs.get(edge))
            self._heard[edge] = self._world.now()  # an edge's silence counts from when it was asked

    def _loop(self) -> SlotOutcome:
        while True:
            try:
                ended = self._step(self._world.now())
            except TransactionAborted:
                self._abort()
            else:
                if ended:
                    return self._outcome(ended)

    def _step(self, now: float) -> str:
        """One round: look, poll, deliver, commit when due. Returns how the slot ends, or nothing."""
        if now - self._last_look >= _LOOK_EVERY_S:
            state = self._world.look()
            if state.newest > self._plan.epoch or state.ended >= self._plan.epoch:
                self._commit_if_moved()
                return "stopped"
            if state.pace is not None and state.pace.epoch == self._plan.epoch:
                self._throttle.limit(state.pace.rate, now)
            self._last_look = now
        busy = self._round(now)
        self._commit_when_due(busy=busy)
        self._wake_retries(now)
        self._tell(now)
        if self._plan.drain and not busy and self._all_drained(now):
            self._commit_if_moved()
            return "drained"
        return ""

    def _round(self, now: float) -> bool:
        """Poll every edge once; whether anything came."""
        waiting = _WAIT_ALONE_S if len(self._readers) == 1 else _WAIT_SHARED_S
        if self._open_since is not None:
            waiting = 0.0
            if not self._behind:  # a round for every few records would cost more than they do
                rest_s = self._plan.cadence.rest_s(open_s=now - self._open_since, commit_s=self._commit_s)
                self._world.sleep(min(_REST_MOST_S, rest_s))
        busy = self._behind = False
        if not self._readers:
            self._world.sleep(waiting)
        for edge, reader in self._readers.items():
            most = self._throttle.most(self._world.now(), POLL_RECORDS)
            if not most:
                self._heard[edge] = now  # it is we who do not ask
                self._world.sleep(waiting / len(self._readers))
                continue
            polled = reader.poll(most, waiting / len(self._readers))
            count = sum(map(len, polled.chunks))
            self._throttle.spend(count)
            self._behind = self._behind or count >= most
            if polled.chunks or polled.ends:
                self._heard[edge] = now
            busy = busy or bool(polled.chunks)
            self._take(edge, reader, polled)
        return busy

    def _take(self, edge: str, reader: Reader, polled: Polled) -> None:
        for chunk in polled.chunks:
            flow = self._flows[EdgePartition(edge, chunk.topic, chunk.partition)]
            for piece in flow.pieces(chunk):
                if not flow.reading:
                    break
                self._deliver(reader, flow, piece)
                # Many new schemas in one poll take longer to compile than a transaction may stay open.
                self._commit_when_due(busy=True)
            self._reach(reader, flow, chunk.offsets[-1] + 1)
        for (topic, partition), position in polled.ends.items():
            self._reach(reader, self._flows[EdgePartition(edge, topic, partition)], position)
        for fault in polled.faults:
            self._fault(edge, reader, fault)

    @staticmethod
    def _reach(reader: Reader, flow: Flow, offset: int) -> None:
        """Nothing that a readable flow wants is left before `offset`; a backfill goes to its next part, or is done."""
        if not flow.reading:
            return
        leapt, at = flow.reach(offset), (flow.plan.source.topic, flow.plan.source.partition)
        if flow.done or leapt:
            reader.release(at)
        if leapt and not flow.done:
            reader.resume(at, flow.next_offset)

    def _deliver(self, reader: Reader, flow: Flow, chunk: Chunk) -> None:
        """Deliver a chunk, or what lies before the first record that can not go on."""
        at = (chunk.topic, chunk.partition)
        try:
            now_ms = self._world.clock_ms()
            self._pending_bytes += self._delivery.deliver(self._writer, flow, chunk, self._begin, now_ms=now_ms)
            self._ages_ms[flow.plan.source.edge] = now_ms - chunk.timestamps_ms[-1]
            flow.waiting_since = None
            flow.leader_epoch = chunk.leader_epoch if chunk.leader_epoch is not None else flow.leader_epoch
        except HoldError as error:
            if len(chunk) > 1:
                for half in chunk.halves():
                    if flow.reading:
                        self._deliver(reader, flow, half)
                return
            reader.release(at)
            flow.held = Hold(flow.plan.source, "refused", str(error))
        except Unreachable as error:
            reader.release(at)
            self._wait(flow, str(error))

    def _wait(self, flow: Flow, why: str) -> None:
        """Try this flow again after a while; the longer it waits, the longer the pause; a drain gives up."""
        now = self._world.now()
        flow.waiting_since = now if flow.waiting_since is None else flow.waiting_since
        waited_s = now - flow.waiting_since
        if self._plan.drain and waited_s > self._plan.patience_s:
            flow.held = Hold(flow.plan.source, "waiting", why)
        else:
            flow.retry_at, flow.trouble = now + min(_RETRY_MOST_S, 0.5 + waited_s), why

    def _fault(self, edge: str, reader: Reader, fault: Fault) -> None:
        flow = self._flows.get(EdgePartition(edge, *fault.at))
        if flow is None or not flow.reading:
            return
        if fault.kind is FaultKind.POSITION_LOST:
            try:
                lost = self._lost(reader, flow, fault.at)
            except RetryError:
                lost = None
            reader.release(fault.at)
            if lost is None:
                self._wait(flow, fault.detail)
            elif flow.may_skip(lost):
                flow.skip(lost)
                if not flow.done:
                    reader.resume(fault.at, flow.next_offset)
            else:
                flow.stand_still(lost)
        else:
            reader.release(fault.at)
            self._wait(flow, fault.detail)

    def _lost(self, reader: Reader, flow: Flow, at: Partition) -> Gap | None:
        now_ms, log = self._world.clock_ms(), reader.log_range(at)
        lost = gap(flow.next_offset, *log, since_ms=now_ms)
        if flow.leader_epoch is None or (lost is not None and lost.kind is GapKind.TRUNCATED):
            return lost
        return cut_log(lost, reader.cut(at, log, flow.leader_epoch), flow.next_offset, since_ms=now_ms)

    def _wake_retries(self, now: float) -> None:
        for source, flow in self._flows.items():
            if flow.retry_at is not None and now >= flow.retry_at:
                flow.retry_at = None
                self._heard[source.edge] = now  # asked anew
                self._readers[source.edge].resume((source.topic, source.partition), flow.next_offset)

    def _begin(self) -> None:
        if self._open_since is None:
            self._writer.begin()
            self._open_since = self._world.now()

    def _commit_when_due(self, *, busy: bool) -> None:
        now = self._world.now()
        cadence = self._plan.cadence
        if self._open_since is None:
            if cadence.idle_due(since_commit_s=now - self._last_commit):
                self._commit_if_moved()
        elif cadence.due(
            pending_bytes=self._pending_bytes,
            open_s=now - self._open_since,
            drained=not busy,
            behind=self._behind,
            commit_s=self._commit_s,
        ):
            self._commit_if_moved()

    def _commit_if_moved(self) -> None:
        moved = [flow for flow in self._flows.values() if flow.moved]
        if moved:
            self._begin()
            for flow in moved:
                self._write_entry(flow)
            self._commit()
            for flow in moved:
                flow.committed, flow.decisions = flow.entry(), []
            self._transactions += 1
            self._aborts = 0
            self._open_since, self._pending_bytes = None, 0
        self._last_commit = self._world.now()

    def _commit(self) -> None:
        began = self._world.now()
        self._writer.commit()
        took = self._world.now() - began
        self._commit_s = min(took, self._commit_s + (took - self._commit_s) / 4)  # one slow one is soon forgotten

    def _abort(self) -> None:
        """Rule F: abort, rewind the readers to the last committed positions, go on with backoff."""
        self._writer.abort()
        self._aborts += 1
        self._open_since, self._pending_bytes = None, 0
        for flow in self._flows.values():
            flow.rewind()
        self._world.sleep(min(5.0, 0.05 * 2**self._aborts))
        self._assign()

    def _all_drained(self, now: float) -> bool:
        return all(
            flow.drained
            or flow.held is not None
            or (flow.retry_at is None and now - self._heard[source.edge] > self._plan.patience_s)
            for source, flow in self._flows.items()
        )

    def _outcome(self, result: str) -> SlotOutcome:
        self._tell_fields(last=True)
        return SlotOutcome(
            self._plan.slot,
            result,
            tuple(s for s, flow in self._flows.items() if self._plan.drain and not flow.drained and not flow.held),
            tuple(flow.held for flow in self._flows.values() if flow.held),
        )

    def _tell(self, now: float) -> None:
        if now - self._last_told >= _TELL_EVERY_S:
            self._last_told = now
            self._tell_fields()
            self._world.telemetry(
                {
                    "epoch": self._plan.epoch,
                    "slot": self._plan.slot,
                    "transactions": self._transactions,
                    "ages_ms": self._ages_ms,
                    "delivered": sum(flow.committed.delivered for flow in self._flows.values()),
                    "held": {str(at): [f.held.reason, f.held.detail] for at, f in self._flows.items() if f.held},
                    "waiting": {str(at): f.trouble for at, f in self._flows.items() if f.retry_at is not None},
                }
            )

    def _tell_fields(self, *, last: bool = False) -> None:
        for body in self._delivery.news(self._world.now(), last=last):
            self._world.telemetry({"epoch": self._plan.epoch, "slot": self._plan.slot} | body)
