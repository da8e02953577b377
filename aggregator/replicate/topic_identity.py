"""A reader that knows whose records it hands over: those of the topic that was planned, and not of another one that was
created under its name since.

librdkafka fetches by topic id, and when a topic was created again it goes on in the new one at the old offset, without
a word. So the broker that served a poll is asked for the topic's id after it. That broker is a witness: it shows a new
topic before it serves the first record of it, and the ids that one broker shows never go back. Another broker may lag
behind it.

A broker that lately answered at once is asked while its records are stripped and produced, and the commit waits for its
answer; without a good one the transaction is aborted. From then on, and of any other broker, a poll is handed over with
the answer.

Invariant: what no broker has vouched for is not committed, and is read again later; nobody waits long for an edge that
does not answer.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import TransactionAborted
from aggregator.kafka.codes import text_of, when_reading
from aggregator.kafka.native.topic_ids import Answer, Shown
from aggregator.kafka.reader_events import Cut, Fault, FaultKind, Polled, Start
from aggregator.replicate.ports import Reader, TopicIds

# Brokers that answer within this are waited for in the same poll; a poll is given up some time after its questions.
_NEAR_S = 0.02
_PATIENCE_S = 3.0
# A commit waits so long: an abort of what the other edges delivered costs more. It happens once in a while at most.
_COMMIT_WAIT_S = 1.0
_CAUTION_S = 60.0


class _Question(NamedTuple):
    """Which broker was asked after a poll, and what of the poll hangs on its answer."""

    broker: int
    at: frozenset[Partition]


class _Questions:
    """Those about one poll or several, and what the answers say against them."""

    def __init__(self) -> None:
        self.open: dict[int, _Question] = {}
        self.doubted: dict[Partition, str] = {}

    def give_up(self) -> None:
        """What has not answered does not vouch."""
        for broker, places in self.open.values():
            self.doubted |= dict.fromkeys(places, f"broker {broker} does not tell the ids of its topics")
        self.open = {}


class CheckedReader:
    """A reader of one edge that hands over what its brokers have vouched for.

    Args:
        reader: Reads.
        ids: Asks the same edge.
        planned: Topic ids by partition; what a topic that was created again has lost belongs to the former one.
        now: Seconds on a clock that only goes forward.
    """

    def __init__(
        self, reader: Reader, ids: TopicIds, planned: Mapping[Partition, str], *, now: Callable[[], float]
    ) -> None:
        self._reader = reader
        self._ids = ids
        self._planned = planned
        self._now = now
        self._held: Polled | None = None  # polled, and not handed over yet
        self._of_held, self._held_at_s = _Questions(), 0.0
        self._of_handed = _Questions()
        self._last = 0
        self._near = True
        self._cautious_until_s = 0.0
        self._vouched: set[tuple[int, Partition]] = set()

    def assign(self, starts: Mapping[Partition, Start]) -> None:
        """Read these partitions from there on, and no others; what is not committed is read again."""
        self._held, self._of_held, self._of_handed = None, _Questions(), _Questions()
        self._reader.assign(starts)

    def start(self, at: Partition, start: Start) -> None:
        """Read a released partition, too."""
        self._reader.start(at, start)

    def release(self, at: Partition) -> None:
        """Stop reading one partition."""
        if self._held is not None:
            self._held = _without(self._held, {at})
        self._reader.release(at)

    def poll(self, most: int, wait_s: float) -> Polled:
        """What was polled; of a broker that is not near, what is vouched for by now, and nothing new before that."""
        if self._held is None:
            polled = self._reader.poll(most, wait_s)
            if not polled.served:
                return polled
            if self._near and not polled.faults and self._now() >= self._cautious_until_s:
                self._ask(polled, self._of_handed)
                self._hear(self._of_handed, 0.0)
                return polled
            self._held, self._held_at_s = polled, self._now()
            self._ask(polled, self._of_held)
            wait_s = _NEAR_S if self._near else 0.0
        self._hear(self._of_held, wait_s)
        waited_s = self._now() - self._held_at_s
        self._near = not self._of_held.open and waited_s <= _NEAR_S
        return Polled() if self._of_held.open and waited_s <= _PATIENCE_S else self._handed_over()

    def vouch(self) -> None:
        """Wait until brokers have vouched for everything that was handed over and is not committed.

        Raises:
            TransactionAborted: one of them shows another topic, or does not answer; nothing of it may be committed.
        """
        began = self._now()
        self._hear(self._of_handed, _COMMIT_WAIT_S)
        self._near = self._near and self._now() - began <= _NEAR_S
        self._of_handed.give_up()
        for why in self._of_handed.doubted.values():
            self._cautious_until_s = self._now() + _CAUTION_S
            raise TransactionAborted(why)

    def _ask(self, polled: Polled, questions: _Questions) -> None:
        places = _places(polled)
        for broker, topics in polled.served.items():
            self._last += 1
            questions.open[self._last] = _Question(broker, frozenset(at for at in places if at[0] in topics))
            self._ids.ask(self._last, topics, broker)

    def _hear(self, questions: _Questions, wait_s: float) -> None:
        """Take answers until these questions have theirs, at most for this time."""
        until = self._now() + wait_s
        while questions.open:
            answer = self._ids.answer(max(0.0, until - self._now()))
            if answer is not None:
                for waiting in (self._of_held, self._of_handed):
                    self._judge(answer, waiting)
            elif self._now() >= until:
                return

    def _judge(self, answer: Answer, questions: _Questions) -> None:
        asked = questions.open.pop(answer.number, None)
        if asked is None:
            return
        for at in asked.at:
            why = self._doubt(answer, asked.broker, at)
            if why:
                questions.doubted[at] = why
            else:
                self._vouched.add((asked.broker, at))

    def _doubt(self, answer: Answer, broker: int, at: Partition) -> str:
        """Why a broker's answer does not vouch for what came of a partition, if it does not."""
        topic = at[0]
        shown = answer.topics.get(topic) or Shown("", answer.code)
        if shown.topic_id == self._planned.get(at):
            return ""
        if shown.topic_id:
            return f"{topic} was created again; the new one begins with the next epoch"
        if (broker, at) in self._vouched and when_reading(shown.code) is FaultKind.TOPIC_GONE:
            return ""  # deleted since, and no other one is there
        return f"broker {broker} does not tell the id of {topic}: {text_of(shown.code)}"

    def _handed_over(self) -> Polled:
        assert self._held is not None
        self._of_held.give_up()
        polled, doubted = self._held, self._of_held.doubted
        self._held, self._of_held = None, _Questions()
        if not doubted:
            return polled
        handed = _without(polled, doubted.keys())
        handed.faults += [Fault(at, FaultKind.TOPIC_GONE, why) for at, why in sorted(doubted.items())]
        return handed

    def log_range(self, at: Partition) -> OffsetRange:
        """As the reader."""
        return self._reader.log_range(at)

    def leader_epoch(self, at: Partition) -> int | None:
        """As the reader."""
        return self._reader.leader_epoch(at)

    def readable_from(self, at: Partition, offset: int) -> int | None:
        """As the reader."""
        return self._reader.readable_from(at, offset)

    def cut(self, at: Partition, log: OffsetRange, leader_epoch: int) -> Cut:
        """As the reader."""
        return self._reader.cut(at, log, leader_epoch)

    def close(self) -> None:
        """Leave."""
        self._ids.close()
        self._reader.close()


def _places(polled: Polled) -> set[Partition]:
    chunks = {(chunk.topic, chunk.partition) for chunk in polled.chunks}
    return chunks | polled.ends.keys() | {fault.at for fault in polled.faults}


def _without(polled: Polled, left_out: Container[Partition]) -> Polled:
    """What is left of a poll."""
    return Polled(
        [chunk for chunk in polled.chunks if (chunk.topic, chunk.partition) not in left_out],
        {at: position for at, position in polled.ends.items() if at not in left_out},
        [fault for fault in polled.faults if fault.at not in left_out],
        polled.served,
    )
