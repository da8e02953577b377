"""Writes what the running hub's monitor finds to the topic of edge states.

Invariant: a call never waits for central. A state is written when it changes and again every few seconds, so that a
lost record is soon corrected. A day of history is one record, written once a minute and at the end.
"""

import time
from collections.abc import Mapping

from aggregator.config.model import HubConfig
from aggregator.kafka.writers.lossy_producer import LossyProducer
from aggregator.observe.edge_account import ClockPair, EdgeAccount
from aggregator.observe.history_rows import day_records
from aggregator.state.edge_status import EdgeStatuses, pulse, refused_flows_record, state_key
from aggregator.state.names import HubNames

_PULSE_S = 0.9
_AGAIN_S = 15.0
_HISTORY_S = 60.0
# The first history record follows so long after a start. It marks the time before as unwatched.
_FIRST_S = 5.0


class StatePublisher:
    """Writes to the topic of edge states of one hub.

    Args:
        config: The hub's configuration.
    """

    def __init__(self, config: HubConfig) -> None:
        self._topic = HubNames(config.hub).edge_status
        self._outlet = LossyProducer(config.central)
        self._states_s = time.monotonic()
        self._history_s = self._states_s - _HISTORY_S + _FIRST_S
        self._pulse_s = 0.0
        self._refused: Mapping[str, tuple[str, str]] = {}
        self._refused_published: Mapping[str, tuple[str, str]] | None = None

    def publish(self, edge: str, account: EdgeAccount) -> None:
        """Write the state of an edge now."""
        self._outlet.offer(self._topic, account.state().encode(), key=state_key(edge).encode())

    def change(self, edge: str, account: EdgeAccount, before: EdgeStatuses, now_ms: int) -> None:
        """Write an edge's new state, and its history up to there, so that nothing lies between the two."""
        self._write_history({edge: account}, before, now_ms)
        self.publish(edge, account)

    def publish_refused(self, flows: Mapping[str, tuple[str, str]]) -> None:
        """Note which flows no slot got, and why. The driver's thread calls it, and the next pulse writes it."""
        self._refused = flows

    def pulse(self, accounts: Mapping[str, EdgeAccount], before: EdgeStatuses, moment: ClockPair) -> None:
        """Publish once a second that somebody watches, and now and then all states and the history."""
        if moment.now_s - self._pulse_s >= _PULSE_S:
            self._pulse_s = moment.now_s
            key, value = pulse()
            self._outlet.offer(self._topic, value, key=key.encode())
        if moment.now_s - self._states_s >= _AGAIN_S:
            self._states_s = moment.now_s
            self._refused_published = None
            for edge, account in accounts.items():
                self.publish(edge, account)
        if self._refused_published is not self._refused:
            self._publish_refused()
        if moment.now_s - self._history_s >= _HISTORY_S:
            self._history_s = moment.now_s
            self._write_history(accounts, before, moment.now_ms)

    def end(self, accounts: Mapping[str, EdgeAccount], before: EdgeStatuses, now_ms: int) -> None:
        """Publish everything once more, and that nobody watches any more."""
        for edge, account in accounts.items():
            self.publish(edge, account)
        self._write_history(accounts, before, now_ms)
        key, value = pulse(last=True)
        self._outlet.offer(self._topic, value, key=key.encode())

    def close(self) -> None:
        """Close the producer at central."""
        self._outlet.close()

    def _publish_refused(self) -> None:
        self._refused_published = self._refused
        key, value = refused_flows_record(self._refused_published)
        self._outlet.offer(self._topic, value, key=key.encode())

    def _write_history(self, accounts: Mapping[str, EdgeAccount], before: EdgeStatuses, now_ms: int) -> None:
        for edge, account in accounts.items():
            days = {day: rows for (of, day), rows in before.days.items() if of == edge}
            for key, value in day_records(edge, account.spans, days, now_ms=now_ms):
                self._outlet.offer(self._topic, value, key=key.encode())
