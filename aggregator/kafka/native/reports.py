"""This module reads delivery reports: which batches were written and where, and which were not and with what code.

Invariant: no content of a record comes out. The library is also not asked for its text about a failed record, because
without a text it returns the record's value. If a broker refused one record of a batch, the library does not say which.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from aggregator.kafka.native.library import EventType, Message, rd


class Acknowledged(NamedTuple):
    """One batch that was written.

    Attributes:
        topic: Topic of the batch.
        partition: The one that was chosen.
        offset: Offset of its first record.
    """

    topic: str
    partition: int
    offset: int


class Failure(NamedTuple):
    """One batch of which nothing was written.

    Attributes:
        topic: Topic of the batch.
        partition: -1 where none was chosen yet.
        code: Error code.
    """

    topic: str
    partition: int
    code: int


def reports(queue: int, wait_ms: int, other: Callable[[int], None]) -> Iterator[Acknowledged | Failure]:
    """What became of batches since the last call.

    A batch that had been written before it was sent once more has no offset to tell, and is left out.

    Args:
        queue: The client's main queue.
        wait_ms: How long to wait for the first.
        other: Takes the events that are no reports.
    """
    while event := rd.queue_poll(queue, wait_ms):
        wait_ms = 0
        if rd.event_type(event) != EventType.DELIVERY:
            other(event)
        elif at := rd.event_message_next(event):
            message, code = Message.from_address(at), rd.event_error(event)
            topic, partition = rd.topic_name(message.rkt).decode(), message.partition
            if code:
                yield Failure(topic, partition, code)
            elif message.offset >= 0:
                yield Acknowledged(topic, partition, message.offset)
        rd.event_destroy(event)
