"""The partition guard stops a slot from writing to a central partition while an earlier transaction of the slot may be
undecided there.

Invariant (protocol, rule B's last sentence, within an epoch): a marker decides everything that is open under its
transactional id in its partition. Kafka 4.3.1 drops a marker if its partition has no leader at that moment
(KAFKA-20734). After a dropped commit marker, an abort would lose records. After a dropped abort marker, a commit would
duplicate them. The slot therefore writes to a partition only after its last stable offset has reached the end that it
had when the previous transaction was over. A deposed leader may not know that it was deposed, and then reports an older
end. An end below an offset that was acknowledged to this producer does not count as an answer. A partition that does
not answer does not delay the others. If central refuses the topic for good, that is remembered like a refused record.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Protocol

from aggregator.backoff import Backoff
from aggregator.coordinates import OffsetRange, Partition
from aggregator.kafka.writers.refusals import Refusal
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.refused_topics import RefusedTopics

# A marker arrives a few milliseconds after its commit's answer. Another slot in a merged topic commits once a second.
_PATIENCE_S = 1.0
_STEPS = Backoff(first_s=0.002, most_s=0.05, growth=1.25)
_AGAIN_S, _MAX_AGAIN_S = 0.25, 10.0
_REST = 10
# After this time a slot with a closed partition asks for a new epoch, because opening an epoch settles the partition.
STUCK_S = 5.0
# A deposed leader usually learns of it sooner. After this time the topic was probably created again.
BEHIND_S = 15.0


class Ends(Protocol):
    """The interface to central that the gate needs."""

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """The range from the last stable offset to the high watermark, by partition that answers at once."""

    def refresh_leaders(self) -> None:
        """Refresh the leaders, after a deposed leader has answered."""

    def unwritable(self, partitions: Collection[Partition]) -> Collection[Refusal]:
        """What central would refuse for good of records for these partitions, by what it says of their topics."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def partition_count(self, topic: str) -> int:
        """Partitions of a topic of central."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class PartitionGuard:
    """Keeps one producer of a slot from partitions in which a transaction may be undecided.

    Args:
        ports: Whom to ask.
        plan: Of the slot.
        refused: Keeps what central refuses for good.
        acknowledged: An offset that the producer's newest records got in a partition, if a broker told one.
    """

    def __init__(
        self, ports: Ends, plan: SlotPlan, refused: RefusedTopics, acknowledged: Callable[[Partition], int | None]
    ) -> None:
        self._ports = ports
        self._refused = refused
        self._acknowledged = acknowledged
        letters = plan.terms.dead_letters if plan.terms else plan.names.dead_letters
        # A slot's decision moves its flow when an epoch opens. So it must be settled like the ledger record beside it.
        self._always = [(plan.names.ledger, plan.slot), (plan.names.requests, 0), *self._each(letters, -1)]
        self._open: set[Partition] = set()
        self._ends: dict[Partition, int | None] = {}  # partitions that may be undecided, with the end to be reached
        self._closed: dict[Partition, float] = {}  # of those, the ones that are closed, and since when
        self._silent: set[Partition] = set()  # of those, the ones without an answer to the last question
        self._behind: set[Partition] = set()  # of those, the ones whose end lacks acknowledged records
        self._again_at = 0.0

    def transaction_ended(self, touched: Iterable[Partition]) -> None:
        """A transaction that wrote there was committed or aborted; its markers may still come, or never."""
        for topic, partition in touched:
            for place in self._each(topic, partition):
                self._open.discard(place)
                self._ends[place] = None

    def await_open(self, flows: Iterable[FlowPlan]) -> str:
        """Why these flows may not write now, or an empty text. Waits for new answers, `_PATIENCE_S` at most.

        Args:
            flows: Without any, only the ledger, the requests and the dead letters are asked about.
        """
        asked = list(self._always)
        for flow in flows:
            asked += self._each(flow.central_topic, flow.central_partition)
        for place in asked:
            if place not in self._open:
                self._ends.setdefault(place, None)
        if self._ends:
            self._ask()
        closed = next((place for place in asked if place in self._ends), None)
        return "" if closed is None else self._why(closed)

    def _why(self, closed: Partition) -> str:
        refused = self._refused.active_refusal(closed[0], self._ports.now())
        if refused is not None:
            return refused.detail
        if closed in self._silent:
            why = "does not answer: is it there, has it a leader?"
        elif closed in self._behind:
            why = "lacks records that it had acknowledged: was its topic made anew, or its leader deposed?"
        else:
            why = "holds an undecided transaction"
        return f"{closed[0]}-{closed[1]} at central {why}"

    def _each(self, topic: str, partition: int) -> list[Partition]:
        """The partition, or all of a topic whose partitioner chooses."""
        return [(topic, one) for one in ([partition] if partition >= 0 else range(self._ports.partition_count(topic)))]

    def undecided(self) -> tuple[Partition, ...]:
        """Partitions in which something may be undecided now that the slot writes no more; they are asked once more."""
        if self._ends:
            self._ask()
        return tuple(sorted(self._ends))

    def is_stuck(self) -> bool:
        """Whether a partition has stayed closed for so long that only another epoch helps."""
        if self._is_overdue():
            self._ask()  # no flow may have asked about it since
        return self._is_overdue()

    def _is_overdue(self) -> bool:
        """Judge only partitions that answer; one without a leader does not end the epoch."""
        now = self._ports.now()
        return any(
            now - since > (BEHIND_S if place in self._behind else STUCK_S)
            for place, since in self._closed.items()
            if place not in self._silent
        )

    def _ask(self) -> None:
        fresh = self._ends.keys() - self._closed.keys()
        if fresh:
            self._wait_for(sorted(fresh))
        elif self._ports.now() >= self._again_at:
            self._look_again()

    def _wait_for(self, left: list[Partition]) -> None:
        """Ask about these, and nothing that is closed, until they are open or patience is over."""
        deadline = self._ports.now() + _PATIENCE_S
        for looks in count(1):
            self._look(left)
            left = [place for place in left if place in self._ends]
            if not left or self._ports.now() >= deadline:
                break
            self._ports.sleep(_STEPS.pause_s(looks))
        if left:
            self._close()

    def _look_again(self) -> None:
        """Ask about what is closed; what is known to be refused has a time of its own."""
        began = self._ports.now()
        self._look([place for place in self._closed if self._refused.active_refusal(place[0], began) is None])
        self._close()
        # Asking a partition without a leader takes a second. Most of the time must be left for the other partitions.
        took_s = self._ports.now() - began
        self._again_at = self._ports.now() + min(_MAX_AGAIN_S, max(_AGAIN_S, _REST * took_s))

    def _close(self) -> None:
        """Mark the partitions that did not open in time as closed. For those without an answer, ask central whether it
        refuses their topics.
        """
        now = self._ports.now()
        self._closed = {place: self._closed.get(place, now) for place in self._ends}
        self._silent &= self._closed.keys()
        self._behind &= self._closed.keys()
        if unexplained := [
            place for place in sorted(self._silent) if self._refused.active_refusal(place[0], now) is None
        ]:
            self._refused.hold(self._ports.unwritable(unexplained), now)

    def _look(self, partitions: Collection[Partition]) -> None:
        undecided = self._ports.read_undecided(partitions)
        found = {place: offsets for place, offsets in undecided.items() if self._has_ours(place, offsets.end)}
        if len(found) < len(undecided):
            self._ports.refresh_leaders()
        self._silent = (self._silent | set(partitions)) - undecided.keys()
        self._behind = (self._behind - set(partitions)) | (undecided.keys() - found.keys())
        for place, (stable, end) in found.items():
            target = self._ends[place]
            self._ends[place] = target = end if target is None else target
            if stable >= target:
                del self._ends[place]
                self._open.add(place)

    def _has_ours(self, place: Partition, end: int) -> bool:
        """Whether an end lies behind what was acknowledged; then it counts, however old it is.

        A last stable offset behind one record of a transaction says that the transaction is decided there.
        """
        offset = self._acknowledged(place)
        return offset is None or offset < end
