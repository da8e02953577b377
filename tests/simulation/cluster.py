"""A simulated central cluster: logs, transactions with fencing, markers that are written late or never, lost requests.

What it keeps of Kafka: a commit's answer comes before its markers; the last stable offset stands before the first open
or undecided transaction of a partition; `init_transactions` bumps the epoch, aborts what is open and waits for its
markers; a request of an older epoch is refused; a request whose answer was lost may still arrive later, and then hits
whatever transaction of that id and epoch is open (the client has no epoch per transaction). An id's next transaction
begins when the markers of the one before are written or dropped. A marker decides everything that is open of its id in
its partition, so what a dropped marker left open shares the fate of the next transaction there (KAFKA-20734).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.coordinates import OffsetRange
from aggregator.errors import Fenced, OutcomeUnknown, TransactionAborted
from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.writers.refusals import Refusal
from tests.simulation.scheduler import Scheduler

Place = tuple[str, int]
# Of what does not answer.
_FOR_GOOD = 0.3
_MAX_DEPOSED_S = 3.0
TIMEOUT_S = 15.0


@dataclass(eq=False)
class Part:
    """What one transaction wrote to one partition: open until a marker of its id comes there."""

    name: str
    first: int
    state: str = "open"


@dataclass(eq=False)
class Transaction:
    """One transaction: open, then committing or aborting until its last marker is written or dropped, then over."""

    name: str
    begun_s: float = 0.0
    state: str = "open"
    parts: dict[Place, Part] = field(default_factory=dict)
    pending: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """A record in a log, or a marker (`part` None)."""

    part: Part | None
    key: str = ""
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class Identity:
    """What the coordinator knows of a transactional id."""

    epoch: int = -1
    current: Transaction | None = None

    @property
    def is_open(self) -> bool:
        return self.current is not None and self.current.state == "open"


@dataclass(frozen=True)
class Faults:
    """Chances per request; `dropped`, per marker of a topic whose name ends with the key; `silent`, per partition.

    `deposed`, per step: a partition of an edge's topic gets another leader, and the one before goes on to answer
    whoever has not asked since who leads, with the ends of that moment.
    """

    lost: float = 0.0
    refused: float = 0.0
    for_good: float = 0.0
    silent: float = 0.0
    deposed: float = 0.0
    dropped: Mapping[str, float] = field(default_factory=dict)


class Deposed(NamedTuple):
    """A leader that does not know that it is none any more: what it tells, since when, and until when."""

    told: OffsetRange
    since_s: float
    until_s: float


class Central:
    """The cluster."""

    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.logs: dict[Place, list[Entry]] = defaultdict(list)
        self.ids: dict[str, Identity] = defaultdict(Identity)
        self.holding: dict[Place, list[Part]] = defaultdict(list)
        self.undecided: list[Transaction] = []
        self.late: list[tuple[str, int, str]] = []
        self.refused: dict[str, list[Refusal]] = defaultdict(list)
        self.deposed: dict[Place, Deposed] = {}

    # --- what the brokers do by themselves, one step at a time

    def work(self) -> None:
        """Maybe write one marker, maybe let a lost request arrive."""
        draw = self.scheduler.random
        for identity in self.ids.values():
            if identity.is_open and self.scheduler.now - identity.current.begun_s > TIMEOUT_S:
                self._time_out(identity)
        if self.faults.deposed and draw.random() < self.faults.deposed:
            self._depose()
        if self.undecided and draw.random() < 0.5:
            transaction = draw.choice(self.undecided)
            place = transaction.pending.pop(draw.randrange(len(transaction.pending))) if transaction.pending else None
            if place is not None and not self._drops(place):
                self._mark(place, transaction)
            if not transaction.pending:
                transaction.state = "committed" if transaction.state == "committing" else "aborted"
                self.undecided.remove(transaction)
        if self.late and draw.random() < 0.05:
            name, epoch, verb = self.late.pop(draw.randrange(len(self.late)))
            identity = self.ids[name]
            if identity.epoch == epoch and identity.current and identity.current.state == "open":
                self._decide(identity, verb)

    def _depose(self) -> None:
        places = sorted(filter(self._is_of_an_edge, self.logs))
        if places:
            place, now = self.scheduler.random.choice(places), self.scheduler.now
            told = OffsetRange(self.stable_end(place), self.log_end(place))
            self.deposed[place] = Deposed(told, now, now + self.scheduler.random.uniform(0, _MAX_DEPOSED_S))

    def ends(self, place: Place, known_s: float) -> OffsetRange:
        """Last stable offset and end, as somebody is told who asked at `known_s` who leads."""
        old = self.deposed.get(place)
        if old is not None and known_s < old.since_s and self.scheduler.now < old.until_s:
            return old.told
        return OffsetRange(self.stable_end(place), self.log_end(place))

    def _drops(self, place: Place) -> bool:
        """Whether this marker is lost: its partition has no leader just now."""
        odds = sum(odds for end, odds in self.faults.dropped.items() if place[0].endswith(end))
        return odds > 0 and self.scheduler.random.random() < odds

    def _mark(self, place: Place, transaction: Transaction) -> None:
        outcome = "committed" if transaction.state == "committing" else "aborted"
        self.logs[place].append(Entry(None))
        for part in [part for part in self.holding[place] if part.name == transaction.name]:
            part.state = outcome
            self.holding[place].remove(part)

    def time_out(self) -> None:
        """The coordinator aborts one open transaction whose producer has been silent, and fences that producer."""
        open_ones = [one for one in self.ids.values() if one.is_open]
        if open_ones:
            self._time_out(self.scheduler.random.choice(open_ones))

    def _time_out(self, identity: Identity) -> None:
        identity.epoch += 1
        self._decide(identity, "aborting")

    def settle(self) -> None:
        """Everybody is gone: what is open times out, and every marker is written."""
        for identity in self.ids.values():
            if identity.is_open:
                self._decide(identity, "aborting")
        self.late.clear()
        while self.undecided:
            self.work()

    def _decide(self, identity: Identity, verb: str) -> None:
        transaction = identity.current
        assert transaction is not None
        transaction.state = verb
        transaction.pending = list(transaction.parts)
        self.undecided.append(transaction)

    # --- requests

    def init(self, name: str) -> int:
        """Take the id; returns the new epoch once nothing of it is undecided."""
        identity = self.ids[name]
        self.scheduler.pause()
        identity.epoch += 1
        mine = identity.epoch
        if identity.current and identity.current.state == "open":
            self._decide(identity, "aborting")
        while identity.current and identity.current.state not in ("committed", "aborted"):
            self.scheduler.sleep(0.01)
            if identity.epoch != mine:
                raise Fenced(name)
        return mine

    def append(self, name: str, epoch: int, place: Place, entry_of: tuple) -> int:
        """Write one record and tell its offset; the first waits until nothing of the one before is on its way."""
        identity = self.ids[name]
        while identity.epoch == epoch and identity.current and identity.current.state in ("committing", "aborting"):
            self.scheduler.sleep(0.005)
        if identity.epoch != epoch:
            raise Fenced(name)
        if identity.current is None or identity.current.state != "open":
            identity.current = Transaction(name, self.scheduler.now)
        if place not in identity.current.parts:
            identity.current.parts[place] = Part(name, len(self.logs[place]))
            self.holding[place].append(identity.current.parts[place])
        self.logs[place].append(Entry(identity.current.parts[place], *entry_of))
        return len(self.logs[place]) - 1

    def end(self, name: str, epoch: int, verb: str) -> None:
        """Commit or abort; the answer may be lost, on the way there or back."""
        draw = self.scheduler.random.random()
        if verb == "committing" and draw < self.faults.refused:
            raise TransactionAborted(name)
        if verb == "committing" and self.scheduler.random.random() < self.faults.for_good:
            self._refuse_for_good(name)
        if draw > 1 - self.faults.lost:
            if self.scheduler.random.random() < 0.5:
                self.late.append((name, epoch, verb))
                raise OutcomeUnknown(name)
            self._end(name, epoch, verb)
            raise OutcomeUnknown(name)
        self._end(name, epoch, verb)

    def _end(self, name: str, epoch: int, verb: str) -> None:
        identity = self.ids[name]
        if identity.epoch != epoch:
            raise Fenced(name)
        if identity.current and identity.current.state == "open":
            self._decide(identity, verb)

    def _refuse_for_good(self, name: str) -> None:
        """Refuse what a transaction has for a topic of an edge, if it has anything for one."""
        current = self.ids[name].current
        places = [place for place in (current.parts if current else ()) if self._is_of_an_edge(place)]
        if places:
            self.refused[name] = [self._refusal(self.scheduler.random.choice(sorted(places)))]
            raise TransactionAborted(name)

    @staticmethod
    def _is_of_an_edge(place: Place) -> bool:
        return place[0].count(".") > 0 and "sim" not in place[0]

    @staticmethod
    def _refusal(place: Place) -> Refusal:
        return Refusal(*place, RefusalKind.DENIED, "the schedule says so")

    def unwritable(self, partitions: Iterable[Place]) -> list[Refusal]:
        """What is refused of a partition that did not answer: now and then its topic for good."""
        return [
            self._refusal(place)
            for place in sorted(partitions)
            if self._is_of_an_edge(place) and self.scheduler.random.random() < _FOR_GOOD
        ]

    def answers(self, place: Place) -> bool:
        """Whether a partition answers who asks for its end."""
        silent = self.faults.silent
        return silent <= 0 or self.scheduler.random.random() >= silent

    # --- reading

    def log_end(self, place: Place) -> int:
        return len(self.logs[place])

    def stable_end(self, place: Place) -> int:
        return min((part.first for part in self.holding[place]), default=len(self.logs[place]))

    def committed(self, place: Place, end: int | None = None) -> list[tuple[int, Entry]]:
        """What a read_committed reader sees below the last stable offset (and below `end`)."""
        stop = self.stable_end(place) if end is None else min(end, self.stable_end(place))
        return [
            (offset, entry)
            for offset, entry in enumerate(self.logs[place][:stop])
            if entry.part is not None and entry.part.state == "committed"
        ]

    def uncommitted(self, place: Place, start: int, end: int) -> list[tuple[int, Entry]]:
        """What a read_uncommitted reader sees."""
        log = self.logs[place]
        return [(offset, log[offset]) for offset in range(start, min(end, len(log))) if log[offset].part is not None]
