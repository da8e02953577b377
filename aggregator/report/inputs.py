"""Gathers a report's inputs from central: the ledger, the dead letters, and the telemetry of the slots.

Invariant: this module only reads, and only committed records, piece by piece. What was read once is kept. The report of
a run of several days therefore contains its first hour, although telemetry no longer has it.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from aggregator.config.model import HubConfig
from aggregator.coordinates import OffsetRange
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.committed_reader import read_committed
from aggregator.kafka.readers.typed_decoder import CorruptRecord
from aggregator.observe.fields import FieldFeed
from aggregator.report.report import Report, compose
from aggregator.state.dead_letters import reason_of
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames

_PIECE_BYTES = 8 * 1024 * 1024
# Only so many of the newest dead letters are counted by reason. The totals count all of them.
_LETTERS = 1_000_000


class ReportReader:
    """Reads what is new at central, and makes reports of one hub, again and again.

    Args:
        config: The hub.
        only_new: Leave out what was in telemetry before now: the report of a run, and not of the last hour.

    Raises:
        Unreachable: central does not answer.
    """

    def __init__(self, config: HubConfig, *, only_new: bool = False) -> None:
        self._config = config
        self._names = HubNames(config.hub)
        self._feed = FieldFeed()
        self._letters: Counter[tuple[str, str, str]] = Counter()
        self._next: dict[str, int] = {}
        if only_new:
            self._next[self._names.telemetry] = self._bounds(self._names.telemetry).end

    def report(self, now: datetime) -> Report:
        """Read what is new at central, and return the report of all that is known.

        Raises:
            Unreachable: central does not answer.
            FatalError: the ledger is damaged.
        """
        for value in self._new(self._names.telemetry):
            self._feed.ingest(value)
        for value in self._new(self._names.dead_letters, most=_LETTERS):
            self._letters.update(_reason(value))
        since = self._feed.since_ms
        return compose(
            self._config.hub,
            self._config.edges,
            read_ledger(self._config.central, self._names),
            self._feed.topics(),
            self._letters,
            since=None if since is None else datetime.fromtimestamp(since / 1000, UTC),
            made_at=now,
        )

    def _new(self, topic: str, *, most: int | None = None) -> Iterator[bytes | None]:
        """Values that came since the last look."""
        start, end = self._bounds(topic)
        first = max(start, self._next.get(topic, start if most is None else end - most))
        self._next[topic] = end
        if first < end:
            wanted = {(topic, 0): OffsetRange(first, end)}
            for piece in read_committed(self._config.central, wanted, max_bytes=_PIECE_BYTES):
                yield from piece.values

    def _bounds(self, topic: str) -> OffsetRange:
        """What the internal topic holds; nothing before the hub's first start."""
        at = (topic, 0)
        if not topics.partition_count(self._config.central, topic):
            return OffsetRange(0, 0)
        return ends.readable_ranges(self._config.central, [at])[at]


def _reason(value: bytes | None) -> dict[tuple[str, str, str], int]:
    """One count under the edge, the topic and the reason of a dead letter; a damaged one is `unreadable`."""
    try:
        found = reason_of(value)
    except CorruptRecord:
        return {("?", "?", "unreadable"): 1}
    return {found: 1} if found else {}
