"""What a slot remembers of what central refused."""

from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.writers.refusals import Refusal
from aggregator.replicate.slot.refused_topics import RefusedTopics

GONE = Refusal("eu.orders", 2, RefusalKind.TOPIC_GONE, "Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART)")


def test_a_refusal_holds_its_own_topic_with_place_code_and_next_step():
    """Every other topic goes on; the sentence names what an operator needs."""
    refused = RefusedTopics()
    refused.record_abort("the client's words", [GONE], 100.0)
    topic = refused.active_refusal("eu.orders", 100.0)
    assert topic is not None
    assert "eu.orders partition 2: Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART)" in topic.detail
    assert "next: create it again" in topic.detail
    assert refused.active_refusal("us.orders", 100.0) is None
    assert (refused.aborts, refused.why) == (1, str(GONE))


def test_what_may_go_well_the_next_time_holds_nothing_and_is_counted():
    """A leader that moved aborts a transaction, and that is all."""
    refused = RefusedTopics()
    refused.record_abort("Broker: Not enough in-sync replicas", [], 100.0)
    assert list(refused) == []
    assert (refused.aborts, refused.why) == (1, "Broker: Not enough in-sync replicas")


def test_a_held_topic_is_tried_again_ever_more_rarely_until_it_takes_something():
    """Each try in vain costs the slot a transaction; the first success forgets the pauses."""
    refused, now_s, pauses = RefusedTopics(), 0.0, []
    for _ in range(7):
        refused.record_abort("", [GONE], now_s)
        topic = refused.active_refusal("eu.orders", now_s)
        pauses.append(topic.pause_s)
        assert refused.active_refusal("eu.orders", topic.retry_at_s - 0.1) is not None
        now_s = topic.retry_at_s
        assert refused.active_refusal("eu.orders", now_s) is None
    assert pauses == [15.0, 30.0, 60.0, 120.0, 240.0, 240.0, 240.0]
    refused.clear(["eu.orders"])
    refused.record_abort("", [GONE], now_s)
    assert refused.active_refusal("eu.orders", now_s).pause_s == 15.0


def test_a_second_partition_of_the_same_transaction_does_not_lengthen_the_pause():
    """Many batches fail at once."""
    refused = RefusedTopics()
    refused.record_abort("", [GONE, GONE._replace(partition=1)], 0.0)
    assert refused.active_refusal("eu.orders", 0.0).pause_s == 15.0
