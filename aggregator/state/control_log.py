"""This module reads the control topic, once to its end or continuously.

Invariant: this module only reads. `control.py` decides what a record means.
"""

import logging

from aggregator.config.model import ClusterConfig
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.tail import LogTail
from aggregator.kafka.readers.typed_decoder import DamagedRecords
from aggregator.state.control import ControlState, fold, readable_fold
from aggregator.state.names import HubNames

log = logging.getLogger(__name__)


def read_control(cluster: ClusterConfig, names: HubNames) -> ControlState:
    """Read the control topic to its end; warn about the end of an epoch that was never opened.

    Raises:
        FatalError: a damaged record, or an end that stays stuck.
        Unreachable: central does not answer.
    """
    state = fold(ControlState(), read_to_end(cluster, names.control, [0]), names.control)
    if state.foreign_end > state.epoch_number:
        told = "%s asks epoch %d to end, which was never opened: passed over; who else writes this topic?"
        log.warning(told, names.control, state.foreign_end)
    return state


class ControlWatch:
    """Follows the control topic without waiting; it proves nothing, because the newest records may be missing."""

    def __init__(self, cluster: ClusterConfig, names: HubNames) -> None:
        self._topic = names.control
        self._tail = LogTail(cluster, names.control)
        self._damaged = DamagedRecords()
        self.state = ControlState()

    def poll(self) -> ControlState:
        """Fold in what has arrived since; never blocks.

        Raises:
            FatalError: a damaged record that none of its key has followed up to the end; names it, once. What came with
                it is folded in.
        """
        self.state = readable_fold(self.state, self._tail.poll(), self._topic, self._damaged)
        if self._tail.has_reached_end:
            damaged, self._damaged = self._damaged, DamagedRecords()
            damaged.require_none()
        return self.state

    def close(self) -> None:
        """Close the connection to central."""
        self._tail.close()
