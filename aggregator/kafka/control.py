"""The control topic: which epoch is newest, who holds the lease, and whether an epoch is asked to end.

Invariant: only the driver's producer writes here, in transactions; readers fold the whole log, last record per key.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from aggregator.config.model import ClusterConfig
from aggregator.kafka.log import LogRecord, read_to_end
from aggregator.kafka.names import HubNames
from aggregator.kafka.tail import LogTail


@dataclass(frozen=True, slots=True)
class Epoch:
    """One assignment of flows to slots; `ids` is the greatest number of slot ids ever used, carried for fencing."""

    epoch: int
    slots: int
    ids: int
    driver: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of a living driver: `beat` moves every two seconds; nobody compares clocks."""

    driver: str
    beat: int
    released: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How many records a second each slot of an epoch may take from now on, if there is a bound; of backfills only."""

    epoch: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class ControlState:
    """What the control topic says; `ended` is the highest epoch that was asked to stop."""

    epoch: Epoch | None = None
    lease: Lease | None = None
    ended: int = -1
    pace: Pace | None = None

    @property
    def newest(self) -> int:
        """Number of the newest epoch, -1 before the first."""
        return self.epoch.epoch if self.epoch else -1


def encode(entry: Epoch | Lease | Pace | int) -> tuple[str, bytes]:
    """Key and value of a control record; an int is the epoch that is asked to end."""
    match entry:
        case Epoch():
            return "epoch", json.dumps(asdict(entry)).encode()
        case Lease():
            return "lease", json.dumps(asdict(entry)).encode()
        case Pace():
            return "pace", json.dumps(asdict(entry)).encode()
        case int():
            return "end", json.dumps({"epoch": entry}).encode()


def fold(state: ControlState, records: Iterable[LogRecord]) -> ControlState:
    """Apply records in log order."""
    for record in records:
        body = json.loads(record.value or b"{}")
        match record.key:
            case "epoch":
                state = replace(state, epoch=Epoch(**body))
            case "lease":
                state = replace(state, lease=Lease(**body))
            case "end":
                state = replace(state, ended=max(state.ended, body["epoch"]))
            case "pace":
                state = replace(state, pace=Pace(**body))
    return state


def read_control(cluster: ClusterConfig, names: HubNames) -> ControlState:
    """The control topic, read to its end.

    Raises:
        Failed: an end that stays stuck.
        Unreachable: central does not answer.
    """
    return fold(ControlState(), read_to_end(cluster, names.control, [0]))


class ControlWatch:
    """Follows the control topic without waiting; a look, not a proof."""

    def __init__(self, cluster: ClusterConfig, names: HubNames) -> None:
        self._tail = LogTail(cluster, names.control)
        self.state = ControlState()

    def look(self) -> ControlState:
        """Fold in what has arrived since; never blocks."""
        self.state = fold(self.state, self._tail.arrived())
        return self.state

    def close(self) -> None:
        """Leave the cluster."""
        self._tail.close()
