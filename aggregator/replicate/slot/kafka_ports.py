"""This module connects a slot to real clusters: central's logs and producer, and the readers of the edges.

Invariant: thin. The module decides nothing. Each task has one object, which is never shared between processes.
"""

import json
import secrets
import time
from collections.abc import Collection, Mapping

import psutil

from aggregator.config.model import HubConfig
from aggregator.coordinates import CENTRAL, EdgePartition, OffsetRange, Partition
from aggregator.errors import OutcomeUnknown
from aggregator.kafka.client.statistics import ClientStatistics
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.cluster.topic_ids import EdgeTopicIds
from aggregator.kafka.readers import ends, leaders
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.rate_limited_reader import RateLimitedReader
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.writers.lossy_producer import LossyProducer
from aggregator.kafka.writers.refusals import Refusal, unwritable
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.machine_clock import utc_now_ms
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.state.control import ControlState
from aggregator.state.control_log import ControlWatch, read_control
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.names import HubNames

# The caller asks again soon, so it does not wait longer for an answer.
_SOON_S = 1.0


class _SlotWriter(TransactionalWriter):
    """A slot's producer. If it cannot use renewed credentials, the slot opens a new one before its next transaction."""

    def begin(self) -> None:
        """Open a transaction; errors as of `TransactionalWriter.begin`."""
        if self.check_credentials_changed():
            raise OutcomeUnknown("signing in with what was renewed", hint="nothing to do: the slot goes on by itself")
        super().begin()


class KafkaSlotPorts:
    """Implements SlotPorts on real clusters."""

    def __init__(
        self,
        config: HubConfig,
        names: HubNames,
        slot: int,
        *,
        batch_bytes: int,
        backfill: str = "",
        rates: Mapping[str, float] | None = None,
    ) -> None:
        self._config = config
        self._names = names
        self._slot = slot
        self._batch_bytes = batch_bytes
        self._backfill = backfill
        self._watch = ControlWatch(config.central, names)
        self._telemetry = LossyProducer(config.central)
        self._process = psutil.Process()
        self._session = secrets.token_hex(4)  # names the counters in telemetry, which begin at zero
        self._statistics: dict[str, ClientStatistics] = {}
        self._rates = rates or {}
        self._readers: dict[str, ClientStatistics] = {}
        self._before: dict[str, int] = {}  # bytes that closed readers had received
        self._counts: dict[str, int] = {}

    def poll_control(self) -> ControlState:
        """The present view of the control topic."""
        return self._watch.poll()

    def read_control(self) -> ControlState:
        """Read the control topic to its end."""
        return read_control(self._config.central, self._names)

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """The slot's own ledger partition, read to its end."""
        records = read_to_end(self._config.central, self._names.ledger, [self._slot])
        return winners(records, self._names.ledger, backfill=self._backfill)

    def open_writer(self) -> TransactionalWriter:
        """Open a new producer with the slot's transactional id."""
        self.refresh_leaders()  # a new producer knows no acknowledged offset that exposes an outdated leader
        made = _SlotWriter(self._config.central, self._names.slot_id(self._slot), batch_bytes=self._batch_bytes)
        self._statistics[CENTRAL] = made.statistics
        return made

    def open_reader(self, edge: str) -> EdgeReader | RateLimitedReader:
        """Open a reader of one edge."""
        config, rate = self._config.edges[edge], self._rates.get(edge)
        most = self._config.replication.fetch_buffer
        made = EdgeReader(config, buffer_bytes=most) if rate is None else RateLimitedReader(config, most, rate)
        if edge in self._readers:
            self._before[edge] = self.received(edge)
        self._readers[edge] = self._statistics[f"edge {edge}"] = made.statistics
        return made

    def received(self, edge: str) -> int:
        """Bytes that the readers of an edge have received, as far as their client has told."""
        return self._before.get(edge, 0) + self._readers[edge].received_bytes

    def open_topic_ids(self, edge: str) -> EdgeTopicIds | None:
        """The client that asks an edge for topic ids, unless the configuration switches that off."""
        return EdgeTopicIds(self._config.edges[edge]) if self._config.replication.exact_recreation else None

    def read_limits(self, topic: str) -> TopicLimits:
        """The limits that a central topic has now.

        Raises:
            Unreachable: central does not answer.
        """
        return TopicLimits.of(topic_settings.settings(self._config.central, [topic])[topic])

    def publish_telemetry(self, body: dict[str, object]) -> None:
        """Publish numbers with this process's memory and CPU time, and its clients' own; best effort."""
        times = self._process.cpu_times()
        clients = {name: kept.numbers for name, kept in self._statistics.items() if kept.numbers}
        numbers = {
            "rss_bytes": self._process.memory_info().rss,
            "cpu_s": round(times.user + times.system, 3),
            "clients": clients,
            "read": {edge: self.received(edge) for edge in self._readers},
        }
        head = {"v": 1, "at_ms": utc_now_ms(), "life": self._session}
        self._telemetry.offer(self._names.telemetry, json.dumps(head | numbers | body).encode())

    def now(self) -> float:
        """The seconds of a monotonic clock."""
        return time.monotonic()

    def clock_ms(self) -> int:
        """The time of this machine's clock, in milliseconds since 1970."""
        return utc_now_ms()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """From the last stable offset to the high watermark of each partition of central that answers at once."""
        return ends.undecided_ranges(self._config.central, partitions, wait_s=0.0)

    def refresh_leaders(self) -> None:
        """Ask anew which brokers lead central's partitions."""
        leaders.refresh(self._config.central)

    def unwritable(self, partitions: Collection[Partition]) -> Collection[Refusal]:
        """What central would refuse for good of records for these partitions, by what it says of their topics."""
        return unwritable(self._config.central, partitions, timeout_s=_SOON_S)

    def partition_count(self, topic: str) -> int:
        """Partitions of a topic of central; asked once."""
        if topic not in self._counts:
            self._counts[topic] = topics.partition_count(self._config.central, topic)
        return self._counts[topic]

    def close(self) -> None:
        """Close the connections to central."""
        self._telemetry.close()
        self._watch.close()
