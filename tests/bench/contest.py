"""One contestant's run over one backlog, measured from outside between 20 % and 100 % of the records, and verified.

Progress is central's end offsets, CPU and memory come from the operating system: the contestant's processes, and the
brokers apart. Start-up lies before the 20 % for everybody.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.bench.backlog import Backlog
from tests.bench.slots import GLANCE_S, Sampler

PATIENCE_S = 120.0
_FROM = 0.2


@dataclass(frozen=True)
class Result:
    """What one run cost.

    Attributes:
        records_per_s: Between 20 % and 100 % of the records.
        cpu_us: CPU of all the contestant's processes per record, in microseconds.
        brokers_us: CPU of both brokers per record.
        peak_mb: Most that all its processes held.
        first_record_s: From the start of its process to the first record at central.
    """

    records_per_s: float
    cpu_us: float
    brokers_us: float
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
    began = time.monotonic()
    first = fifth = None
    with contestant.start() as process:
        usage, serving = Sampler(process.pid), [Sampler(pid) for pid in brokers]
        while (count := ends.sum()) < backlog.records:
            now = time.monotonic()
            spent = _cpu_s(usage)
            if count and first is None:
                first = now - began
            if fifth is None and count >= backlog.records * _FROM:
                fifth = (now, spent, sum(map(_cpu_s, serving)), count)
            assert process.poll() is None, process.log.read_text()[-3000:]
            assert now - began < PATIENCE_S, f"{contestant.name} has {count}: {process.log.read_text()[-3000:]}"
            time.sleep(0.05)
        now, spent, served = time.monotonic(), _cpu_s(usage), sum(map(_cpu_s, serving))
        at, spent_before, served_before, before = fifth or (began, 0.0, 0.0, 0)
        moved = backlog.records - before
        _verify(contestant, backlog, central)
    return Result(
        round(moved / (now - at)),
        round((spent - spent_before) / moved * 1e6, 2),
        round((served - served_before) / moved * 1e6, 2),
        round(usage.peak_bytes / 1e6),
        round(first or 0.0, 1),
    )


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
    found, deadline = 0, time.monotonic() + PATIENCE_S
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
    """For the answer."""
    return dict(vars(result))
