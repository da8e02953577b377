"""The control topic holds what a driver tells its slots and its successors.

It holds epochs, flows that were added to one, the lease, check values of keys, ids of clusters, undecided ranges, and
the central topics that edge topics were written to.

Invariant: only the driver's producer writes here, in transactions. Readers fold the whole log, and the last record of
each key counts. A damaged record, or a record of a later version, is refused by name, until a later one of its key
takes its place. A record with an unknown key is skipped.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import (
    Amount,
    CorruptRecord,
    Count,
    DamagedRecords,
    Number,
    TypedDecoder,
    unreadable,
)

VERSION = 1
# No hub has more slots; each id is fenced before an epoch begins.
MAX_SLOTS = 4096
_Slots = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
LAST_EPOCH = 2**62
EpochNumber = Annotated[int, Meta(ge=0, le=LAST_EPOCH)]
_UNDECIDED = "undecided/"
_PARTITION_DIGITS = 10
_WHO = "nothing but the hub's driver may write this topic: find out who did, "
_MEND = f"{_WHO}write what this key said before once more (a tombstone, if it said nothing), then start the hub again"
_MEND_EPOCH = (
    f"{_WHO}write the newest record of an epoch before it once more, never one of a lower number; a tombstone does not"
    " replace it, because the ledger has positions of that epoch; then start the hub again"
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One assignment of flows to slots; `ids` is the number of slot ids ever used, so that all of them are fenced."""

    epoch: EpochNumber
    slots: _Slots
    ids: _Slots
    driver: str


@dataclass(frozen=True, slots=True)
class AddedFlows:
    """All flows that a slot was given since its epoch began; `plans` is text of `replicate/flow/added_flows.py`."""

    epoch: EpochNumber
    slot: Annotated[int, Meta(ge=0, lt=MAX_SLOTS)]
    plans: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Proves that a driver is alive: `beat` grows every two seconds, so no clocks are compared."""

    driver: str
    beat: Count
    released: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The records a second that each slot of a backfill's epoch may take from now on; None sets no bound."""

    epoch: Count
    rate: Amount | None


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """The check value of one version of a key, written at the first start with that version."""

    name: str
    version: Number
    check: str


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """The cluster that an edge's name stands for; central has an empty name. An empty id: the cluster tells none."""

    edge: str
    cluster_id: str


@dataclass(frozen=True, slots=True)
class UndecidedRange:
    """A range of a central partition in which records of the hub are undecided; the note stays until it is settled."""

    topic: str
    partition: Number
    start: Count
    end: Count

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
    """The state that the control topic describes.

    Attributes:
        epoch: The newest epoch; None before the first.
        lease: The newest beat of a driver.
        ended: The highest epoch that was asked to stop, of those up to the newest; -1 before the first.
        foreign_end: The highest epoch that was asked to stop before it was opened, as no driver does.
        pace: The newest pace of a backfill.
        keys: Check values by name and version.
        undecided: Notes by central partition.
        targets: Where edge topics were written.
        clusters: Ids by edge; central has an empty name.
        added: Flows that slots were given since an epoch began, by slot; those of former epochs stay here.
    """

    epoch: Epoch | None = None
    lease: Lease | None = None
    ended: int = -1
    foreign_end: int = -1
    pace: Pace | None = None
    keys: Mapping[tuple[str, int], str] = field(default_factory=dict)
    undecided: Mapping[Partition, OffsetRange] = field(default_factory=dict)
    targets: frozenset[Target] = frozenset()
    clusters: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[int, AddedFlows] = field(default_factory=dict)

    @property
    def epoch_number(self) -> int:
        """Number of the newest epoch, -1 before the first."""
        return self.epoch.epoch if self.epoch else -1

    def is_epoch(self, number: int, driver: str) -> bool:
        """Whether the newest epoch is this one, which a driver opened; of a deleted topic nothing is known."""
        return self.epoch is not None and (self.epoch.epoch, self.epoch.driver) == (number, driver)


def former_topics(now: Collection[Target], noted: Collection[Target]) -> dict[tuple[str, str], set[str]]:
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


# An int is the number of the epoch that is asked to end.
ControlEntry = Epoch | AddedFlows | Lease | Pace | KeyCheck | NamedCluster | UndecidedRange | Target | int


def encode(entry: ControlEntry) -> tuple[str, bytes]:
    """Encode an entry as key and value of a control record."""
    match entry:
        case int():
            return "end", _dump({"epoch": entry})
        case KeyCheck():
            key = f"{_KEY}{entry.name}/{entry.version}"
        case AddedFlows():
            key = f"{_ADDED}{entry.slot}"
        case NamedCluster():
            key = f"{_CLUSTER}{entry.edge}"
        case UndecidedRange():
            key = entry.key
        case Target():
            key = f"{_TARGET}{entry.edge}/{entry.topic}/{entry.central}" + ("/by_key" if entry.by_key else "")
        case _:
            key = _SINGLE[type(entry)]
    return key, _dump(asdict(entry))


def _dump(body: Mapping[str, object]) -> bytes:
    return json.dumps({"v": VERSION, **body}).encode()


class _End(Struct):
    epoch: Count


_KEY, _TARGET, _CLUSTER, _ADDED = "key/", "target/", "cluster/", "added/"
_SINGLE: Mapping[type, str] = {Epoch: "epoch", Lease: "lease", Pace: "pace"}
_EPOCH, _LEASE, _PACE, _ENDED = TypedDecoder(Epoch), TypedDecoder(Lease), TypedDecoder(Pace), TypedDecoder(_End)
_CHECK, _NOTE, _WRITTEN = TypedDecoder(KeyCheck), TypedDecoder(UndecidedRange), TypedDecoder(Target)
_STANDS, _GIVEN = TypedDecoder(NamedCluster), TypedDecoder(AddedFlows)


_Named = TypeVar("_Named", AddedFlows, KeyCheck, NamedCluster, UndecidedRange, Target)


def fold(state: ControlState, records: Iterable[LogRecord], topic: str) -> ControlState:
    """Apply records in log order.

    Args:
        state: State before the records.
        records: Records of the control topic.
        topic: Name of the topic, for the sentence about a damaged record.

    Raises:
        FatalError: a record is damaged, and none of its key came later; names it.
    """
    damaged = DamagedRecords()
    folded = readable_fold(state, records, topic, damaged)
    damaged.require_none()
    return folded


def readable_fold(
    state: ControlState, records: Iterable[LogRecord], topic: str, damaged: DamagedRecords
) -> ControlState:
    """The state after the records that can be read; arguments as `fold`.

    Args:
        state: State before the records.
        records: Records of the control topic.
        topic: Name of the topic.
        damaged: Takes the errors of those that cannot, and loses those that are mended.
    """
    folding: _Folding | None = None
    for record in records:
        folding = folding or _Folding.of(state)
        try:
            folding.apply(record)
        except CorruptRecord as error:
            what, hint = unreadable(error, _MEND_EPOCH if record.key == "epoch" else _MEND)
            told = f"{topic} offset {record.offset}: the control record {record.key} is {what}"
            damaged.add(record.key, FatalError(told, hint=hint))
        else:
            damaged.mend(record.key)
    return folding.folded() if folding else state


@dataclass(slots=True)
class _Folding:
    """A state to which records are applied; its maps are copied once for all records."""

    state: ControlState
    keys: dict[tuple[str, int], str]
    undecided: dict[Partition, OffsetRange]
    targets: set[Target]
    clusters: dict[str, str]
    added: dict[int, AddedFlows]

    @classmethod
    def of(cls, state: ControlState) -> "_Folding":
        """Begin with a copy of a state."""
        maps = {**state.keys}, {**state.undecided}, {*state.targets}, {**state.clusters}, {**state.added}
        return cls(state, *maps)

    def folded(self) -> ControlState:
        """The state after all records."""
        return replace(
            self.state,
            keys=self.keys,
            undecided=self.undecided,
            targets=frozenset(self.targets),
            clusters=self.clusters,
            added=self.added,
        )

    def apply(self, record: LogRecord) -> None:
        """Take in one record; one of a key that nobody knows changes nothing.

        Raises:
            CorruptRecord: the record is none of ours, or of another name than its key's.
        """
        match record.key:
            case "epoch":
                epoch = _EPOCH.decode(record.value)  # a person may have written a lower one, in place of a forged one
                self.state = replace(self.state, epoch=epoch, ended=min(self.state.ended, epoch.epoch - 1))
            case key if record.value is None:
                self._take_back(key)
            case "lease":
                self.state = replace(self.state, lease=_LEASE.decode(record.value))
            case "end":
                self._end(_ENDED.decode(record.value).epoch)
            case "pace":
                self.state = replace(self.state, pace=_PACE.decode(record.value))
            case key:
                self._take_named(key, record)

    def _take_named(self, key: str, record: LogRecord) -> None:
        """Take in a record of a kind that has many names.

        Raises:
            CorruptRecord: the record is none of ours, or of another name than its key's.
        """
        if key.startswith(_KEY):
            check = _named(_CHECK, record)
            self.keys[check.name, check.version] = check.check
        elif key.startswith(_TARGET):
            self.targets.add(_named(_WRITTEN, record))
        elif key.startswith(_CLUSTER):
            stand = _named(_STANDS, record)
            self.clusters[stand.edge] = stand.cluster_id
        elif key.startswith(_ADDED):
            given = _named(_GIVEN, record)
            self.added[given.slot] = given
        elif key.startswith(_UNDECIDED):
            note = _named(_NOTE, record)
            self.undecided[note.topic, note.partition] = OffsetRange(note.start, note.end)

    def _take_back(self, key: str) -> None:
        """A tombstone takes back a note of what was undecided; of any other key it says nothing."""
        topic, _, partition = key.removeprefix(_UNDECIDED).partition("/")
        if key.startswith(_UNDECIDED) and partition.isdecimal() and len(partition) <= _PARTITION_DIGITS:
            self.undecided.pop((topic, int(partition)), None)

    def _end(self, epoch: int) -> None:
        """An epoch is asked to stop; one that was never opened would be over before it begins."""
        if epoch <= self.state.epoch_number:
            self.state = replace(self.state, ended=max(self.state.ended, epoch))
        else:
            self.state = replace(self.state, foreign_end=max(self.state.foreign_end, epoch))


def _named(decoder: TypedDecoder[_Named], record: LogRecord) -> _Named:
    """What a record says, which its key has to name as well.

    Raises:
        CorruptRecord: the record is none of ours, or of another name than its key's.
    """
    entry = decoder.decode(record.value)
    if encode(entry)[0] != record.key:
        raise CorruptRecord("of another name")
    return entry
