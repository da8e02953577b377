"""This module searches central partitions, from an offset on, for the first record of a flow by `hub.origin`.

Invariant: only committed records count, and only those in the order of their flow. Records of a backfill are left out,
and so are further tombstones. A further tombstone lies behind the records that were delivered together with its own
record. A search is bounded by a range, a number of records and some seconds. The answer says how far it came. The
reader never skips: an offset that the partition no longer has is reported.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import BACKFILL_HEADER, ORIGIN_HEADER, OffsetRange, Partition, Position
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client.clients import consumer
from aggregator.kafka.readers.polls import poll_batch

_BATCH = 1000
_POLL_S = 0.1
# A partition is given up if nothing of it has arrived for this long.
_TIMEOUT_S = 10.0
# A look needs few records. A broker returns whole batches, and the other records of a batch are looked at, too.
_PIECE_BYTES = 256 * 1024
# The largest offset in Kafka, and its digits: any producer at central can write anything into a header.
_MOST, _DIGITS = 2**63 - 1, 19


class OriginSearch(NamedTuple):
    """Describes a search in one partition.

    Attributes:
        offsets: Where; its end is at most the last stable offset.
        prefix: How a `hub.origin` of the flow begins: before the offset.
    """

    offsets: OffsetRange
    prefix: bytes


@dataclass(slots=True)
class OriginsFound:
    """The result of a search in a central partition.

    Attributes:
        until: Every record from the look's start up to here was seen.
        found: Offset of the flow's records, in order, and their positions at the edge.
        count: How many records were seen, of whichever flow.
        trouble: Why it was not read on; empty where a record was found, or the range ended.
    """

    until: int
    found: list[tuple[int, Position]] = field(default_factory=list)
    count: int = 0
    trouble: str = ""


class OriginReader:
    """One client that looks into several partitions side by side.

    Args:
        cluster: Central.
        max_records: Records of one look at most, if none of them is of its flow.
    """

    def __init__(self, cluster: ClusterConfig, *, max_records: int) -> None:
        piece = dict.fromkeys(("fetch.message.max.bytes", "fetch.max.bytes", "message.max.bytes"), _PIECE_BYTES)
        self._consumer: Consumer = consumer(cluster, **piece, **{"queued.min.messages": 1})
        self._where = cluster.bootstrap_servers
        self._max_records = max_records

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def look(self, asked: Mapping[Partition, OriginSearch]) -> dict[Partition, OriginsFound]:
        """Read each partition until a record of its flow is found, or its range ends.

        Raises:
            Unreachable: the client cannot be used.
        """
        seen = {at: OriginsFound(one.offsets.start) for at, one in asked.items()}
        heard = dict.fromkeys(asked, time.monotonic())
        open_ = set(asked)
        try:
            self._consumer.assign([TopicPartition(*at, one.offsets.start) for at, one in asked.items()])
            while open_:
                for message in poll_batch(self._consumer, _BATCH, _POLL_S):
                    at = (message.topic() or "", message.partition() or 0)
                    if at in open_:
                        heard[at] = time.monotonic()
                        self._take(seen[at], asked[at], message)
                now_s = time.monotonic()
                for at in [one for one in open_ if now_s - heard[one] > _TIMEOUT_S]:
                    seen[at].trouble = f"nothing came for {_TIMEOUT_S:.0f} s"
                done = {at for at in open_ if self._is_done(seen[at], asked[at])}
                if done:
                    open_ -= done
                    self._consumer.incremental_unassign([TopicPartition(*at) for at in done])
        except KafkaException as failure:
            raise Unreachable(f"{self._where}: {failure.args[0].str()}", hint=ASK_DOCTOR) from None
        return seen

    def _take(self, seen: OriginsFound, look: OriginSearch, message: Message) -> None:
        error, offset = message.error(), message.offset()
        if error is None and offset is not None:
            if offset < look.offsets.end:
                seen.count += 1
                position = _position(_live_origin(message.headers() or ()), look.prefix)
                if position is not None:
                    seen.found.append((offset, position))
            seen.until = max(seen.until, min(offset + 1, look.offsets.end))
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public code
            seen.until = max(seen.until, min(offset or 0, look.offsets.end))
        elif error is not None and not error.retriable():
            seen.trouble = error.str()

    def _is_done(self, seen: OriginsFound, look: OriginSearch) -> bool:
        if not seen.found and seen.count >= self._max_records and seen.until < look.offsets.end:
            seen.trouble = f"none of {seen.count:,} records from offset {look.offsets.start} on is of this flow"
        return bool(seen.found or seen.trouble) or seen.until >= look.offsets.end


def _live_origin(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The last `hub.origin`; None of a record that a backfill wrote."""
    origin = None
    for name, content in headers:
        if name == BACKFILL_HEADER:
            return None
        if name == ORIGIN_HEADER:
            origin = content
    return origin


def _position(origin: bytes | None, prefix: bytes) -> Position | None:
    """Where a record of the flow was at the edge; None of other flows, of further tombstones and of forged text."""
    if origin is None or not origin.startswith(prefix):
        return None
    numbers = origin[len(prefix) :].split(b"/")
    if len(numbers) != len(Position._fields) or not all(one.isdigit() and len(one) <= _DIGITS for one in numbers):
        return None
    offset, incarnation = map(int, numbers)
    return Position(incarnation, offset) if max(offset, incarnation) <= _MOST else None
