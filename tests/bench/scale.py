"""Scale: what an epoch of 200,000 partitions costs its driver, simulated; and what a record costs, measured and fitted.

    python -m tests.bench.scale -o json
    python -m tests.bench.scale --measure scale.jsonl -o json
    python -m tests.bench.scale --measure scale.jsonl --axes fields -o json

The first line needs no broker: the hub's own assignment, planning, protocol and ledger code over 100 edges of 200
topics of 10 partitions on 64 slots. What is simulated is the clusters: nothing here says what 100 brokers answer.
With `--measure`, points are measured on real brokers one by one and appended to a file; those that are in it already
are not measured again, so that a run may be cut and gone on with. Each axis moves alone, from the same base; a straight
line is fitted through its points. CPU of the hub's own processes counts, between 20 % and 100 % of the records.
"""

import argparse
import io
import json
import pickle
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

import fastavro
import numpy as np
import psutil

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.engine.collector import gc_disabled
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.discovery.central_topics import Snapshots, central_topics
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch.assignment import assign
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.epoch.plan import EpochFlows, plan_flows
from aggregator.replicate.leadership.settlement import TransactionOwner
from aggregator.sandbox.sandbox import Sandbox
from aggregator.schema.wire import frame
from aggregator.state.control import ControlEntry, ControlState, Epoch, encode, fold
from aggregator.state.ledger import LedgerRecord, flow_key, winners
from aggregator.state.names import HubNames
from tests.bench.slots import Sampler
from tests.trial import ORDER, Trial
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import MemoryRegistry

AXES: dict[str, tuple[int, ...]] = {
    "edges": (1, 2, 3),
    "partitions": (3, 30, 120),
    "bytes": (100, 500, 2000),
    "fields": (8, 32, 128),
}
BASE = {"edges": 1, "partitions": 3, "bytes": 160}
_PATIENCE_S = 120.0


class Timer:
    """Seconds of named phases, of the clock and of this CPU: the best of some runs, because others only ever add."""

    def __init__(self, rounds: int) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._rounds = rounds

    def time(self, name: str, run: Callable):
        """What the last run answered."""
        walls, spent, answer = [], [], None
        for _ in range(self._rounds):
            answer = None  # a second answer beside the first would cost memory and time
            began, before = time.perf_counter(), time.process_time()
            with gc_disabled():
                answer = run()
            spent.append(time.process_time() - before)
            walls.append(time.perf_counter() - began)
        self.found[name] = {"wall_s": round(min(walls), 3), "cpu_s": round(min(spent), 3)}
        return answer


class World:
    """A hub with many edges, as its driver sees it."""

    def __init__(self, edges: int, topics: int, partitions: int, slots: int) -> None:
        names = [f"edge-{number:03}" for number in range(edges)]
        rules = ({"match": "orders.*", "policy": Path("p.yaml")}, {"match": ".*", "policy": Path("p.yaml")})
        address = {"bootstrap_servers": "127.0.0.1:1"}
        self.config = HubConfig(
            hub="h", central=address, edges=dict.fromkeys(names, address), topics=rules, replication={"slots": slots}
        )
        draw = random.Random(1)
        self.snapshots: Snapshots = {
            edge: {
                f"topic-{number:03}": EdgeTopic(
                    f"topic-{number:03}",
                    f"id-{edge}-{number}",
                    log_start_offsets=(0,) * partitions,
                    initial_offsets=(0,) * partitions,
                    last_stable_offsets=tuple(round(draw.lognormvariate(6, 2)) for _ in range(partitions)),
                    oldest_ms=(None,) * partitions,
                    settings={"cleanup.policy": "delete"},
                )
                for number in range(topics)
            }
            for edge in names
        }
        self.specs = central_topics(self.config, self.snapshots)
        self.settings = {spec.name: {"max.message.bytes": "1048588", **spec.settings} for spec in self.specs}

    def plan(self, ledger: Mapping[EdgePartition, LedgerRecord], epoch: int, slots: int) -> EpochFlows:
        """One epoch on so many slots."""
        replication = self.config.replication.model_copy(update={"slots": slots})
        config = self.config.model_copy(update={"replication": replication})
        return plan_flows(config, ledger, self.snapshots, self.settings, epoch=epoch, drain=False, now_ms=0)


class Central:
    """DriverCentral in memory: its ledger lies there as it would on disk, and is read record by record."""

    def __init__(self, log: list[LogRecord]) -> None:
        self._log = log
        self._state = ControlState(Epoch(1, 64, 64, "before"))
        self.fenced = 0

    def read_control(self) -> ControlState:
        return self._state

    def publish(self, *entries: ControlEntry) -> None:
        self._state = fold(self._state, [LogRecord(0, at, *encode(one)) for at, one in enumerate(entries)], "h.control")

    def fence(self, slots: Iterable[int]) -> None:
        self.fenced = len(list(slots))

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        return dict.fromkeys(partitions, OffsetRange(0, 0))

    def now(self) -> float:
        return time.monotonic()

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        return winners(self._log, "h.ledger")


def simulate(edges: int, topics: int, partitions: int, slots: int, *, rounds: int) -> dict[str, object]:
    """The driver's work for one epoch after the other: the first, one without a change, one with a slot less."""
    held = psutil.Process().memory_info().rss
    timer, world = Timer(rounds), World(edges, topics, partitions, slots)
    first = timer.time("first_plan", lambda: world.plan({}, 1, slots))
    ledger = _ledger_of(first)
    log = [LogRecord(entry.slot, at, flow_key(flow), entry.encode()) for at, (flow, entry) in enumerate(ledger.items())]
    central = Central(log)
    places = [(spec.name, partition) for spec in world.specs for partition in range(spec.partitions)]
    epoch, ledger, _ = timer.time(
        "open_and_read_ledger",
        lambda: open_epoch(
            central, slots=slots, driver="d", partitions=places, owner=TransactionOwner.of_live_flows(HubNames("h"))
        ),
    )
    same = timer.time("plan_again", lambda: world.plan(ledger, epoch.epoch, slots))
    less = timer.time("plan_with_a_slot_less", lambda: world.plan(ledger, epoch.epoch, slots - 1))
    where = {flow: entry.slot for flow, entry in ledger.items()}
    weights, before = np.array([1000.0 + entry.next_offset for entry in ledger.values()]), np.array([*where.values()])
    timer.time("assignment_alone", lambda: assign([*ledger], weights, before, slots))
    grown = psutil.Process().memory_info().rss - held
    sealed = timer.time("pickle_every_slot", lambda: [pickle.dumps(plans) for plans in same.by_slot.values()])
    after, kept = _ledger_of(less), _ledger_of(same)
    of_lost = sum(entry.slot == slots - 1 for entry in ledger.values())
    pairs = Counter((flow.edge, entry.slot) for flow, entry in kept.items())
    per_slot = Counter(slot for _, slot in pairs)
    return {
        "flows": len(ledger),
        "slots": slots,
        "seconds": timer.found,
        "fenced_ids": central.fenced,
        "moved_without_a_change": sum(kept[flow].slot != slot for flow, slot in where.items()),
        "moved_with_a_slot_less": sum(after[flow].slot != slot for flow, slot in where.items()),
        "least_that_must_move": of_lost,
        "edges_per_slot": {"median": statistics.median(per_slot.values()), "most": max(per_slot.values())},
        "edge_slot_pairs": len(pairs),
        "pairs_if_cut_like_a_rope": edges + slots - 1,
        "pickled_bytes": {"all": sum(map(len, sealed)), "largest_slot": max(map(len, sealed))},
        "driver_bytes_per_flow": round(grown / len(ledger)),
    }


def _ledger_of(flows: EpochFlows) -> dict[EdgePartition, LedgerRecord]:
    return {plan.source: plan.entry for plans in flows.by_slot.values() for plan in plans}


def points(axes: Iterable[str]) -> Iterator[tuple[str, int]]:
    """What is to be measured."""
    return ((axis, value) for axis in axes for value in AXES[axis])


def measure(file: Path, axes: list[str], records: int) -> None:
    """Measure what `file` does not hold yet, and append it, point by point."""
    done = {(one["axis"], one["value"]) for one in read(file)}
    left = [point for point in points(axes) if point not in done]
    with_brokers = [point for point in left if point[0] != "fields"]
    for axis, fields in left:
        if axis == "fields":
            _append(file, axis, fields, {"cpu_us": strip_us(fields)})
    if not with_brokers:
        return
    with tempfile.TemporaryDirectory() as folder:
        edges = max(value if axis == "edges" else 1 for axis, value in with_brokers)
        sandbox = Sandbox.up(Path(folder), ("eu", "us", "ap")[:edges])
        try:
            replicated(sandbox, records, **BASE)  # brokers whose code is compiled: their first run would be an outlier
            for axis, value in with_brokers:
                _append(file, axis, value, replicated(sandbox, records, **(BASE | {axis: value})))
        finally:
            sandbox.down()


def _append(file: Path, axis: str, value: int, found: Mapping[str, float]) -> None:
    line = {"axis": axis, "value": value, **found}
    print(line, file=sys.stderr, flush=True)
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")


def read(file: Path) -> list[dict]:
    """Points measured so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def strip_us(fields: int) -> float:
    """CPU microseconds per record of strip alone: records of so many fields, an eighth of them dropped."""
    kinds = ("string", "long", "double", "int")
    shape = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", "type": kinds[n % 4]} for n in range(fields)],
    }
    dropped = "".join(f"      f{n}: drop\n" for n in range(0, fields, 8))
    policy = parse_policy(
        f"policy: p\nversion: 1\ntopics:\n  t:\n    key: keep\n    default: keep\n    fields:\n{dropped}"
    )
    registry, parsed, out = MemoryRegistry(), fastavro.parse_schema(shape), io.BytesIO()
    drawn = {f"f{n}": ("text of a field", 123_456, 0.5, 7)[n % 4] for n in range(fields)}
    fastavro.schemaless_writer(out, parsed, drawn)
    schema_id = registry.register("t-value", json.dumps(shape))
    batch = Batch([None] * 4000, [frame(schema_id, out.getvalue())] * 4000, [None] * 4000)
    strip = KernelStrip(
        policy=policy, edge_topic="t", central_topic="e.t", edge_registry=registry, central_registry=MemoryRegistry(),
        key_rings=KEYS, today=utc_today, now_s=time.monotonic,
    )  # fmt: skip
    strip.strip(batch)  # compiles
    return round(min(_strip_s(strip, batch) for _ in range(15)) / 4000 * 1e6, 3)


def _strip_s(strip: KernelStrip, batch: Batch) -> float:
    began = time.process_time()
    assert not strip.strip(batch).rejected
    return time.process_time() - began


def replicated(sandbox: Sandbox, records: int, *, edges: int, partitions: int, **size: int) -> dict[str, float]:
    """One hub with one slot over a backlog that is spread over edges and partitions."""
    names = list(sandbox.edges)[:edges]
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(sandbox, Path(folder))
        trial.settings["edges"] = {name: trial.settings["edges"][name] for name in names}
        del trial.settings["lake"], trial.settings["topics"][0]["lake"]
        trial.write()
        values = [_order(number, size["bytes"]) for number in range(1000)]
        for edge in names:
            trial.create(edge, partitions)
            some = ((b"k%d" % (n % 997), values[n % 1000], n % partitions) for n in range(records // edges))
            trial.produce_raw(edge, some)
        total = records // edges * edges
        try:
            return _run(trial, [f"{edge}.{trial.topic}" for edge in names], total)
        finally:
            trial.close()


def _order(number: int, size: int) -> bytes:
    out = io.BytesIO()
    order = {"id": number, "email": "", "customer": f"customer-{number:012d}", "amount": number / 4}
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), order)
    order["email"] = "x" * max(0, size - len(out.getvalue()) - 7)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), order)
    return b"\0" + (7).to_bytes(4, "big") + out.getvalue()


def _run(trial: Trial, topics: list[str], records: int) -> dict[str, float]:
    with trial.running("--only", "replicate") as hub:
        began, sampler = time.monotonic(), Sampler(hub.pid)
        before: tuple[float, float, int] | None = None
        while (count := sum(map(trial.ends, topics))) < records:
            spent = sum(sampler.sample().values())
            if before is None and count >= records / 5:
                before = (time.monotonic(), spent, count)
            assert hub.poll() is None, hub.log.read_text()[-3000:]
            assert time.monotonic() - began < _PATIENCE_S, hub.log.read_text()[-3000:]
            time.sleep(0.05)
        ended, spent = time.monotonic(), sum(sampler.sample().values())
    assert before is not None, "too few records for a measurement"
    at, already, moved = before[0], before[1], records - before[2]
    return {
        "cpu_us": round((spent - already) / moved * 1e6, 2),
        "records_per_s": round(moved / (ended - at)),
        "peak_worker_mb": round(sampler.peak_worker_bytes / 1e6),
    }


def fitted(found: list[dict]) -> dict[str, dict[str, float]]:
    """CPU microseconds per record as a straight line of each axis: at nothing, per unit, and the largest error."""
    answer = {}
    for axis in AXES:
        line = [(one["value"], one["cpu_us"]) for one in found if one["axis"] == axis]
        if len(line) < 2:
            continue
        slope, start = statistics.linear_regression(*zip(*line, strict=True))
        errors = [abs(start + slope * value - cost) for value, cost in line]
        answer[axis] = {
            "at_zero_us": round(start, 2),
            "per_unit_us": round(slope, 4),
            "largest_error_us": round(max(errors), 2),
            "points": len(line),
        }
    return answer


def main() -> None:
    """Simulate; measure where a file is given; fit; print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100)
    parser.add_argument("--topics", type=int, default=200, help="of each edge")
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="of each simulated phase")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure what is not in FILE yet, on real brokers")
    parser.add_argument("--axes", default=",".join(AXES), help="which of them to measure")
    parser.add_argument("--records", type=int, default=300_000, help="of each point")
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    simulated = simulate(options.edges, options.topics, options.partitions, options.slots, rounds=options.rounds)
    answer: dict[str, object] = {"simulated": simulated}
    if options.measure:
        measure(options.measure, options.axes.split(","), options.records)
        answer |= {"measured": read(options.measure), "fitted": fitted(read(options.measure))}
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
