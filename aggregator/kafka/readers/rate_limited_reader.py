"""This reader holds an edge to its `rate_limit`: one client reads records at the rate, another reads heartbeats.

Invariant: heartbeats never wait behind records that the rate holds back. Each partition is read by exactly one of the
two clients.
"""

from collections.abc import Mapping

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import HEARTBEATS, OffsetRange, Partition
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import Polled, StartPosition, TruncationPoint

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

    def _of(self, at: Partition) -> EdgeReader:
        if at[0] != HEARTBEATS:
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

    def start(self, at: Partition, start: StartPosition) -> None:
        """Read a released partition, too."""
        self._of(at).start(at, start)

    def release(self, at: Partition) -> None:
        """Stop reading one partition; the others go on."""
        self._of(at).release(at)

    def poll(self, most: int, timeout_s: float) -> Polled:
        """Take what is there: records as `EdgeReader`, so with `most` 0 none and nothing is fetched; beats always."""
        polled = self._records.poll(most, timeout_s)
        if self._beats is None:
            return polled
        beats = self._beats.poll(_BEATS, 0.0)
        served = {
            broker: polled.served.get(broker, set()) | beats.served.get(broker, set())
            for broker in polled.served.keys() | beats.served.keys()
        }
        return Polled(polled.chunks + beats.chunks, polled.ends | beats.ends, polled.faults + beats.faults, served)

    def log_range(self, at: Partition) -> OffsetRange:
        """Return what `EdgeReader.log_range` returns, from the client of the partition."""
        return self._of(at).log_range(at)

    def leader_epoch(self, at: Partition) -> int | None:
        """Return what `EdgeReader.leader_epoch` returns, from the client of the partition."""
        return self._of(at).leader_epoch(at)

    def find_truncation(self, at: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """Return what `EdgeReader.find_truncation` returns, from the client of the partition."""
        return self._of(at).find_truncation(at, log, leader_epoch)

    def readable_from(self, at: Partition, offset: int) -> int | None:
        """Return what `EdgeReader.readable_from` returns, from the client of the partition."""
        return self._of(at).readable_from(at, offset)

    def close(self) -> None:
        """Close the clients of records and heartbeats."""
        self._records.close()
        if self._beats is not None:
            self._beats.close()
