"""The control topic: epochs, the lease, check values of keys, ids of clusters, what is undecided, what was written.

Invariant: only the driver's producer writes here, in transactions; readers fold the whole log, last record per key. A
damaged record, or one of a later version, is refused by name; one of a key that nobody knows is passed over.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from msgspec import Struct

from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import Failed
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import Damaged, TypedDecoder, unreadable

VERSION = 1
_UNDECIDED = "undecided/"
_PARTITION_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Epoch:
    """One assignment of flows to slots; `ids`: how many slot ids were ever used, so that all of them are fenced."""

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
class Cluster:
    """The cluster that an edge's name stands for; that of central under no name. Empty id: it tells none."""

    edge: str
    cluster_id: str


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
class Target:
    """The central topic that an edge's topic is written to; kept when rules change, as it may hold undecided records.

    Attributes:
        by_key: Whether a record of any of its partitions may lie in any of central's.
    """

    edge: str
    topic: str
    central: str
    by_key: bool = False


@dataclass(frozen=True, slots=True)
class ControlState:
    """What the control topic says; `ended` is the highest epoch that was asked to stop, `keys` holds check values.

    `clusters` are ids by edge, that of central under an empty name.
    """

    epoch: Epoch | None = None
    lease: Lease | None = None
    ended: int = -1
    pace: Pace | None = None
    keys: Mapping[tuple[str, int], str] = field(default_factory=dict)
    undecided: Mapping[Partition, OffsetRange] = field(default_factory=dict)
    targets: frozenset[Target] = frozenset()
    clusters: Mapping[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """Number of the newest epoch, -1 before the first."""
        return self.epoch.epoch if self.epoch else -1


def former(now: Collection[Target], noted: Collection[Target]) -> dict[tuple[str, str], set[str]]:
    """Central topics that former rules wrote edge topics to, of the edge topics that are written now.

    A topic that was divided by key is one of them, also under the same name: today's rule writes fewer of its
    partitions.
    """
    wanted = {(one.edge, one.topic): one for one in now}
    found = defaultdict[tuple[str, str], set[str]](set)
    for one in noted:
        today = wanted.get((one.edge, one.topic))
        if today is not None and (one.central != today.central or one.by_key > today.by_key):
            found[one.edge, one.topic].add(one.central)
    return found


# An int is the epoch that is asked to end.
ControlEntry = Epoch | Lease | Pace | KeyCheck | Cluster | Undecided | Target | int


def encode(entry: ControlEntry) -> tuple[str, bytes]:
    """Key and value of a control record."""
    match entry:
        case int():
            return "end", _dump({"epoch": entry})
        case KeyCheck():
            key = f"{_KEY}{entry.name}/{entry.version}"
        case Cluster():
            key = f"{_CLUSTER}{entry.edge}"
        case Undecided():
            key = entry.key
        case Target():
            key = f"{_TARGET}{entry.edge}/{entry.topic}/{entry.central}" + ("/by_key" if entry.by_key else "")
        case _:
            key = _SINGLE[type(entry)]
    return key, _dump(asdict(entry))


def _dump(body: Mapping[str, object]) -> bytes:
    return json.dumps({"v": VERSION, **body}).encode()


class _End(Struct):
    epoch: int


_EPOCH, _LEASE, _PACE, _ENDED = TypedDecoder(Epoch), TypedDecoder(Lease), TypedDecoder(Pace), TypedDecoder(_End)
_CHECK = TypedDecoder(KeyCheck)
_KEY, _TARGET, _CLUSTER = "key/", "target/", "cluster/"
_SINGLE: Mapping[type, str] = {Epoch: "epoch", Lease: "lease", Pace: "pace"}
_NOTE, _WRITTEN, _STANDS = TypedDecoder(Undecided), TypedDecoder(Target), TypedDecoder(Cluster)


def fold(state: ControlState, records: Iterable[LogRecord], topic: str) -> ControlState:
    """Apply records in log order.

    Args:
        state: Before them.
        records: Of the control topic.
        topic: For the sentence about a damaged one.

    Raises:
        Failed: a damaged record; names it.
    """
    targets: set[Target] = set()
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
                case key if key.startswith(_TARGET):
                    targets.add(_WRITTEN.decode(record.value))
                case _:
                    state = _with_places(state, record)
        except Damaged as error:
            mend = "nothing but the hub's driver may write this topic; find out who did, then start the hub again"
            what, hint = unreadable(error, mend)
            raise Failed(
                f"{topic} offset {record.offset}: the control record {record.key} is {what}", hint=hint
            ) from None
    return replace(state, targets=state.targets | targets) if targets - state.targets else state


def _with_places(state: ControlState, record: LogRecord) -> ControlState:
    """The state after a record about clusters or their partitions; unchanged by one of a key that nobody knows.

    Raises:
        Damaged: the record is none of ours.
    """
    if record.key.startswith(_CLUSTER):
        return replace(state, clusters=_stand(state.clusters, record))
    if record.key.startswith(_UNDECIDED):
        return replace(state, undecided=_noted(state.undecided, record))
    return state


def _stand(known: Mapping[str, str], record: LogRecord) -> dict[str, str]:
    """What names stand for after one more record.

    Raises:
        Damaged: the record is none of ours, or of another name than its key's.
    """
    stand = _STANDS.decode(record.value)
    if encode(stand)[0] != record.key:
        raise Damaged("of another name")
    return {**known, stand.edge: stand.cluster_id}


def _noted(known: Mapping[Partition, OffsetRange], record: LogRecord) -> dict[Partition, OffsetRange]:
    """The notes after one more record; a tombstone takes the one of its key back.

    Raises:
        Damaged: the record is none of ours.
    """
    if record.value is not None:
        note = _NOTE.decode(record.value)
        return {**known, (note.topic, note.partition): OffsetRange(note.start, note.end)}
    topic, _, partition = record.key.removeprefix(_UNDECIDED).partition("/")
    if not partition.isdecimal() or len(partition) > _PARTITION_DIGITS:
        raise Damaged("of no partition")
    return {at: offsets for at, offsets in known.items() if at != (topic, int(partition))}
