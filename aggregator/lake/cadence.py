"""Decides when the lake's next cycle begins: after the commit interval, or earlier when enough records wait at central.

Invariant: a stop ends the wait. If central does not answer, the next cycle begins after the interval.
"""

import logging
import threading
import time
from collections.abc import Mapping

from aggregator.config.lake_model import LakeConfig
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import RetryError
from aggregator.kafka.readers.ends import stable_end_offsets
from aggregator.lake.cycle.report import CycleReport

_LOOK_S = 1.0
log = logging.getLogger(__name__)


def wait_for_next_cycle(central: ClusterConfig, lake: LakeConfig, report: CycleReport, stop: threading.Event) -> None:
    """Wait until the next cycle is due, or until `stop` is set.

    Args:
        central: The central cluster, where records wait.
        lake: `commit_interval` and `commit_records`.
        report: The last cycle's, for the positions; tables that are held or failed do not count.
        stop: Ends the wait.
    """
    until = time.monotonic() + lake.commit_interval.total_seconds()
    positions = {
        one: offset
        for table in report.tables
        if not table.held and table.failed is None
        for one, offset in table.next_offsets.items()
    }
    while (left := until - time.monotonic()) > 0 and not stop.wait(min(_LOOK_S, left)):
        if left > _LOOK_S and _waiting(central, positions) >= lake.commit_records:
            return


def _waiting(central: ClusterConfig, positions: Mapping[CentralPartition, int]) -> int:
    """Offsets between positions and the ends of central; an upper bound of records."""
    try:
        ends = stable_end_offsets(central, [(one.topic, one.partition) for one in positions])
    except RetryError as error:
        log.debug("%s", error)
        return 0
    return sum(max(0, ends[one.topic, one.partition] - offset) for one, offset in positions.items())
