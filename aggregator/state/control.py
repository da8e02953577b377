"""The control topic: the newest epoch, who holds the lease, whether an epoch is asked to end, which keys are ours.

Invariant: only the driver's producer writes here, in transactions; readers fold the whole log, last record per key. A
damaged record is refused by name; one of a key that nobody knows is passed over.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from msgspec import Struct

from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import Failed
from aggregator.kafka.decoding import Damaged, TypedDecoder
from aggregator.kafka.log_record import LogRecord

_UNDECIDED = "undecided/"


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
class KeyCheck:
    """The check value of one version of a key, from the first start with it on."""

    name: str
    version: int
    check: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """A range of a central partition in which something of the hub's own was left undecided, until it is settled."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def key(self) -> str:
        """Key of the note in the control topic; a tombstone takes it back."""
        return f"{_UNDECIDED}{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class ControlState:
    """What the control topic says; `ended` is the highest epoch that was asked to stop, `keys` holds check values."""

    epoch: Epoch | None = None
    lease: Lease | None = None
    ended: int = -1
    pace: Pace | None = None
    keys: Mapping[tuple[str, int], str] = field(default_factory=dict)
    undecided: Mapping[Partition, OffsetRange] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """Number of the newest epoch, -1 before the first."""
        return self.epoch.epoch if self.epoch else -1


def encode(entry: Epoch | Lease | Pace | KeyCheck | Undecided | int) -> tuple[str, bytes]:
    """Key and value of a control record; an int is the epoch that is asked to end."""
    match entry:
        case Epoch():
            return "epoch", json.dumps(asdict(entry)).encode()
        case Lease():
            return "lease", json.dumps(asdict(entry)).encode()
        case Pace():
            return "pace", json.dumps(asdict(entry)).encode()
        case KeyCheck():
            return f"{_KEY}{entry.name}/{entry.version}", json.dumps(asdict(entry)).encode()
        case Undecided():
            return entry.key, json.dumps(asdict(entry)).encode()
        case int():
            return "end", json.dumps({"epoch": entry}).encode()


class _End(Struct):
    epoch: int


_EPOCH, _LEASE, _PACE, _ENDED = TypedDecoder(Epoch), TypedDecoder(Lease), TypedDecoder(Pace), TypedDecoder(_End)
_CHECK = TypedDecoder(KeyCheck)
_KEY = "key/"
_NOTE = TypedDecoder(Undecided)


def fold(state: ControlState, records: Iterable[LogRecord], topic: str) -> ControlState:
    """Apply records in log order.

    Args:
        state: Before them.
        records: Of the control topic.
        topic: For the sentence about a damaged one.

    Raises:
        Failed: a damaged record; names it.
    """
    for record in records:
        try:
            match record.key:
                case "epoch":
                    state = replace(state, epoch=_EPOCH.decode(record.value))
                case "lease":
                    state = replace(state, lease=_LEASE.decode(record.value))
                case "end":
                    state = replace(state, ended=max(state.ended, _ENDED.decode(record.value).epoch))
                case "pace":
                    state = replace(state, pace=_PACE.decode(record.value))
                case key if key.startswith(_KEY):
                    one = _CHECK.decode(record.value)
                    state = replace(state, keys={**state.keys, (one.name, one.version): one.check})
                case key if key.startswith(_UNDECIDED):
                    state = replace(state, undecided=_noted(state.undecided, record))
        except Damaged:
            raise Failed(
                f"{topic} offset {record.offset}: the control record {record.key} is damaged",
                hint="nothing but the hub's driver may write this topic; find out who did, then start the hub again",
            ) from None
    return state


def _noted(known: Mapping[Partition, OffsetRange], record: LogRecord) -> dict[Partition, OffsetRange]:
    """The notes after one more record; a tombstone takes the one of its key back.

    Raises:
        Damaged: the record is none of ours.
    """
    if record.value is not None:
        note = _NOTE.decode(record.value)
        return {**known, (note.topic, note.partition): OffsetRange(note.start, note.end)}
    topic, _, partition = record.key.removeprefix(_UNDECIDED).partition("/")
    if not partition.isdecimal():
        raise Damaged("of no partition")
    return {at: offsets for at, offsets in known.items() if at != (topic, int(partition))}
