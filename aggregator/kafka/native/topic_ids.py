"""This module asks one broker which topic ids it shows for topic names; the answers arrive later.

Invariant: no caller waits longer for an answer than it says. Every question is answered once, at the latest when its
own time-out is over. The questions have a client of their own, because on a consumer's client they would wait behind
its fetches.
"""

import ctypes
import logging
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from aggregator.kafka.native.library import PRODUCER, Client, milliseconds, rd

_DESCRIBE_TOPICS = 19
_ANY = -1


class TopicIdResult(NamedTuple):
    """A broker's answer for one topic name: the topic's id, or why it shows none.

    Attributes:
        topic_id: As confluent-kafka writes it; empty where there is none.
        code: librdkafka's; 0 with an id.
    """

    topic_id: str
    code: int = 0


class Answer(NamedTuple):
    """The answer to one question, or why there is none.

    Attributes:
        number: Of the question.
        code: 0, or why nobody answered.
        topics: By name; empty where nobody answered.
    """

    number: int
    code: int
    topics: Mapping[str, TopicIdResult]


class TopicIdClient(Client):
    """A client that asks for topic ids; arguments and errors are those of `Client`."""

    kind = PRODUCER

    def __init__(self, options: Mapping[str, Any], log: logging.Logger) -> None:
        super().__init__(options, log)
        self._queue = rd.queue_new(self.handle)

    def ask(self, number: int, topics: Collection[str], broker: int, timeout_s: float) -> None:
        """Ask one broker which ids the topics have.

        Args:
            number: Number above 0 that comes back with the answer.
            topics: Names of the topics.
            broker: The broker's id; below 0: any broker.
            timeout_s: After which the question is answered with an error.
        """
        rd.poll(self.handle, 0)  # takes its log lines
        names = (ctypes.c_char_p * len(topics))(*(name.encode() for name in topics))
        asked, options = (
            rd.TopicCollection_of_topic_names(names, len(topics)),
            rd.AdminOptions_new(self.handle, _DESCRIBE_TOPICS),
        )
        rd.AdminOptions_set_request_timeout(options, milliseconds(timeout_s), None, 0)
        if broker > _ANY:
            rd.AdminOptions_set_broker(options, broker, None, 0)
        rd.AdminOptions_set_opaque(options, number)
        rd.DescribeTopics(self.handle, asked, options, self._queue)
        rd.AdminOptions_destroy(options)
        rd.TopicCollection_destroy(asked)

    def answer(self, timeout_s: float) -> Answer | None:
        """The next answer, after waiting at most `timeout_s` seconds for it."""
        event = rd.queue_poll(self._queue, milliseconds(timeout_s))
        if not event:
            return None
        try:
            number, code = rd.event_opaque(event) or 0, rd.event_error(event)
            return Answer(number, code, {} if code else _shown(rd.event_DescribeTopics_result(event)))
        finally:
            rd.event_destroy(event)

    def _leave(self, handle: int) -> None:
        rd.queue_destroy(self._queue)
        rd.destroy_flags(handle, 0)


def _shown(result: int) -> dict[str, TopicIdResult]:
    count = ctypes.c_size_t()
    listed = rd.DescribeTopics_result_topics(result, count)
    found = {}
    for at in listed[: count.value]:
        code = rd.error_code(rd.TopicDescription_error(at)) if rd.TopicDescription_error(at) else 0
        topic_id = "" if code else rd.Uuid_base64str(rd.TopicDescription_topic_id(at)).decode()
        found[rd.TopicDescription_name(at).decode()] = TopicIdResult(topic_id, code)
    return found
