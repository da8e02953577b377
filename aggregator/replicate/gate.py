"""The gate in front of central's partitions: a slot writes where it knows that everything of its own is decided.

Invariant (protocol, rule B's last sentence, within an epoch): a marker decides all that is open of its id in its
partition. Kafka 4.3.1 drops a marker whose partition has no leader at that moment (KAFKA-20734); behind such a commit
an abort loses records, behind such an abort a commit doubles them. So nothing is written to a partition before its last
stable offset has reached the end that it had when the transaction before was over.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from aggregator.coordinates import OffsetRange
from aggregator.kafka.ends import Partition
from aggregator.replicate.flow import FlowPlan
from aggregator.replicate.slot_plan import SlotPlan

# A marker comes a few milliseconds after its commit's answer; a neighbour in a merged topic commits once a second.
_PATIENCE_S = 1.0
_STEP_S = 0.002
_AGAIN_S = 0.25
_REST = 10
# So long a partition stays closed before its slot asks for another epoch, whose opening settles it.
STUCK_S = 5.0


class Ends(Protocol):
    """What the gate asks of the world."""

    def undecided(self, places: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """From the last stable offset to the high watermark of each partition that answers."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def partitions(self, topic: str) -> int:
        """Partitions of a topic of central."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Gate:
    """What one life of a slot's producer knows of the partitions that it writes."""

    def __init__(self, world: Ends, plan: SlotPlan) -> None:
        self._world = world
        self._requests = plan.names.requests
        letters = plan.terms.dead_letters if plan.terms else plan.names.dead_letters
        self._always = [(plan.names.ledger, plan.slot), *self._each(letters, -1)]
        self._open: set[Partition] = set()
        self._ends: dict[Partition, int | None] = {}  # what may hold something undecided, and the end to be reached
        self._closed: dict[Partition, float] = {}  # of those, where patience is over, and since when
        self._again_at = 0.0

    def over(self, touched: Iterable[Partition]) -> None:
        """A transaction that wrote there was committed or aborted; its markers may still come, or never."""
        for topic, partition in touched:
            if topic != self._requests:  # no record's delivery rests on what lies there
                for place in self._each(topic, partition):
                    self._open.discard(place)
                    self._ends[place] = None

    def closed(self, flows: Iterable[FlowPlan]) -> str:
        """Why these flows may not write now, or nothing. What was not asked about yet is waited for a moment.

        Args:
            flows: None: whether the ledger and the dead letters may be written.
        """
        asked = list(self._always)
        for flow in flows:
            asked += self._each(flow.central, -1 if flow.by_key else flow.source.partition)
        for place in asked:
            if place not in self._open:
                self._ends.setdefault(place, None)
        if self._ends:
            self._ask()
        closed = next((place for place in asked if place in self._ends), None)
        if closed is None:
            return ""
        silent = self._ends[closed] is None
        why = "does not answer: is it there, has it a leader?" if silent else "holds an undecided transaction"
        return f"{closed[0]}-{closed[1]} at central {why}"

    def _each(self, topic: str, partition: int) -> list[Partition]:
        """The partition, or all of a topic whose partitioner chooses."""
        return [(topic, one) for one in ([partition] if partition >= 0 else range(self._world.partitions(topic)))]

    @property
    def given_up(self) -> tuple[Partition, ...]:
        """Partitions that are closed beyond patience."""
        return tuple(sorted(self._closed))

    def stuck(self) -> bool:
        """Whether a partition has stayed closed for so long that only another epoch helps."""
        if self._is_overdue():
            self._ask()  # nobody may have wanted to write there since
        return self._is_overdue()

    def _is_overdue(self) -> bool:
        """Of those that answer; one without a leader is no matter of an epoch."""
        since = [since for place, since in self._closed.items() if self._ends[place] is not None]
        return bool(since) and self._world.now() - min(since) > STUCK_S

    def _ask(self) -> None:
        began = self._world.now()
        fresh = self._ends.keys() - self._closed.keys()
        if not fresh and began < self._again_at:
            return
        while True:
            self._look()
            if not fresh & self._ends.keys() or self._world.now() - began >= _PATIENCE_S:
                break
            self._world.sleep(_STEP_S)
        ended = self._world.now()
        # A partition without a leader takes a second of asking: most of the time is for those that have one.
        self._again_at = ended + (_AGAIN_S if fresh else max(_AGAIN_S, _REST * (ended - began)))
        self._closed = {place: self._closed.get(place, ended) for place in self._ends}

    def _look(self) -> None:
        for place, (stable, end) in self._world.undecided(list(self._ends)).items():
            target = self._ends[place]
            self._ends[place] = target = end if target is None else target
            if stable >= target:
                del self._ends[place]
                self._open.add(place)
