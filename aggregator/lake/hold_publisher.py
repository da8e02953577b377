"""Publishes to the topic of edge states what keeps tables of the lake from going on, and what their upkeep did.

Invariant: a call never waits for central. Holds are written when they change and again every minute, so that a lost
record is soon corrected. The last record stays at central, because a hold outlives the process that found it.
"""

import time
from collections.abc import Callable

from aggregator.config.model import HubConfig
from aggregator.kafka.writers.lossy_producer import LossyProducer
from aggregator.lake.cycle.report import CycleReport
from aggregator.state.lake_holds import LakeHold, holds_record
from aggregator.state.lake_upkeep import TableUpkeep, upkeep_record
from aggregator.state.names import HubNames

_AGAIN_S = 60.0


def lake_holds(report: CycleReport, before: tuple[LakeHold, ...], now_ms: int) -> tuple[LakeHold, ...]:
    """What a cycle could not bring into the lake, and since when.

    Args:
        report: The report of the cycle.
        before: What was found before it: a hold at the same place keeps its beginning.
        now_ms: The present.
    """
    began = {(one.table, one.topic, one.partition, one.next_offset): one.since_ms for one in before}
    found = []
    for table in report.tables:
        whys = [(one.partition, one.reason) for one in table.held]
        if table.failed is not None:
            whys.append((None, f"waits: {table.failed}"))
        for at, reason in whys:
            place = (table.table, "", 0, 0)
            if at:
                place = (table.table, at.topic, at.partition, table.next_offsets.get(at, 0))
            found.append(LakeHold(*place, began.get(place, now_ms), reason))
    return tuple(found)


class HoldPublisher:
    """Publishes holds from the reports of the lake's cycles.

    Args:
        config: The hub.
        also: Takes them, too.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        config: HubConfig,
        *,
        also: Callable[[CycleReport], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._also = also
        self._topic = HubNames(config.hub).edge_status
        self._outlet = LossyProducer(config.central)
        self._clock = clock
        self._published: tuple[LakeHold, ...] | None = None
        self._published_s = 0.0

    def __call__(self, report: CycleReport) -> None:
        """Publish what a cycle could not bring into the lake, unless the same was published shortly before."""
        self._also(report)
        found = lake_holds(report, self._published or (), int(self._clock() * 1000))
        if found == self._published and self._clock() - self._published_s < _AGAIN_S:
            return
        self._published, self._published_s = found, self._clock()
        key, value = holds_record(found)
        self._outlet.offer(self._topic, value, key=key.encode())

    def upkeep(self, table: str, done: TableUpkeep) -> None:
        """Publish what the upkeep did to one table."""
        key, value = upkeep_record(table, done)
        self._outlet.offer(self._topic, value, key=key.encode())

    def end(self) -> tuple[LakeHold, ...]:
        """Close the producer at central.

        Returns:
            The holds of the last cycle.
        """
        self._outlet.close()
        return self._published or ()
