"""This reader hands over only records of the planned topic, and none of a topic that was recreated under its name.

librdkafka fetches by topic id. After a topic was created again, it silently continues in the new topic at the old
offset. The reader therefore asks the broker that served a poll for the topic's id, and hands the poll over after the
answer. That broker is a reliable witness: it shows a new topic before it serves the topic's first record, and the ids
that one broker shows never go back. Another broker may lag behind it.

Invariant: records that no broker has vouched for are not taken, and are read again later. The slot never waits for an
edge that does not answer.
"""

from collections.abc import Callable, Container, Mapping

from aggregator.coordinates import OffsetRange, Partition
from aggregator.kafka.native.topic_ids import Answer, TopicIdResult
from aggregator.kafka.readers.codes import text_of
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition, TruncationPoint
from aggregator.replicate.slot.ports import Reader, TopicIds

# A poll waits this long for the brokers' answers. A late answer may be an exception, or come from a far edge, where
# waiting would cost the slot's other edges time. After one, no poll waits for a while: at most 2 % of the time is lost.
_NEAR_S = 0.02
_FAR_S = 1.0
# A poll is dropped if its questions have had no answer for this long.
_PATIENCE_S = 3.0


class CheckedReader:
    """Reads one edge and hands over only records whose topic id a broker has confirmed.

    Args:
        reader: Reads.
        ids: Asks the same edge.
        planned: The planned topic's id, by partition; what a topic that was created again has lost belongs to the
            former one.
        now: Seconds on a clock that only goes forward.
    """

    def __init__(
        self, reader: Reader, ids: TopicIds, planned: Callable[[Partition], str | None], *, now: Callable[[], float]
    ) -> None:
        self._reader = reader
        self._ids = ids
        self._planned = planned
        self._now = now
        self._polled: PollResult | None = None  # a poll that was not handed over yet
        self._asked: dict[int, tuple[int, frozenset[str]]] = {}  # broker and topics of open questions
        self._asked_at = 0.0
        self._last = 0
        self._waited = True  # whether this poll waited for its answers
        self._far_until_s = 0.0
        self._doubted: dict[Partition, str] = {}

    def assign(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Read these partitions from there on, and no others; what was not handed over is read again."""
        self._polled, self._asked = None, {}
        self._reader.assign(starts)

    def incremental_assign(self, tp: Partition, start: StartPosition) -> None:
        """Read a released partition, too."""
        self._reader.incremental_assign(tp, start)

    def incremental_unassign(self, tp: Partition) -> None:
        """Stop reading one partition."""
        if self._polled is not None:
            self._polled = _without(self._polled, {tp})
        self._reader.incremental_unassign(tp)

    def poll(self, max_records: int, timeout_s: float) -> PollResult:
        """What was polled and is vouched for by now; nothing new is polled before that."""
        if self._polled is None:
            polled = self._reader.poll(max_records, timeout_s)
            if not polled.served:
                return polled
            self._ask(polled)
            self._waited = self._now() >= self._far_until_s
            timeout_s = _NEAR_S if self._waited else 0.0
        self._hear(timeout_s)
        overdue = self._now() - self._asked_at > _PATIENCE_S
        return self._handed_over() if overdue or not self._asked else PollResult()

    def _ask(self, polled: PollResult) -> None:
        self._polled, self._asked_at, self._doubted = polled, self._now(), {}
        for broker, topics in polled.served.items():
            self._last += 1
            self._asked[self._last] = broker, frozenset(topics)
            self._ids.ask(self._last, topics, broker)

    def _hear(self, timeout_s: float) -> None:
        """Take the answers that come within this time."""
        until = self._now() + timeout_s
        while self._asked:
            answer = self._ids.answer(max(0.0, until - self._now()))
            if answer is None:
                return
            if answer.number in self._asked:
                self._judge(answer, *self._asked.pop(answer.number))
                if self._waited and self._now() - self._asked_at > _NEAR_S:
                    self._far_until_s = self._now() + _FAR_S

    def _judge(self, answer: Answer, broker: int, topics: frozenset[str]) -> None:
        for at in self._polled_of(topics):
            why = self._doubt(answer, broker, at)
            if why:
                self._doubted[at] = why

    def _polled_of(self, topics: frozenset[str]) -> list[Partition]:
        return [at for at in _places(self._polled) if at[0] in topics] if self._polled is not None else []

    def _doubt(self, answer: Answer, broker: int, tp: Partition) -> str:
        """Why a broker's answer does not vouch for what came of a partition, if it does not."""
        topic = tp[0]
        shown = answer.topics.get(topic) or TopicIdResult("", answer.code)
        if shown.topic_id == self._planned(tp):
            return ""
        if shown.topic_id:
            return f"{topic} was created again; the new one begins with the next epoch"
        return f"broker {broker} does not tell the id of {topic}: {text_of(shown.code)}"

    def _handed_over(self) -> PollResult:
        assert self._polled is not None
        for broker, topics in self._asked.values():
            why = f"broker {broker} does not tell the ids of its topics"
            self._doubted |= dict.fromkeys(self._polled_of(topics), why)
        polled, self._polled, self._asked = self._polled, None, {}
        if not self._doubted:
            return polled
        handed = _without(polled, self._doubted.keys())
        handed.faults += [Fault(at, FaultKind.TOPIC_GONE, why) for at, why in sorted(self._doubted.items())]
        return handed

    def log_range(self, tp: Partition) -> OffsetRange:
        """What the reader's `log_range` returns."""
        return self._reader.log_range(tp)

    def leader_epoch(self, tp: Partition) -> int | None:
        """What the reader's `leader_epoch` returns."""
        return self._reader.leader_epoch(tp)

    def readable_from(self, tp: Partition, offset: int) -> int | None:
        """What the reader's `readable_from` returns."""
        return self._reader.readable_from(tp, offset)

    def find_truncation(self, tp: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """What the reader's `find_truncation` returns."""
        return self._reader.find_truncation(tp, log, leader_epoch)

    def close(self) -> None:
        """Close the reader and the client that asks for topic ids."""
        self._ids.close()
        self._reader.close()


def _places(polled: PollResult) -> set[Partition]:
    chunks = {(chunk.topic, chunk.partition) for chunk in polled.chunks}
    return chunks | polled.ends.keys() | {fault.at for fault in polled.faults}


def _without(polled: PollResult, left_out: Container[Partition]) -> PollResult:
    """The result of a poll without some partitions."""
    return PollResult(
        [chunk for chunk in polled.chunks if (chunk.topic, chunk.partition) not in left_out],
        {at: position for at, position in polled.ends.items() if at not in left_out},
        [fault for fault in polled.faults if fault.at not in left_out],
        polled.served,
    )
