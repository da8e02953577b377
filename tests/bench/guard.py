"""Regression guard of the two hot loops: ratios and counts, never seconds, held in `make test` against `guard.json`.

    python -m tests.bench.guard            what is measured now, beside what is recorded
    python -m tests.bench.guard --record   write it down, in the same commit as what changed it

`slot_calls` is how many calls the interpreter makes per record of the slot loop: the real slot, reader, strip, delivery
and writer, between a consumer and a producer in memory that hold librdkafka's place. It is counted, not timed, and the
same on every machine. `slot_ratio` is the loop's CPU time by that of the shortest copy loop over the same messages;
`strip_ratio` is strip's CPU time by that of a plain look at every byte, `bytes.translate`. The two sides of a ratio
take turns in one process, and the best of each counts: other programs only ever add.
"""

import argparse
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from unittest.mock import patch

from confluent_kafka import Message

from aggregator.bytes_column import BytesColumn
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.engine.collector import gc_disabled
from aggregator.header_columns import HeaderTable
from aggregator.kafka.client import clients
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.native.consumer import NativePoll
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.writers.refusals import Refusal
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Batch, Strip
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.slot import POLL_RECORDS, Slot
from aggregator.schema.wire import frame
from aggregator.state.control import ControlState, Epoch
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from tests.bench.backlog import DROPPED, IDENTIFIERS, SCHEMA, Backlog
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import MemoryRegistry

RECORDED = Path(__file__).with_suffix(".json")
# Calls are exact but for a run's own beginning and end; ratios differ by a tenth from run to run on a busy machine.
CALLS_TOLERANCE, RATIO_TOLERANCE = 0.05, 1.4
TOPIC, CLUSTER = "visits", ClusterConfig(bootstrap_servers="127.0.0.1:1")
RECORDS = 4 * POLL_RECORDS
_HEADERS = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c")]
_SETTINGS = {
    "drop": "".join(f"      {name}: drop\n" for name in (*DROPPED, *IDENTIFIERS)),
    "pseudonymize": "".join(
        f"      {name}: {{pseudonymize: {{key: customer, domain: {name}}}}}\n" for name in IDENTIFIERS
    ),
}


class _Consumer:
    """The room's own consumer with everything prefetched."""

    def __init__(self, polls: list[NativePoll]) -> None:
        self._left = iter(polls)

    def assign(self, positions: object) -> None:
        return

    def poll(self, max_records: int, wait_s: float) -> NativePoll:
        return next(self._left, NativePoll([], []))

    def close(self) -> None:
        return


class _Messages:
    """confluent-kafka's consumer with everything prefetched."""

    def __init__(self, messages: list[Message]) -> None:
        self._left = iter(messages)

    def consume(self, max_records: int, timeout: float) -> list[Message]:
        return list(itertools.islice(self._left, max_records))


class _Producer:
    """A transactional producer with an endless queue."""

    acknowledged: Mapping[Partition, int] = {}

    def init_transactions(self, timeout: float) -> None:
        return

    def begin_transaction(self) -> None:
        return

    def commit_transaction(self, timeout: float) -> None:
        return

    def poll(self, timeout: float) -> int:
        return 0

    def produce(self, *record: object, **more: object) -> None:
        return

    produce_all = produce

    def close(self) -> None:
        return


class _World:
    """A SlotPorts whose clock ticks a millisecond per look, so that two runs make the same calls."""

    def __init__(self, polls: list[NativePoll]) -> None:
        self._polls = polls
        self._ticks = itertools.count()

    def poll_control(self) -> ControlState:
        return ControlState(Epoch(1, 1, 1, "driver"))

    read_control = poll_control

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        return {}

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        return dict.fromkeys(partitions, OffsetRange(0, 0))

    def unwritable(self, partitions: Collection[Partition]) -> Collection[Refusal]:
        return ()

    def partition_count(self, topic: str) -> int:
        return 1

    def open_writer(self) -> TransactionalWriter:
        return TransactionalWriter(CLUSTER, "guard")

    def open_reader(self, edge: str) -> EdgeReader:
        with patch.object(clients, "bulk_consumer", lambda *_, **__: _Consumer(self._polls)):
            return EdgeReader(CLUSTER, buffer_bytes=1)

    def open_topic_ids(self, edge: str) -> None:
        return

    def publish_telemetry(self, body: object) -> None:
        return

    def now(self) -> float:
        return next(self._ticks) / 1000

    def clock_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        return


@functools.cache
def _visits() -> list[bytes]:
    return [value for _, value in Backlog(TOPIC, RECORDS, 160, 0.1).pairs()]


class Guarded:
    """The loops over one setting's records."""

    def __init__(self, setting: str) -> None:
        self.registry = MemoryRegistry()
        schema_id = self.registry.register(f"{TOPIC}-value", json.dumps(SCHEMA))
        self._policy = parse_policy(
            f"policy: guard\nversion: 1\ntopics:\n  {TOPIC}:\n    key: keep\n    headers: [traceparent]\n"
            f"    default: keep\n    fields:\n{_SETTINGS[setting]}"
        )
        self.values = [frame(schema_id, value[5:]) for value in _visits()]
        self.messages = [
            Message(TOPIC, 0, at, b"k%d" % (at % 997), value, list(_HEADERS), None, (1, at), 0.0, 1)
            for at, value in enumerate(self.values)
        ]
        self.polls = [self._poll(at) for at in range(0, RECORDS, POLL_RECORDS)]
        self.strip: Strip = self.stripper()
        self.slot(POLL_RECORDS)  # compiles the plan

    def _poll(self, start: int) -> NativePoll:
        part = range(start, start + POLL_RECORDS)
        keys = BytesColumn.of([b"k%d" % (at % 997) for at in part])
        values = BytesColumn.of(self.values[start : start + POLL_RECORDS])
        headers = HeaderTable.of([_HEADERS] * len(part))
        return NativePoll([Chunk(TOPIC, 0, keys, values, headers, list(part), list(part), 1)], [])

    def stripper(self) -> KernelStrip:
        """A strip that remembers nothing."""
        return KernelStrip(
            policy=self._policy,
            edge_topic=TOPIC,
            central_topic=f"eu.{TOPIC}",
            edge_registry=self.registry,
            central_registry=MemoryRegistry(),
            key_rings=KEYS,
            today=utc_today,
            now_s=time.monotonic,
        )

    def slot(self, records: int) -> None:
        """One slot's run over so many records, from its start to the end of the drain."""
        source = EdgePartition("eu", TOPIC, 0)
        entry = LedgerRecord(0, "id", 0, 1, 0)
        flow = FlowPlan(source, entry, False, f"eu.{TOPIC}", by_key=False, limits=TopicLimits(), until=records)
        plan = SlotPlan(
            HubNames("guard"), 1, "driver", 0, (flow,), CommitPolicy(0.5, 1 << 24), drain=True, patience_s=9.0
        )
        delivery = Delivery(DeliveryPlan("guard", "dead", Cycles("guard"), None), lambda _: self.strip, lambda *_: None)
        with patch.object(clients, "transactional_producer", lambda *_, **__: _Producer()):
            outcome = Slot(plan, _World(self.polls[: records // POLL_RECORDS]), delivery).run()
        assert (outcome.result, outcome.holds) == ("drained", ())

    def new_slot(self, records: int) -> None:
        """As `slot`, with a strip that remembers nothing."""
        self.strip = self.stripper()
        self.slot(records)

    def copy(self, records: int) -> None:
        """The shortest copy loop: poll, read every part, produce."""
        consumer, producer = _Messages(self.messages[:records]), _Producer()
        while messages := consumer.consume(POLL_RECORDS, 0):
            for message in messages:
                producer.produce(
                    f"eu.{TOPIC}",
                    message.value(),
                    message.key(),
                    message.partition(),
                    headers=message.headers(),
                    timestamp=message.timestamp()[1],
                )

    def stripped(self) -> None:
        """Strip alone, without a memory of earlier batches."""
        strip = self.stripper()
        nothing = BytesColumn.empty(POLL_RECORDS), HeaderTable.empty(POLL_RECORDS)
        for (chunk,) in (poll.chunks for poll in self.polls):
            assert not strip.strip(Batch(nothing[0], chunk.values, nothing[1])).rejected

    def touched(self) -> None:
        """Every byte looked at once, record by record."""
        table = bytes(range(256))
        for value in self.values:
            value.translate(table)


def calls(run: Callable[[int], None]) -> float:
    """Calls that the interpreter makes per record: those of a long run beyond those of a short one.

    Args:
        run: Takes a number of records; both runs begin alike, so that what a beginning costs is in both.
    """
    counted = [_counted(run, records) for records in (2 * POLL_RECORDS, RECORDS)]
    return (counted[1] - counted[0]) / (RECORDS - 2 * POLL_RECORDS)


def _counted(run: Callable[[int], None], records: int) -> int:
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run(records)
    finally:
        sys.setprofile(None)
    return count


def ratio(one: Callable[[], None], other: Callable[[], None], *, rounds: int) -> float:
    """Best CPU time of `one` by the best of `other`."""
    with gc_disabled():
        pairs = [(_cpu_s(one), _cpu_s(other)) for _ in range(rounds)]
    best, yardstick = (min(column) for column in zip(*pairs, strict=True))
    return best / yardstick


def _cpu_s(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def measured(rounds: int = 4) -> dict[str, dict[str, float]]:
    """Every figure of the guard, by name and setting."""
    answer: dict[str, dict[str, float]] = {"slot_calls": {}, "slot_ratio": {}, "strip_ratio": {}}
    for setting in _SETTINGS:
        guarded = Guarded(setting)
        answer["slot_calls"][setting] = round(calls(guarded.new_slot), 3)
        slot, copy = (lambda g=guarded: g.slot(RECORDS)), (lambda g=guarded: g.copy(RECORDS))
        answer["slot_ratio"][setting] = round(ratio(slot, copy, rounds=rounds), 2)
        answer["strip_ratio"][setting] = round(ratio(guarded.stripped, guarded.touched, rounds=rounds), 2)
    return answer


def worse(now: Mapping[str, Mapping[str, float]], recorded: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What is beyond its tolerance, in words."""
    found = []
    for name, by_setting in now.items():
        for setting, value in by_setting.items():
            before = recorded[name][setting]
            limit = before + CALLS_TOLERANCE if name == "slot_calls" else before * RATIO_TOLERANCE
            if value > limit:
                found.append(f"{name} {setting}: {value}, at most {limit:.2f} (recorded {before})")
    return found


def main() -> None:
    """Measure; compare or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    now = measured(21 if options.record else 4)
    if options.record:
        RECORDED.write_text(json.dumps(now, indent=2) + "\n")
    recorded = json.loads(RECORDED.read_text())
    print(json.dumps({"measured": now, "recorded": recorded}, indent=2))
    if found := worse(now, recorded):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
