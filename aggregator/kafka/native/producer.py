"""This is a transactional producer that takes whole batches.

Invariant: a record was queued, or the call of its batch says that it was not. Nothing is queued twice. A record that
was not delivered makes the commit fail. It is kept with its code until somebody asks for it or the next transaction
begins. Of the delivered records, one offset is kept for each partition, so a report costs once per batch.
"""

import ctypes
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from aggregator.bytes_column import BytesColumn, Integers
from aggregator.coordinates import Partition
from aggregator.header_columns import Headers, HeaderTable
from aggregator.kafka.native.library import (
    AS_KEY,
    AS_VALUE,
    COPY,
    PARTS,
    PRODUCER,
    UNION,
    Client,
    EventType,
    milliseconds,
    raise_for_error,
    rd,
)
from aggregator.kafka.native.reports import Acknowledged, Failure, reports
from aggregator.kafka.native.sign_in import AUTHENTICATION_CODES
from aggregator.threads import run_in_thread

_FULL_WAIT_S = 0.05
# A flush does not take the reports that wait in the queue, and their records still count as in flight.
_FLUSH_MS = 1
_REPORT_S = 0.004
# An abort that librdkafka has done and not noted needs no answer of a broker.
_NOTE_S = 5.0
_NO_FLAGS = np.zeros(0, np.bool_)
_NO_NUMBERS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(1, np.uint8)


@dataclass(frozen=True, slots=True)
class OutgoingRecords:
    """Records of one topic, as columns of equal length.

    Attributes:
        keys: Record keys.
        values: Record values; None is a tombstone.
        timestamps_ms: Since 1970; 0 means now.
        headers: Each record's own.
        stamps: Headers that every record gets behind its own: name and a cell for each.
        left_out: Places of records that are not to be written.
    """

    keys: BytesColumn
    values: BytesColumn
    timestamps_ms: Sequence[int]
    headers: HeaderTable
    stamps: Sequence[tuple[str, BytesColumn]] = ()
    left_out: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None, int, Headers]]:
        """Key, value, timestamp and headers of each record that is written."""
        stamped = [[(name, cell) for cell in cells] for name, cells in self.stamps]
        columns = zip(self.keys, self.values, self.timestamps_ms, self.headers, *stamped, strict=True)
        for place, (key, value, timestamp_ms, own, *stamps) in enumerate(columns):
            if place not in self.left_out:
                yield key, value, timestamp_ms, [*own, *stamps]

    @property
    def indexes(self) -> Integers:
        """The places of the records that are written."""
        indexes = np.arange(len(self.values))
        return np.delete(indexes, list(self.left_out)) if self.left_out else indexes


class Producer(Client):
    """A client that writes in transactions; arguments and errors are those of `Client`."""

    kind = PRODUCER
    # Events are delivery reports, one for each batch, and errors, which say why no broker lets the client in.
    events = EventType.DELIVERY | EventType.ERROR

    def __init__(self, options: Mapping[str, Any], log: logging.Logger) -> None:
        super().__init__(options, log)
        self._queue = rd.queue_get_main(self.handle)
        self._topics: dict[str, int] = {}
        self._failed: list[Failure] = []
        self._aborted = False  # the latest transaction
        self.acknowledged: dict[Partition, int] = {}  # the greatest first offset of the written batches
        self.authentication_error = ""  # the last reason why no broker let the client in

    def init_transactions(self, timeout_s: float) -> None:
        """Initialise the producer's transactions, which fences earlier users of its transactional id.

        Raises:
            KafkaException: refused, or no answer.
        """
        raise_for_error(rd.init_transactions(self.handle, milliseconds(timeout_s)))

    def sign_in_as(self, user: str, password: str) -> None:
        """Use this password for connections that are opened from now on.

        Raises:
            KafkaException: the client does not sign in by a password.
        """
        raise_for_error(rd.sasl_set_credentials(self.handle, user.encode(), password.encode()))

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaException: the client is in no state for it.
        """
        try:
            raise_for_error(rd.begin_transaction(self.handle))
        except KafkaException as failure:
            if not (self._aborted and _is_of_state(failure)):
                raise
            self._abort(_NOTE_S)
            raise_for_error(rd.begin_transaction(self.handle))
        self._aborted = False
        self._failed.clear()

    def commit_transaction(self, timeout_s: float) -> None:
        """Flush the queued records and commit the transaction.

        Raises:
            KafkaException: refused, or no answer.
        """
        deadline = time.monotonic() + timeout_s
        self.flush(timeout_s)
        raise_for_error(rd.commit_transaction(self.handle, milliseconds(max(0.0, deadline - time.monotonic()))))

    def flush(self, timeout_s: float) -> None:
        """Wait until everything was written or has failed, for at most so long."""
        deadline = time.monotonic() + timeout_s
        while rd.outq_len(self.handle) and time.monotonic() < deadline:
            rd.flush(self.handle, _FLUSH_MS)  # sends lingering records at once
            self.poll(_REPORT_S)

    def abort_transaction(self, timeout_s: float) -> None:
        """Abort the transaction, waiting until its queued records are reported.

        librdkafka sends itself each step of an abort, and takes whatever answer comes as that of its newest step. If
        a new producer epoch is assigned meanwhile, or a call ended before its step was done, an answer stands for the
        next step. Then the call fails, or it succeeds without the last step, which `begin_transaction` needs.

        Raises:
            KafkaException: refused, or no answer.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._abort(timeout_s)
        except KafkaException as failure:
            if not _is_of_state(failure):
                raise
            self._abort(max(0.0, deadline - time.monotonic()))
        self._aborted = True

    def _abort(self, timeout_s: float) -> None:
        """Abort in one call, for a call that is continued by another makes more steps; only a poll takes reports."""
        call = run_in_thread(lambda: rd.abort_transaction(self.handle, milliseconds(timeout_s)), "abort")
        while not call.done():
            self.poll(_REPORT_S)
        raise_for_error(call.result())

    def poll(self, timeout_s: float) -> None:
        """Take lines, statistics and reports, waiting for at most so long."""
        for report in reports(self._queue, milliseconds(timeout_s), self.heard):
            if isinstance(report, Acknowledged):
                at = (report.topic, report.partition)
                self.acknowledged[at] = max(report.offset, self.acknowledged.get(at, -1))
            else:
                self._failed.append(report)

    def heard(self, event: int) -> None:
        """Keep why no broker lets the client in; any other event is one of `Client`'s."""
        if rd.event_type(event) == EventType.ERROR and rd.event_error(event) in AUTHENTICATION_CODES:
            self.authentication_error = rd.event_error_string(event).decode()
        super().heard(event)

    def failures(self) -> list[Failure]:
        """The failures of the transaction that began last."""
        self.poll(0)
        return list(self._failed)

    def produce(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Queue one record; arguments and errors as of `produce_all`."""
        union = self._union(topic, partition)
        union[PARTS.index(AS_VALUE), 1:3] = _cell(value)
        union[PARTS.index(AS_KEY), 1:3] = _cell(key)
        while self._is_full(rd.produceva(self.handle, union.ctypes.data, len(PARTS))):
            self.poll(_FULL_WAIT_S)

    def produce_all(self, topic: str, partition: int, records: OutgoingRecords) -> None:
        """Queue records in order; waits while the queue is full.

        Args:
            topic: Where to.
            partition: -1 lets the partitioner choose by key.
            records: All for this partition.

        Raises:
            KafkaException: a record is refused; what stands before it is queued.
        """
        from aggregator.kafka.native import rows  # noqa: PLC0415 - takes a second, which a driver need not spend

        self.poll(0)  # frees the memory of reported records
        indexes, timestamps = records.indexes, np.asarray(records.timestamps_ms, np.int64)
        union = self._union(topic, partition, _most(records.headers) + len(records.stamps)).reshape(-1)
        columns = _parts(records.keys), _parts(records.values), timestamps
        headers = _names(records.headers), _parts(records.headers.values)
        stamps = np.array([ctypes.addressof(_name(name)) for name, _ in records.stamps], np.int64)
        stamped = stamps, _parts(BytesColumn.concat([cells for _, cells in records.stamps]))
        error, done = np.zeros(1, np.int64), 0
        while True:
            done = rows.produce_rows(self.handle, union, indexes, done, *columns, *headers, *stamped, error)
            if done == len(indexes):
                return
            if self._is_full(int(error[0])):
                self.poll(_FULL_WAIT_S)

    @staticmethod
    def _is_full(error: int | None) -> bool:
        """Whether a record was not queued for want of room.

        Raises:
            KafkaException: it was not queued for another reason.
        """
        try:
            raise_for_error(error)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._QUEUE_FULL:  # noqa: SLF001 - librdkafka's public code
                raise
            return True
        return False

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = rd.topic_new(self.handle, name.encode(), None)
        return self._topics[name]

    def _union(self, topic: str, partition: int, headers: int = 0) -> Integers:
        """Arguments of a call, a row each, with room for headers; what all records of a batch share is filled in."""
        union = np.zeros((len(PARTS) + headers, UNION), np.int64)
        union[: len(PARTS), 0] = PARTS
        union[:3, 1] = (self._topic(topic), partition, COPY)
        return union

    def _leave(self, handle: int) -> None:
        rd.queue_destroy(self._queue)
        for topic in self._topics.values():
            rd.topic_destroy(topic)
        rd.destroy_flags(handle, 0)


def _is_of_state(failure: KafkaException) -> bool:
    return bool(failure.args[0].code() == KafkaError._STATE)  # noqa: SLF001 - librdkafka's public code has this name


def _cell(content: bytes | None) -> tuple[int, int]:
    """Where a key or a value lies, and its size; None is no address. It lives as long as the caller's."""
    if content is None:
        return 0, 0
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0, len(content)


def _parts(cells: BytesColumn) -> tuple[Any, Any, Any]:
    """The column's data, ends and nulls as the arrays that `rows.produce_rows` takes."""
    data = cells.data if len(cells.data) else _NO_BYTES
    return data, cells.ends, _NO_FLAGS if cells.nulls is None else cells.nulls


def _names(headers: HeaderTable) -> tuple[Any, ...]:
    """The names of the records' own headers as the arrays that `rows.produce_rows` takes."""
    ends = headers.ends if headers.total else _NO_NUMBERS
    texts = [name.encode() + b"\0" for name in headers.names]
    starts = np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)
    return ends, headers.codes, np.frombuffer(b"".join([*texts, b"\0"]), np.uint8), starts


def _most(headers: HeaderTable) -> int:
    """The largest number of headers that one record has."""
    return int(np.diff(headers.ends).max(initial=0))


@cache
def _name(name: str) -> "ctypes.Array[ctypes.c_char]":
    """A header's name where the library can read it; of a fixed few."""
    return ctypes.create_string_buffer(name.encode())
