"""This module remembers which central topics refuse records, why, and when the flows into them are tried again.

Invariant: pure. Only flows into the topics that central named are held; all other flows of the slot continue. The
object outlives the producer whose transaction failed. Otherwise the refusal would be forgotten, and the next
transaction would abort as well.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from aggregator.backoff import Backoff
from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.writers.refusals import Refusal

_PAUSES = Backoff(first_s=0.1, most_s=5.0)
# A failed try costs the slot a transaction.
_RESTS = Backoff(first_s=15.0, most_s=240.0)
_LIMITED = frozenset({RefusalKind.TOO_LARGE, RefusalKind.TIMESTAMP, RefusalKind.INVALID})
_NEXT = {
    RefusalKind.TOPIC_GONE: "create it again, or start the hub again, which does; what it held, a backfill reads again",
    RefusalKind.DENIED: "give the hub's principal Write and Describe on it",
    RefusalKind.TOO_LARGE: "raise its `max.message.bytes`, and look at its brokers' `message.max.bytes`",
    RefusalKind.TIMESTAMP: "raise its `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`;"
    " before Kafka 3.6 `message.timestamp.difference.max.ms`",
    RefusalKind.INVALID: "the broker's log says what it lacks; see its `cleanup.policy`",
    RefusalKind.SETTING: "mend the topic's settings",
}


class RefusedTopic(NamedTuple):
    """A topic that refuses all records for now.

    Attributes:
        detail: Topic, partition, code in words, and the next step.
        kind: Kind of the refusal.
        retry_at_s: Time at which its flows are tried again.
        pause_s: Pause between the refusal and that time.
        failures: How often in a row it was refused, and tried again.
    """

    detail: str
    kind: RefusalKind
    retry_at_s: float
    pause_s: float
    failures: int


class RefusedTopics:
    """Remembers what central has refused to one slot.

    Attributes:
        aborts: Number of transactions that failed.
        why: Reason why the last of them failed.
    """

    def __init__(self) -> None:
        self.aborts = 0
        self.why = ""
        self._topics: dict[str, RefusedTopic] = {}
        self._in_a_row = 0

    def record_abort(self, why: str, refusals: Collection[Refusal], now_s: float) -> None:
        """Note that a transaction failed.

        Args:
            why: What its producer said.
            refusals: What central refused for good.
            now_s: Seconds on a clock that only goes forward.
        """
        self.aborts += 1
        self._in_a_row += 1
        self.why = "; ".join(map(str, refusals)) or why
        self.hold(refusals, now_s)

    def hold(self, refusals: Iterable[Refusal], now_s: float) -> None:
        """Hold the topics that central refuses permanently, because it refused a record or because the topic's
        description says that it would.

        Args:
            refusals: What it refuses.
            now_s: Seconds on a clock that only goes forward.
        """
        for one in refusals:
            known = self._topics.get(one.topic)
            failures = known.failures + 1 if known is not None and now_s >= known.retry_at_s else 1
            pause_s = _RESTS.pause_s(failures)
            detail = f"central refuses {one}; it is tried again now and then\n  next: {_NEXT[one.kind]}"
            self._topics[one.topic] = RefusedTopic(detail, one.kind, now_s + pause_s, pause_s, failures)

    def active_refusal(self, topic: str, now_s: float) -> RefusedTopic | None:
        """The refusal that holds flows into this topic now; None if there is none."""
        known = self._topics.get(topic)
        return None if known is None or now_s >= known.retry_at_s else known

    def is_about_limits(self, topic: str) -> bool:
        """Whether a topic refused what its settings limit."""
        return topic in self._topics and self._topics[topic].kind in _LIMITED

    def clear(self, topics: Iterable[str]) -> None:
        """Central has taken a transaction with records of these topics."""
        self._in_a_row = 0
        if self._topics:
            for topic in topics:
                self._topics.pop(topic, None)

    @property
    def pause_s(self) -> float:
        """How long to wait before the next transaction, after several failures in a row."""
        return _PAUSES.pause_s(self._in_a_row)

    def __iter__(self) -> Iterator[str]:
        """Topics that were refused and have taken nothing since."""
        return iter(self._topics)
