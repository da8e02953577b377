"""A look at some records of a window: how dense and how large they are, and whether their timestamps are in order.

Invariant: bounded: some hundred records at each end of a partition's window; coordinates, sizes and timestamps only.
An estimate is never more than that.
"""

from collections.abc import Iterable, Mapping, Sequence

from aggregator.backfill.planner import Sampled
from aggregator.backfill.ranges import Ranges
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.kafka.committed import Committed, read_committed
from aggregator.kafka.ends import Partition

_RECORDS = 300
_BUFFER_BYTES = 8 * 1024 * 1024


def sampled(
    cluster: ClusterConfig, windows: Mapping[EdgePartition, tuple[OffsetRange, Ranges]], last_ms: Sequence[int]
) -> dict[EdgePartition, Sampled]:
    """Look at the beginning of each window, and behind its end.

    Args:
        cluster: One edge.
        windows: Log and asked offsets by flow.
        last_ms: Where windows end in time.

    Raises:
        Unreachable: the edge does not answer.
    """
    heads, tails = {}, {}
    for source, (log, asked) in windows.items():
        at = (source.topic, source.partition)
        if not asked:
            continue
        begin, end = max(log.start, asked[0].start), min(log.end, asked[-1].end)
        heads[at] = OffsetRange(begin, min(begin + _RECORDS, log.end))
        tails[at] = OffsetRange(end, min(end + _RECORDS, log.end))
    before, behind = _read(cluster, heads), _read(cluster, tails) if last_ms else {}
    found = {}
    for source in windows:
        at = (source.topic, source.partition)
        head, tail = before.get(at, []), behind.get(at, [])
        late = bool(last_ms) and any(time < max(last_ms) for time, _ in tail)
        found[source] = judged(head, heads.get(at, OffsetRange(0, 0)), disordered=late)
    return found


def judged(head: Sequence[tuple[int, int]], offsets: OffsetRange, *, disordered: bool = False) -> Sampled:
    """What timestamps and sizes of records say.

    Args:
        head: Timestamp in ms and bytes of each record, in order.
        offsets: Where these are all that there are.
        disordered: Already known to be out of order.
    """
    if not head:
        return Sampled(disordered=disordered)
    times = [time for time, _ in head]
    return Sampled(
        density=min(1.0, len(head) / max(1, len(offsets))),
        record_bytes=sum(size for _, size in head) / len(head),
        disordered=disordered or times != sorted(times),
        oldest_ms=times[0],
    )


def _read(cluster: ClusterConfig, ranges: Mapping[Partition, OffsetRange]) -> dict[Partition, list[tuple[int, int]]]:
    found: dict[Partition, list[tuple[int, int]]] = {at: [] for at, offsets in ranges.items() if len(offsets)}
    for piece in read_committed(cluster, ranges, max_bytes=_BUFFER_BYTES):
        found[piece.topic, piece.partition] += _rows(piece)
    return found


def _rows(piece: Committed) -> Iterable[tuple[int, int]]:
    pairs = zip(piece.keys, piece.values, strict=True)
    return list(zip(piece.timestamps_ms, (len(key or b"") + len(value or b"") for key, value in pairs), strict=True))
