"""Watches backfills for a monitor, look by look: state, offsets that were asked for and are done, and speed.

Invariant: this module only reads, never waits and proves nothing. What central did not show yet comes with a later
look. A driver is at work when its lease was seen to move. No other machine's clock is compared.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from aggregator.backfill.backfill_state import Backfill, BackfillState
from aggregator.backfill.store import KnownBackfills
from aggregator.config.model import HubConfig
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.tail import LogTail
from aggregator.replicate.leadership.lease import RENEW_INTERVAL_S
from aggregator.state.control import Lease
from aggregator.state.control_log import ControlWatch
from aggregator.state.names import HubNames

_DISCOVER_EVERY_S = 5.0
_PACE_OVER_S = 10.0
# The lease of a live driver is seen to move within two of its heartbeats.
_STILL_S = 2 * RENEW_INTERVAL_S + 1.0


class Progress(NamedTuple):
    """One backfill, as it is now.

    Attributes:
        id: The backfill's id.
        state: Its present state.
        mode: `missing`, `into` or `restate`.
        into: Name of its generation; None where it makes none.
        by: Who started it.
        at_ms: Time of the start, in milliseconds since 1970.
        asked: Offsets of its plan.
        done: Number of these offsets that need nothing more.
        per_s: Records a second over the last ten seconds; 0 while nobody is at work.
        rate: Records a second at most; None: no bound.
        delivered: Records that the backfill has delivered.
        dead: Records that became dead letters.
        suppressed: Records that a rule keeps at the edge.
    """

    id: str
    state: BackfillState
    mode: str
    into: str | None
    by: str
    at_ms: int
    asked: int
    done: int
    per_s: float
    rate: float | None
    delivered: int
    dead: int
    suppressed: int

    def plain(self) -> dict[str, Any]:
        """The progress as plain data for JSON."""
        return self._asdict() | {"state": self.state.value}


class BackfillWatch:
    """Follows all backfills of a hub.

    Args:
        config: The hub; a hub without any backfill costs one question in five seconds.
    """

    def __init__(self, config: HubConfig) -> None:
        self._central = config.central
        self._names = HubNames(config.hub).backfills()
        self._known = KnownBackfills()
        self._requests: LogTail | None = None
        self._control: ControlWatch | None = None
        self._ledger: LogTail | None = None
        self._ledger_partitions = 0
        self._discovered_s: float | None = None
        self._lease: tuple[Lease | None, float | None] = (None, None)
        self._paces: dict[str, _Pace] = {}

    def poll(self, now_s: float) -> tuple[Progress, ...]:
        """The progress of every backfill, the oldest first.

        Args:
            now_s: Seconds on a clock that only goes forward.

        Raises:
            Unreachable: central does not answer when asked for its topics.
            FatalError: a record is damaged.
        """
        if self._discovered_s is None or now_s - self._discovered_s >= _DISCOVER_EVERY_S:
            self._discover()
            self._discovered_s = now_s
        if self._requests:
            self._known.take_requests(self._requests.poll(), self._names.requests)
        if self._ledger:
            self._known.take_positions(self._ledger.poll(), self._names.ledger)
        at_work = self._at_work(now_s)
        known = self._known.backfills()
        return tuple(self._progress(one, now_s, at_work=id_ == at_work) for id_, one in known.items())

    def unfinished(self) -> tuple[Backfill, ...]:
        """The backfills that were neither finished nor cancelled by the last look."""
        return tuple(one for one in self._known.backfills().values() if one.state is BackfillState.UNFINISHED)

    def close(self) -> None:
        """Close the connections to central."""
        for one in (self._requests, self._control, self._ledger):
            if one:
                one.close()

    def _discover(self) -> None:
        """Follow what has come into being; a ledger that has grown is read anew, which changes nothing."""
        there: Mapping[str, int] = topics.topic_names(self._central)
        if self._names.requests in there and self._requests is None:
            self._requests = LogTail(self._central, self._names.requests)
        if self._names.control in there and self._control is None:
            self._control = ControlWatch(self._central, self._names)
        count = there.get(self._names.ledger, 0)
        if count > self._ledger_partitions:
            if self._ledger:
                self._ledger.close()
            starts = ends.start_offsets(self._central, [(self._names.ledger, partition) for partition in range(count)])
            self._ledger = LogTail(self._central, self._names.ledger, {at: start for (_, at), start in starts.items()})
            self._ledger_partitions = count

    def _at_work(self, now_s: float) -> str:
        """Id of the backfill whose driver's lease moves; empty if none does."""
        lease = self._control.poll().lease if self._control else None
        before, moved_s = self._lease
        if lease != before:
            # The first lease that is seen may be a dead driver's last record. It must move once before it counts.
            self._lease = (lease, None if before is None else now_s)
        moved_s = self._lease[1]
        if lease is None or lease.released or moved_s is None or now_s - moved_s > _STILL_S:
            return ""
        return lease.driver.partition("@")[0]

    def _progress(self, one: Backfill, now_s: float, *, at_work: bool) -> Progress:
        counts = one.counts()
        per_s = self._paces.setdefault(one.plan.id, _Pace()).seen(now_s, sum(counts.values())) if at_work else 0.0
        return Progress(
            one.plan.id,
            BackfillState.RUNNING if at_work and one.state is BackfillState.UNFINISHED else one.state,
            one.plan.mode.value,
            one.plan.into or None,
            one.started.by,
            one.started.at_ms,
            one.offsets,
            one.behind,
            per_s,
            one.rate,
            **counts,
        )


class _Pace:
    """Measures how fast a count grows, over the last looks."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def seen(self, now_s: float, count: int) -> float:
        self._seen.append((now_s, count))
        while now_s - self._seen[0][0] > _PACE_OVER_S:
            self._seen.popleft()
        first_s, first = self._seen[0]
        return (count - first) / (now_s - first_s) if now_s > first_s else 0.0
