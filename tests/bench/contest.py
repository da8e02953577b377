"""One contestant's run over one backlog, measured from outside, cold and warm, and verified.

Progress is central's end offsets, CPU and memory come from the operating system: the contestant's processes, and the
brokers apart. Cold is between 20 % and 100 % of the records: start-up lies before that, and a JVM still compiles.
Warm is from the first tenth on whose CPU per record is that of the two behind it, within 5 %; where none is, the last
three.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.bench.backlog import Backlog
from tests.bench.slots import GLANCE_S, Sampler

PATIENCE_S = 120.0
# Of the slowest contestant on a slow machine, with the backlogs of a long run.
_RECORDS_PER_S = 20_000
_TENTHS = 10
_COLD_FROM = 2
_FLAT_WINDOWS, _FLAT = 3, 0.05


class Mark(NamedTuple):
    """A look, at the first one behind each tenth of the records.

    Attributes:
        at_s: When.
        count: Records at central.
        cpu_s: What the contestant had spent.
        brokers_s: What both brokers had.
    """

    at_s: float
    count: int
    cpu_s: float
    brokers_s: float


@dataclass(frozen=True)
class Cost:
    """What records cost between two marks.

    Attributes:
        records_per_s: Delivered.
        cpu_us: CPU of all the contestant's processes per record, in microseconds.
        brokers_us: CPU of both brokers per record.
    """

    records_per_s: float
    cpu_us: float
    brokers_us: float


@dataclass(frozen=True)
class Result:
    """What one run cost.

    Attributes:
        cold: Between 20 % and 100 % of the records.
        warm: Once its cost is flat.
        warm_tenth: The first tenth of that; 0-based.
        is_flat: Whether its cost became flat at all.
        peak_mb: Most that all its processes held.
        first_record_s: From the start of its process to the first record at central.
    """

    cold: Cost
    warm: Cost
    warm_tenth: int
    is_flat: bool
    peak_mb: float
    first_record_s: float


@dataclass(frozen=True)
class Contestant:
    """Who copies.

    Attributes:
        name: In the answer.
        topic: Where at central it writes to in this run.
        start: Makes the process, which ends with the block.
        verify: Raises AssertionError when a record read back at central is not what this contestant promises.
    """

    name: str
    topic: str
    start: Callable[[], AbstractContextManager]
    verify: Callable[[list], None]


def race(contestant: Contestant, backlog: Backlog, brokers: list[int], central: str) -> Result:
    """Run one contestant over the whole backlog.

    Args:
        contestant: Who.
        backlog: What waits at the edge.
        brokers: Process ids of the brokers.
        central: Bootstrap servers.

    Raises:
        AssertionError: it ended, was too slow, or delivered something else.
    """
    ends = Ends(central, contestant.topic, backlog.partitions)
    patience_s = PATIENCE_S + backlog.records / _RECORDS_PER_S
    began = time.monotonic()
    first, marks = None, [Mark(began, 0, 0.0, 0.0)]
    with contestant.start() as process:
        usage, serving = Sampler(process.pid), [Sampler(pid) for pid in brokers]
        while (count := ends.sum()) < backlog.records:
            now = time.monotonic()
            spent = _cpu_s(usage)
            if count and first is None:
                first = now - began
            if count >= backlog.records * len(marks) / _TENTHS and count > marks[-1].count:
                marks.append(Mark(now, count, spent, sum(map(_cpu_s, serving))))
            assert process.poll() is None, process.log.read_text()[-3000:]
            assert now - began < patience_s, f"{contestant.name} has {count}: {process.log.read_text()[-3000:]}"
            time.sleep(0.05)
        marks.append(Mark(time.monotonic(), backlog.records, _cpu_s(usage), sum(map(_cpu_s, serving))))
        _verify(contestant, backlog, central)
    warm, is_flat = flat_from(marks)
    return Result(
        cost(marks[min(_COLD_FROM, len(marks) - 2)], marks[-1]),
        cost(marks[warm], marks[-1]),
        warm,
        is_flat,
        round(usage.peak_bytes / 1e6),
        round(first or 0.0, 1),
    )


def cost(begin: Mark, end: Mark) -> Cost:
    """What lies between two marks."""
    moved = end.count - begin.count
    return Cost(
        round(moved / (end.at_s - begin.at_s)),
        round((end.cpu_s - begin.cpu_s) / moved * 1e6, 2),
        round((end.brokers_s - begin.brokers_s) / moved * 1e6, 2),
    )


def flat_from(marks: Sequence[Mark]) -> tuple[int, bool]:
    """The window from which on cost is flat, and whether it is.

    Args:
        marks: At least two, each with more records than the one before.

    Returns:
        The first of three windows in a row whose CPU per record is within 5 % of their mean; else the last three.
    """
    costs = [(end.cpu_s - begin.cpu_s) / (end.count - begin.count) for begin, end in pairwise(marks)]
    for first in range(len(costs) - _FLAT_WINDOWS + 1):
        three = costs[first : first + _FLAT_WINDOWS]
        mean = sum(three) / _FLAT_WINDOWS
        if all(abs(one - mean) <= _FLAT * mean for one in three):
            return first, True
    return max(0, len(costs) - _FLAT_WINDOWS), False


def _cpu_s(sampler: Sampler) -> float:
    return sum(sampler.sample().values())


class Ends:
    """Sum of a topic's end offsets, 0 while it is not there."""

    def __init__(self, central: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": central, "log_level": 2})
        self._at = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}

    def sum(self) -> int:
        futures = self._admin.list_offsets(self._at, request_timeout=GLANCE_S)
        try:
            return sum(future.result().offset for future in futures.values())
        except KafkaException:
            return 0


def _verify(contestant: Contestant, backlog: Backlog, central: str) -> None:
    """Every record once, as a read_committed reader finds them; the contestant's own promise on each."""
    reader = Consumer(
        {
            "bootstrap.servers": central,
            "group.id": "verify",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.min.messages": 100_000,
        }
    )
    reader.assign([TopicPartition(contestant.topic, p, 0) for p in range(backlog.partitions)])
    found, deadline = 0, time.monotonic() + PATIENCE_S + backlog.records / _RECORDS_PER_S
    try:
        while found < backlog.records and time.monotonic() < deadline:
            messages = reader.consume(20_000, 1.0)
            contestant.verify(messages)
            found += len(messages)
        assert found == backlog.records, f"{contestant.name}: {found} of {backlog.records}"
        assert not reader.consume(10, 1.0), f"{contestant.name}: more than {backlog.records}"
    finally:
        reader.close()


def as_dict(result: Result) -> Mapping[str, float]:
    """For the answer: the cold figures by their names, the warm ones behind `warm_`."""
    plain = asdict(result)
    cold, warm = plain.pop("cold"), plain.pop("warm")
    return cold | {f"warm_{name}": value for name, value in warm.items()} | plain
