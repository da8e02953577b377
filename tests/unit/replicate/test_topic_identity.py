"""What a poll is worth before its brokers have said which topics they have: what nobody vouched for is not taken."""

import pytest
from confluent_kafka import KafkaError

from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.native.topic_ids import Answer, TopicIdResult
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition
from aggregator.replicate.slot.topic_identity import CheckedReader

GONE, SILENT = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT
PLANNED = {("orders", 0): "id-1", ("orders", 1): "id-1", ("orders", 2): "id-0", ("beats", 0): "id-2"}


def chunk(topic: str, partition: int = 0) -> Chunk:
    return Chunk(topic, partition, [None], [b"v"], [None], [0], [0])


class Edge:
    """A reader and a client that asks, both of one edge; answers come when they are given."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.polls, self.asked, self.answers = [], [], []
        self.assigned = self.closed = 0

    def poll(self, _most, _wait_s):
        return self.polls.pop(0) if self.polls else PollResult()

    def assign(self, _starts):
        self.assigned += 1

    def incremental_assign(self, *_):
        """Nothing is prefetched here."""

    incremental_unassign = incremental_assign

    def ask(self, number, topics, broker):
        self.asked.append((number, broker, set(topics)))

    def answer(self, wait_s):
        if self.answers:
            return self.answers.pop(0)
        self.time_s += wait_s
        return None

    def close(self):
        self.closed += 1


@pytest.fixture
def edge():
    return Edge()


@pytest.fixture
def reader(edge):
    return CheckedReader(edge, edge, PLANNED.get, now=lambda: edge.time_s)


def told(number: int = 1, **ids: str) -> Answer:
    return Answer(number, 0, {topic: TopicIdResult(topic_id) for topic, topic_id in ids.items()})


def test_a_poll_waits_for_the_broker_that_served_it(edge, reader):
    """It is asked after the poll, and nothing new is polled before it has answered."""
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}}), PollResult([chunk("orders", 1)], served={})]
    assert reader.poll(10, 0.0) == PollResult()
    assert edge.asked == [(1, 4, {"orders"})]
    assert reader.poll(10, 0.0) == PollResult()
    edge.answers = [told(orders="id-1")]
    assert [one.partition for one in reader.poll(10, 0.0).chunks] == [0]
    assert [one.partition for one in reader.poll(10, 0.0).chunks] == [1], "nothing was served: nobody is asked"


def test_an_answer_that_is_near_is_waited_for(edge, reader):
    """Within the same poll; of a broker that answers late, with a later one, and nobody waits again for a second."""
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}}) for _ in range(4)]
    edge.answers = [told(1, orders="id-1")]
    assert reader.poll(10, 0.0).chunks
    assert not reader.poll(10, 0.0).chunks
    assert edge.time_s == pytest.approx(0.02)
    edge.time_s, edge.answers = 0.1, [told(2, orders="id-1")]
    assert reader.poll(10, 0.0).chunks
    assert not reader.poll(10, 0.0).chunks
    assert edge.time_s == 0.1
    edge.time_s, edge.answers = 1.1, [told(3, orders="id-1")]
    assert reader.poll(10, 0.0).chunks, "late as well, but it was not waited for"
    assert not reader.poll(10, 0.0).chunks
    assert edge.time_s == pytest.approx(1.12)


def test_nothing_of_another_topic_is_taken(edge, reader):
    """The other topics of the poll are; the partitions of that one cannot be read on, by name."""
    polled = PollResult([chunk("orders"), chunk("beats")], {("orders", 1): 5}, served={4: {"orders", "beats"}})
    polled.faults.append(Fault(("orders", 2), FaultKind.POSITION_LOST, "lost"))
    edge.polls, edge.answers = [polled], [told(orders="id-9", beats="id-2")]
    handed = reader.poll(10, 0.0)
    assert ([one.topic for one in handed.chunks], handed.ends) == (["beats"], {})
    assert [(fault.at, fault.kind) for fault in handed.faults] == [
        (("orders", partition), FaultKind.TOPIC_GONE) for partition in range(3)
    ]
    assert all("created again" in fault.detail for fault in handed.faults)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_polled_of_a_topic_that_is_deleted_since(edge, reader, known):
    """It is not taken, whatever the broker had shown before: another one may have been there in between."""
    if known:
        edge.polls, edge.answers = [PollResult([chunk("orders")], served={4: {"orders"}})], [told(orders="id-1")]
        reader.poll(10, 0.0)
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}})]
    edge.answers = [Answer(2 if known else 1, 0, {"orders": TopicIdResult("", GONE)})]
    handed = reader.poll(10, 0.0)
    assert (handed.chunks, [fault.kind for fault in handed.faults]) == ([], [FaultKind.TOPIC_GONE])


def test_every_broker_that_served_is_asked(edge, reader):
    """A leader moved within the poll: one word is not enough, and one that fails spoils it."""
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}, 5: {"orders"}})]
    edge.answers = [told(1, orders="id-1")]
    assert reader.poll(10, 0.0) == PollResult()
    edge.answers = [Answer(2, SILENT, {})]
    (fault,) = reader.poll(10, 0.0).faults
    assert "broker 5 does not tell" in fault.detail


def test_an_edge_that_does_not_answer_is_given_up(edge, reader):
    """What it served is read again later; a late answer changes nothing."""
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}})]
    assert reader.poll(10, 0.0) == PollResult()
    edge.time_s += 3.1
    handed = reader.poll(10, 0.0)
    assert (handed.chunks, [fault.kind for fault in handed.faults]) == ([], [FaultKind.TOPIC_GONE])
    edge.polls, edge.answers = [PollResult([chunk("beats")], served={4: {"beats"}})], [told(1, orders="id-1")]
    assert reader.poll(10, 0.0) == PollResult(), "the answer was another question's"


def test_what_is_released_or_assigned_anew_is_not_handed_over(edge, reader):
    """It is read again from where its flow stands."""
    edge.polls = [PollResult([chunk("orders"), chunk("beats")], served={4: {"orders", "beats"}})]
    reader.poll(10, 0.0)
    reader.incremental_unassign(("orders", 0))
    edge.answers = [told(orders="id-1", beats="id-2")]
    assert [one.topic for one in reader.poll(10, 0.0).chunks] == ["beats"]
    edge.polls = [PollResult([chunk("orders")], served={4: {"orders"}})]
    reader.poll(10, 0.0)
    reader.assign({("orders", 0): StartPosition(0)})
    edge.answers = [told(2, orders="id-1")]
    assert reader.poll(10, 0.0) == PollResult()
    reader.close()
    assert (edge.assigned, edge.closed) == (1, 2)


def test_a_partition_that_a_new_topic_lacks_is_the_former_ones(edge, reader):
    """Its flow is planned under the former topic's id, and holds up none of those that the new one has."""
    edge.polls = [PollResult([chunk("orders"), chunk("orders", 2)], served={4: {"orders"}})]
    edge.answers = [told(orders="id-1")]
    handed = reader.poll(10, 0.0)
    assert [one.partition for one in handed.chunks] == [0]
    assert [fault.at for fault in handed.faults] == [("orders", 2)]
