"""The ports are the interfaces through which a slot reaches central and the edges; `kafka_ports.py` implements them.

Invariant: all effects of the protocol pass through these interfaces, so that a simulation can replace them.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.kafka.native.producer import OutgoingRecords
from aggregator.kafka.native.topic_ids import Answer
from aggregator.kafka.readers.reader_events import PollResult, StartPosition, TruncationPoint
from aggregator.kafka.writers.refusals import Refusal
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.state.control import ControlState
from aggregator.state.ledger import LedgerRecord


class Writer(Protocol):
    """A transactional producer; raises Fenced, TransactionAborted or OutcomeUnknown and nothing else.

    `touched` are the partitions that the newest transaction wrote; -1 where the partitioner chose.
    """

    touched: set[Partition]

    def open(self) -> None:
        """Initialise the transactions of the producer's transactional id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def produce(self, topic: str, key: bytes | str | None, value: bytes | None, *, partition: int = -1) -> None:
        """Queue one record in the open transaction."""

    def produce_all(self, topic: str, partition: int, records: OutgoingRecords) -> None:
        """Queue many records of one topic."""

    def commit(self) -> None:
        """Flush the queued records and commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def refusals(self) -> Collection[Refusal]:
        """The permanent refusals in the last failed transaction; to be asked before it is aborted."""

    def acknowledged(self, tp: Partition) -> int | None:
        """The latest offset in a partition that a broker acknowledged to this producer; None if unknown."""

    def close(self) -> None:
        """Close the producer."""


class Reader(Protocol):
    """Reads assigned partitions of one edge; never waits longer than asked."""

    def assign(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Read these partitions from there on, and no others."""

    def incremental_assign(self, tp: Partition, start: StartPosition) -> None:
        """Read a released partition, too."""

    def incremental_unassign(self, tp: Partition) -> None:
        """Stop reading one partition."""

    def poll(self, max_records: int, timeout_s: float) -> PollResult:
        """Take what is there; with `max_records` 0 no records but heartbeats, and where a rate holds it, fetch none."""

    def log_range(self, tp: Partition) -> OffsetRange:
        """The readable range of a partition: [first offset, last stable offset)."""

    def leader_epoch(self, tp: Partition) -> int | None:
        """The epoch of the partition's present leader, if the edge tells it."""

    def readable_from(self, tp: Partition, offset: int) -> int | None:
        """The first readable offset behind a damaged batch; None if `offset` is readable after all."""

    def find_truncation(self, tp: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """Where a log was truncated, which was read up to a record of `leader_epoch`."""

    def close(self) -> None:
        """Close the connection to the edge."""


class TopicIds(Protocol):
    """Asks the brokers of one edge which topics they show."""

    def ask(self, number: int, topics: Collection[str], broker: int) -> None:
        """Ask a broker, or where `broker` is below 0 any; the answer comes under this number."""

    def answer(self, timeout_s: float) -> Answer | None:
        """The next answer, after waiting at most `timeout_s` seconds for it."""

    def close(self) -> None:
        """Close the client of the edge."""


class SlotPorts(Protocol):
    """The interface to central and to the edges that a slot needs."""

    def poll_control(self) -> ControlState:
        """The present view of the control topic; a courtesy, not a proof."""

    def read_control(self) -> ControlState:
        """Read the control topic to its end."""

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """The slot's own ledger partition, read to its end, winners only."""

    def open_writer(self) -> Writer:
        """A new producer under the slot's transactional id, not yet opened."""

    def open_reader(self, edge: str) -> Reader:
        """Open a reader of one edge."""

    def received(self, edge: str) -> int:
        """Bytes that the readers of an edge have received, as far as their client has told; for edges with a limit."""

    def open_topic_ids(self, edge: str) -> TopicIds | None:
        """The client that asks an edge for topic ids; None if nobody shall ask."""

    def read_limits(self, topic: str) -> TopicLimits:
        """The present limits of a central topic; raises Unreachable."""

    def publish_telemetry(self, body: dict[str, object]) -> None:
        """Publish numbers, best effort."""

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """The range from the last stable offset to the high watermark, by partition of central that answers."""

    def refresh_leaders(self) -> None:
        """Refresh the leaders, after a deposed leader has answered."""

    def unwritable(self, partitions: Collection[Partition]) -> Collection[Refusal]:
        """What central would refuse for good of records for these partitions, by what it says of their topics."""

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a central topic."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def clock_ms(self) -> int:
        """The present in milliseconds since 1970, to be shown, or compared with what records say."""

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
