"""This reader holds an edge to its `rate_limit`: one client reads records at the rate, another reads heartbeats.

Invariant: heartbeats never wait behind records that the rate holds back. Each partition is read by exactly one of the
two clients.
"""

from collections.abc import Mapping

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import HEARTBEATS, OffsetRange, Partition
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import PollResult, StartPosition, TruncationPoint

_BEATS_BYTES = 64 * 1024
_BEATS = 1_000


class RateLimitedReader:
    """Reads assigned partitions of one edge at a rate; arguments are those of `EdgeReader`.

    Attributes:
        statistics: Of the client that is held: what it has received is what the rate is about.
    """

    def __init__(self, cluster: ClusterConfig, buffer_bytes: int, rate: float) -> None:
        self._cluster = cluster
        self._records = EdgeReader(cluster, buffer_bytes=buffer_bytes, rate=rate)
        self._beats: EdgeReader | None = None
        self.statistics = self._records.statistics

    def _of(self, tp: Partition) -> EdgeReader:
        if tp[0] != HEARTBEATS:
            return self._records
        if self._beats is None:
            self._beats = EdgeReader(self._cluster, buffer_bytes=_BEATS_BYTES)
        return self._beats

    def assign(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Read these partitions from there on, and no others."""
        beats = {at: start for at, start in starts.items() if at[0] == HEARTBEATS}
        self._records.assign({at: start for at, start in starts.items() if at not in beats})
        if beats or self._beats is not None:
            self._of((HEARTBEATS, 0)).assign(beats)

    def incremental_assign(self, tp: Partition, start: StartPosition) -> None:
        """Read a released partition, too."""
        self._of(tp).incremental_assign(tp, start)

    def incremental_unassign(self, tp: Partition) -> None:
        """Stop reading one partition; the others go on."""
        self._of(tp).incremental_unassign(tp)

    def poll(self, max_records: int, timeout_s: float) -> PollResult:
        """Take what is there: records as `EdgeReader` does, none for `max_records` 0; heartbeats always."""
        polled = self._records.poll(max_records, timeout_s)
        if self._beats is None:
            return polled
        beats = self._beats.poll(_BEATS, 0.0)
        served = {
            broker: polled.served.get(broker, set()) | beats.served.get(broker, set())
            for broker in polled.served.keys() | beats.served.keys()
        }
        return PollResult(polled.chunks + beats.chunks, polled.ends | beats.ends, polled.faults + beats.faults, served)

    def log_range(self, tp: Partition) -> OffsetRange:
        """What `EdgeReader.log_range` returns, from the client of the partition."""
        return self._of(tp).log_range(tp)

    def leader_epoch(self, tp: Partition) -> int | None:
        """What `EdgeReader.leader_epoch` returns, from the client of the partition."""
        return self._of(tp).leader_epoch(tp)

    def find_truncation(self, tp: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """What `EdgeReader.find_truncation` returns, from the client of the partition."""
        return self._of(tp).find_truncation(tp, log, leader_epoch)

    def readable_from(self, tp: Partition, offset: int) -> int | None:
        """What `EdgeReader.readable_from` returns, from the client of the partition."""
        return self._of(tp).readable_from(tp, offset)

    def close(self) -> None:
        """Close the clients of records and heartbeats."""
        self._records.close()
        if self._beats is not None:
            self._beats.close()
