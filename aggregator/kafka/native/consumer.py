"""This consumer returns whole polls as rows of keys and values, instead of one Python object per record.

Invariant: the consumer reads only the partitions that were assigned to it, without a group. Every message that was
taken is given back before its poll ends.
"""

import ctypes
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from aggregator.bytes_column import BytesColumn, Integers, Numbers
from aggregator.header_columns import HeaderTable
from aggregator.kafka.native import rows
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.native.library import (
    COMMITTED,
    CONSUMER,
    Client,
    Message,
    milliseconds,
    raise_for_code,
    raise_for_error,
    rd,
)

_NO_CONSUMER_CLOSE = 0x8
_ADDRESS = ctypes.sizeof(ctypes.c_void_p)


# Topic, partition, offset to read from, and the leader epoch of the record before it, if known.
AssignedPartition = tuple[str, int, int, int | None]


class Event(NamedTuple):
    """An event that came instead of a record; without a topic it concerns a broker. `broker` -1: unknown."""

    code: int
    topic: str | None
    partition: int
    offset: int
    text: str
    broker: int = -1


@dataclass(frozen=True, slots=True)
class NativePoll:
    """The result of one poll: one chunk per partition, and events that came instead of records.

    `served` are the brokers that handed out the records, and the topics of what came from each.
    """

    chunks: list[Chunk]
    events: list[Event]
    served: dict[int, set[str]] = field(default_factory=dict)


class Consumer(Client):
    """A client that reads assigned partitions; arguments and errors are those of `Client`."""

    kind = CONSUMER

    def __init__(self, options: Mapping[str, Any], log: logging.Logger) -> None:
        super().__init__(options, log)
        rd.poll_set_consumer(self.handle)
        self._queue = rd.queue_get_consumer(self.handle)
        self._messages = np.zeros(0, np.int64)
        self._stoppers = [0]  # stoppers that are in the queue

        def polled(
            _handle: int, _error: int, _offsets: int, _opaque: int, stoppers: list[int] = self._stoppers
        ) -> None:
            stoppers[0] -= 1

        self._polled = COMMITTED(polled)

    def assign(self, starts: Iterable[AssignedPartition]) -> None:
        """Read these partitions and no others."""
        with _listed(starts) as listed:
            raise_for_code(rd.assign(self.handle, listed))

    def incremental_assign(self, starts: Iterable[AssignedPartition]) -> None:
        """Read these partitions, too."""
        with _listed(starts) as listed:
            raise_for_error(rd.incremental_assign(self.handle, listed))

    def incremental_unassign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Stop reading these partitions."""
        with _listed((*at, 0, None) for at in partitions) as listed:
            raise_for_error(rd.incremental_unassign(self.handle, listed))

    def watermarks(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """Ask the cluster for the first offset, and for the end that this client can read: its last stable offset.

        Raises:
            KafkaException: no answer.
        """
        low, high = ctypes.c_int64(), ctypes.c_int64()
        asked = (self.handle, topic.encode(), partition, low, high, milliseconds(timeout_s))
        raise_for_code(rd.query_watermark_offsets(*asked))
        return low.value, high.value

    def stop_fetching(self) -> None:
        """Fetch nothing more before the next poll, where `queued.min.messages` is 1; what is on its way still comes.

        A client fetches while its queue is empty, and what it filters out leaves the queue empty. So something is put
        there: the answer to a commit of no offsets, which asks no broker. `rd_kafka_pause_partitions` would forget how
        far was fetched, and read an aborted transaction that takes longer than a pause from its beginning for ever.
        """
        if not self._stoppers[0]:
            self._stoppers[0] += 1
            with _listed(()) as nothing:
                raise_for_code(rd.commit_queue(self.handle, nothing, self._queue, self._polled, None))

    def poll(self, max_records: int, timeout_s: float) -> NativePoll:
        """Take what is there, waiting at most `timeout_s` seconds for the first message."""
        if len(self._messages) < max_records:
            self._messages = np.zeros(max_records, np.int64)
        at = self._messages.ctypes.data
        count = rd.consume_batch_queue(self._queue, 0, at, max_records)
        if not count and timeout_s > 0:
            first = rd.consumer_poll(self.handle, milliseconds(timeout_s))
            if first:
                self._messages[0] = first
                count = 1 + max(0, rd.consume_batch_queue(self._queue, 0, at + _ADDRESS, max_records - 1))
        return self._taken(count) if count > 0 else NativePoll([], [])

    def _taken(self, count: int) -> NativePoll:
        messages = self._messages
        run_of, slots = np.empty(count, np.int64), np.full(1 << (2 * count).bit_length(), -1, np.int64)
        runs = np.empty((count, rows.RUN), np.int64)
        found = rows.count_by_partition(messages, count, run_of, slots, runs.reshape(-1))
        try:
            events = [_event(at) for at in messages[:count][run_of < 0].tolist()]
            return NativePoll(_chunks(messages, count, run_of, runs[:found]), events, _served(runs[:found]))
        finally:
            rows.destroy_messages(messages, count)

    def _leave(self, handle: int) -> None:
        rd.queue_destroy(self._queue)
        rd.consumer_close(handle)
        rd.destroy_flags(handle, _NO_CONSUMER_CLOSE)


@contextmanager
def _listed(starts: Iterable[AssignedPartition]) -> Iterator[int]:
    """A list of partitions in the library's own form, while the block runs."""
    listed: int = rd.topic_partition_list_new(0)  # grows
    try:
        for topic, partition, offset, leader_epoch in starts:
            added = rd.topic_partition_list_add(listed, topic.encode(), partition)
            added.contents.offset = offset
            if leader_epoch is not None:
                rd.topic_partition_set_leader_epoch(added, leader_epoch)
        yield listed
    finally:
        rd.topic_partition_list_destroy(listed)


def _event(at: int) -> Event:
    message = Message.from_address(at)
    topic = rd.topic_name(message.rkt).decode() if message.rkt else None
    text = (rd.message_errstr(at) or b"").decode()
    return Event(message.err, topic, message.partition, message.offset, text, rd.message_broker_id(at))


def _served(runs: Integers) -> dict[int, set[str]]:
    """Brokers of each partition's first and last record: between two polls its leader moves once at most."""
    served: dict[int, set[str]] = {}
    for at, first, last in runs[:, (rows.TOPIC, rows.FIRST, rows.LAST)].tolist():
        topic = rd.topic_name(at).decode()
        for message in (first, last):
            served.setdefault(rd.message_broker_id(message), set()).add(topic)
    return served


def _chunks(messages: Integers, count: int, run_of: Integers, runs: Integers) -> list[Chunk]:
    """The records of a poll: rows for all of them, of which each partition has a part."""
    sizes = runs[:, rows.RECORDS].tolist()
    records = sum(sizes)
    if not records:
        return []
    starts = list(accumulate(sizes, initial=0))
    runs[:, rows.AT] = starts[:-1]
    firsts = [start + number for number, start in enumerate(starts[:-1])]
    cells = [_Row(records, runs, firsts, *words) for words in (_OF_KEYS, _OF_VALUES)]
    timestamps, offsets = np.empty(records, np.int64), np.empty(records, np.int64)
    headers = np.empty(records, np.int64)
    keys, values = cells
    rows.copy_records(
        messages, count, run_of, runs.reshape(-1), *keys.parts, *values.parts, timestamps, offsets, headers
    )
    listed = _headers(headers)
    taken = []
    for number, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        part = slice(start, start + size)
        leader_epoch = rd.message_leader_epoch(int(runs[number, rows.LAST]))
        taken.append(
            Chunk(
                rd.topic_name(int(runs[number, rows.TOPIC])).decode(),
                int(runs[number, rows.PARTITION]),
                keys.cells(firsts[number], part),
                values.cells(firsts[number], part),
                listed[part],
                Numbers(timestamps[part]),
                Numbers(offsets[part]),
                None if leader_epoch < 0 else leader_epoch,
            )
        )
    return taken


_OF_KEYS, _OF_VALUES = (rows.KEY_BYTES, rows.KEYS_AT), (rows.VALUE_BYTES, rows.VALUES_AT)


class _Row:
    """The cells of all runs of a poll, in one piece of memory."""

    def __init__(self, records: int, runs: Integers, firsts: list[int], size: int, at: int) -> None:
        starts = list(accumulate(runs[:, size].tolist(), initial=0))
        self._data = np.empty(max(1, starts[-1]), np.uint8)
        self._ends = np.empty(records + len(runs), np.int64)
        self._nulls = np.empty(records, np.bool_)
        runs[:, at] = self._ends[firsts] = starts[:-1]

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """The arrays for data, ends and nulls that `rows.copy_records` fills."""
        return self._data, self._ends, self._nulls

    def cells(self, first: int, part: slice) -> BytesColumn:
        """The cells of consecutive records as a column."""
        nulls = self._nulls[part]
        return BytesColumn(self._data, self._ends[first : first + len(nulls) + 1], nulls if nulls.any() else None)


def _headers(addresses: Integers) -> HeaderTable:
    if not addresses.any():
        return HeaderTable.empty(len(addresses))
    ends = np.zeros(len(addresses) + 1, np.int64)
    values = np.empty(max(1, rows.measure_headers(addresses, ends)), np.uint8)
    count = int(ends[-1])
    slots, names, codes = np.full(1 << (2 * count).bit_length(), -1, np.int64), *np.empty((2, count), np.int64)
    value_ends, nulls = np.zeros(count + 1, np.int64), np.empty(count, np.bool_)
    found = rows.take_headers(addresses, ends, slots, names, codes, values, value_ends, nulls)
    texts = [ctypes.string_at(at).decode(errors="replace") for at in names[:found].tolist()]
    return HeaderTable(texts, ends, codes, BytesColumn(values, value_ends, nulls if nulls.any() else None))
