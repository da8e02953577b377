"""Samples some records of a window: how dense and how large they are, and whether their timestamps are in order.

Invariant: bounded. A few hundred records inside a partition's window and after it are read, and only their coordinates,
sizes and timestamps are kept. All results are estimates, also whether the timestamps are in order.
"""

from collections.abc import Iterable, Mapping, Sequence

from aggregator.backfill.planner import SampleFacts
from aggregator.backfill.ranges import Ranges
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.kafka.readers.committed_reader import CommittedRecords, read_committed

_PLACES = 4
_RECORDS = 100
_BUFFER_BYTES = 8 * 1024 * 1024
# Timestamp in ms and bytes of each record of one place, in order.
Look = Sequence[tuple[int, int]]


def sample_windows(
    cluster: ClusterConfig, windows: Mapping[EdgePartition, tuple[OffsetRange, Ranges]], last_ms: Sequence[int]
) -> dict[EdgePartition, SampleFacts]:
    """Look at some places of each window, the first one its beginning, and behind its end.

    Args:
        cluster: One edge.
        windows: Log and asked offsets by flow.
        last_ms: The ends of the windows in time, in ms.

    Raises:
        Unreachable: the edge does not answer.
    """
    spans = {
        (source.topic, source.partition): OffsetRange(max(log.start, asked[0].start), min(log.end, asked[-1].end))
        for source, (log, asked) in windows.items()
        if asked
    }
    logs = {(source.topic, source.partition): log for source, (log, _) in windows.items()}
    turns = [{at: _place(span, number) for at, span in spans.items()} for number in range(_PLACES)]
    looks = [_read(cluster, turn) for turn in turns]
    tails = {at: _behind(span, logs[at]) for at, span in spans.items()}
    behind = _read(cluster, tails) if last_ms else {}
    found = {}
    for source in windows:
        at = (source.topic, source.partition)
        late = bool(last_ms) and any(time < max(last_ms) for time, _ in behind.get(at, []))
        offsets = sum(len(turn[at]) for turn in turns if at in turn)
        found[source] = summarize([look.get(at, []) for look in looks], offsets, disordered=late)
    return found


def summarize(looks: Sequence[Look], offsets: int, *, disordered: bool = False) -> SampleFacts:
    """Derive density, size and order from the timestamps and sizes of records.

    Args:
        looks: Records read at each place, in order.
        offsets: Number of offsets in all these places.
        disordered: Whether the records are already known to be out of order.
    """
    records = [record for look in looks for record in look]
    if not records:
        return SampleFacts(disordered=disordered)
    times = [time for time, _ in records]
    return SampleFacts(
        density=min(1.0, len(records) / max(1, offsets)),
        record_bytes=sum(size for _, size in records) / len(records),
        disordered=disordered or times != sorted(times),
        oldest_ms=times[0],
    )


def _place(span: OffsetRange, number: int) -> OffsetRange:
    """A place of a window; places of a short window follow each other without a hole."""
    step = max(_RECORDS, (span.end - span.start) // _PLACES)
    begin = span.start + step * number
    return OffsetRange(begin, min(begin + _RECORDS, span.end)) if begin < span.end else OffsetRange(0, 0)


def _behind(span: OffsetRange, log: OffsetRange) -> OffsetRange:
    begin = max(span.end, log.start)
    return OffsetRange(begin, max(begin, min(begin + _RECORDS, log.end)))


def _read(cluster: ClusterConfig, ranges: Mapping[Partition, OffsetRange]) -> dict[Partition, list[tuple[int, int]]]:
    found: dict[Partition, list[tuple[int, int]]] = {at: [] for at, offsets in ranges.items() if len(offsets)}
    for piece in read_committed(cluster, ranges, max_bytes=_BUFFER_BYTES):
        found[piece.topic, piece.partition] += _rows(piece)
    return found


def _rows(piece: CommittedRecords) -> Iterable[tuple[int, int]]:
    pairs = zip(piece.keys, piece.values, strict=True)
    return list(zip(piece.timestamps_ms, (len(key or b"") + len(value or b"") for key, value in pairs), strict=True))
