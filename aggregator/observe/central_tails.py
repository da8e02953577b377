"""Follows every record that a hub keeps at central: positions, requests, telemetry, dead letters and heartbeats.

Invariant: this module only reads, and never blocks for long. `look` takes in the records that have arrived; later
records come with a later `look`. A record that the hub did not write is counted and skipped, because nothing is decided
here.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.edges.heartbeats import Heartbeat, decode
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.tail import ArrivalTail, LogTail
from aggregator.kafka.readers.typed_decoder import CorruptRecord
from aggregator.observe.fields import FieldFeed, TopicFields
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.control import ControlState
from aggregator.state.control_log import ControlWatch
from aggregator.state.dead_letters import reason_of
from aggregator.state.edge_status import EdgeStatuses, read_edge_statuses
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames, central_heartbeats
from aggregator.state.pauses import Pause
from aggregator.state.request_log import RequestWatch
from aggregator.state.telemetry import SlotFeed, SlotReport
from aggregator.state.traffic import EdgeTraffic

# Only so many of the newest dead letters are shown by reason. The ledger counts all of them.
_LETTERS = 100_000
_DISCOVER_EVERY_S = 5.0
# A running slot repeats its fields every ten minutes; after twice that time without a word its session is over.
_SILENT_MS = 20 * 60_000


class CentralFeeds:
    """Follows the topics that one hub keeps at central.

    Args:
        config: The hub's configuration.
        since_ms: When somebody began to look, in milliseconds since 1970.

    Raises:
        Unreachable: central does not answer.
        FatalError: the ledger is damaged.
    """

    def __init__(self, config: HubConfig, *, since_ms: int) -> None:
        self._config, self._names = config, HubNames(config.hub)
        self._since_ms = since_ms
        central = config.central
        self.statuses: EdgeStatuses = read_edge_statuses(central, self._names)
        self._ledger_partitions = topics.partition_count(central, self._names.ledger)
        parts = [(self._names.ledger, partition) for partition in range(self._ledger_partitions)]
        self._ledger_starts = ends.stable_end_offsets(central, parts)  # before the read, so no record is missed
        self.ledger: dict[EdgePartition, LedgerRecord] = read_ledger(central, self._names)
        self.decisions: dict[str, GapDecision] = {}
        self.pauses: dict[str, Pause] = {}
        self.acceptances: dict[str, ClusterAcceptance] = {}
        self.control = ControlState()
        self.letters: Counter[tuple[str, str, str]] = Counter()
        self.fresh_letters: Counter[tuple[str, str, str]] = Counter()
        self._damaged: Counter[str] = Counter()
        self._slots, self._backfills, self._fields = SlotFeed(), SlotFeed(), FieldFeed()
        self._control = ControlWatch(central, self._names)
        self._requests = RequestWatch(central, self._names)
        self._beats = ArrivalTail(central)
        self._sources = {central_heartbeats(edge): edge for edge in config.edges}
        self._tails: dict[str, LogTail] = {}
        self._discovered_s: float | None = None

    def poll(self, now_s: float, take_beat: Callable[[str, Heartbeat, int], None]) -> None:
        """Take in the records that have arrived since the last look.

        Args:
            now_s: Seconds on the watcher's clock.
            take_beat: Called with the edge, the beat, and central's stamp of its arrival.

        Raises:
            Unreachable: central does not answer when asked for its topics.
            FatalError: a control record is damaged.
        """
        if self._discovered_s is None or now_s - self._discovered_s >= _DISCOVER_EVERY_S:
            self._discover()
            self._discovered_s = now_s
        self.control = self._control.poll()
        asked = self._requests.poll()
        self.decisions |= {one.key: one for one in asked.decisions}
        self.pauses |= asked.pauses
        self.acceptances |= asked.acceptances
        self._damaged[self._names.requests] += len(asked.damaged)
        self._take_positions()
        arrived = self._arrived(self._names.edge_status)
        self.statuses = self.statuses.with_records((one.key, one.value, one.timestamp_ms) for one in arrived)
        words = self._arrived(self._names.telemetry)
        newest_ms = max((word.timestamp_ms for word in words), default=0)
        for word in words:
            self._slots.ingest(word.value, now_s, now_s - (newest_ms - word.timestamp_ms) / 1000)
            self._fields.ingest(word.value)
        for word in self._arrived(self._names.backfills().telemetry):
            self._backfills.ingest(word.value, now_s)
        self._take_letters()
        for arrival in self._beats.poll():
            try:
                beat = decode(arrival.key, arrival.value)
            except ValueError:  # a merged topic of that name, or records of another writer
                continue
            take_beat(self._sources[arrival.topic], beat, arrival.stamp_ms)

    def slots(self, now_s: float, *, after_s: float = float("-inf")) -> tuple[SlotReport, ...]:
        """The slots that run; see `SlotFeed.slots`."""
        return self._slots.slots(now_s, after_s=after_s)

    def backfilling(self, now_s: float) -> tuple[SlotReport, ...]:
        """The newest reports of the slots of a backfill that runs."""
        return self._backfills.slots(now_s)

    def moved(self, edge: str, now_s: float) -> EdgeTraffic:
        """Bytes of an edge, by the slots of the live flows."""
        return self._slots.traffic.of(edge, now_s)

    def is_limited(self, edge: str, now_s: float) -> bool:
        """Whether a slot takes less of an edge than it could, because of the edge's limit."""
        return any(edge in slot.limited for slot in self.slots(now_s))

    def fields(self) -> Mapping[tuple[str, str], TopicFields]:
        """The known facts about the fields of each edge topic."""
        self._fields.settle(_SILENT_MS)
        return self._fields.topics()

    def damaged(self) -> Mapping[str, int]:
        """Records that were none of ours, by topic."""
        found = Counter({self._names.telemetry: self._slots.damaged + self._fields.damaged})
        found[self._names.backfills().telemetry] = self._backfills.damaged
        found[self._names.edge_status] = self.statuses.damaged
        return +(found + self._damaged)

    def close(self) -> None:
        """Close the connections to central."""
        self._control.close()
        self._requests.close()
        self._beats.close()
        for tail in self._tails.values():
            tail.close()

    def _discover(self) -> None:
        """Follow the topics that have been created since."""
        central, there = self._config.central, topics.topic_names(self._config.central)
        self._beats.follow([name for name in self._sources if name in there])
        names = self._names
        for name in (names.edge_status, names.telemetry, names.backfills().telemetry, names.dead_letters):
            if name in there and name not in self._tails:
                self._tails[name] = LogTail(central, name, self._starts(name))
        ledger, count = self._names.ledger, there.get(self._names.ledger, 0)
        if count and (ledger not in self._tails or count > self._ledger_partitions):
            known = self._tails.pop(ledger, None)
            if known:
                known.close()
            starts = {partition: self._ledger_starts.get((ledger, partition), 0) for partition in range(count)}
            self._tails[ledger] = LogTail(central, ledger, starts)
            self._ledger_partitions = count

    def _starts(self, topic: str) -> dict[int, int]:
        at = (topic, 0)
        log = ends.readable_ranges(self._config.central, [at])[at]
        return {0: max(log.start, log.end - _LETTERS) if topic == self._names.dead_letters else log.start}

    def _arrived(self, topic: str) -> list[LogRecord]:
        tail = self._tails.get(topic)
        return tail.poll() if tail else []

    def _take_positions(self) -> None:
        for record in self._arrived(self._names.ledger):
            try:
                found = winners([record], self._names.ledger)
            except FatalError:  # the driver refuses this record by name
                self._damaged[self._names.ledger] += 1
                continue
            for source, entry in found.items():
                known = self.ledger.get(source)
                if known is None or (entry.epoch, entry.position) >= (known.epoch, known.position):
                    self.ledger[source] = entry

    def _take_letters(self) -> None:
        for letter in self._arrived(self._names.dead_letters):
            try:
                found = reason_of(letter.value)
            except CorruptRecord:
                self._damaged[self._names.dead_letters] += 1
                continue
            if found:
                self.letters[found] += 1
                self.fresh_letters[found] += letter.timestamp_ms >= self._since_ms
