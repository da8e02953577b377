"""Where the CPU of the hub goes: by process and thread, as the operating system counts it, for nested orders.

    python -m tests.bench.where --records 4000000 --rounds 3 -o json

The hub runs as in `tests.bench.warm`, over a backlog, with everything kept, seven fields dropped, or five dropped and
two identifiers and the key pseudonymised. Between 20 % of the records and their end each thread's CPU is read from
`/proc`. The rows add up to all that the hub's processes spend; what ended threads had spent is in the last one. Beside
the slots' own threads stands what strip alone costs on such records, in a process of its own: a part of that row.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import psutil

from aggregator.bytes_column import BytesColumn
from aggregator.engine.allocator import faster_malloc
from aggregator.header_columns import HeaderTable
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.wire import frame
from tests.bench.backlog import ORDERS, Backlog
from tests.bench.beside_mm2 import DROP, KEEP, MIXED, TASKS, Arena, policy
from tests.bench.contest import Contestant, Ends
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import MemoryRegistry

_BATCH, _FROM = 16_000, 0.2
SLOT, CLIENT, REST = "slots' own threads", "librdkafka's threads", "rest"
JVM, DRIVER = "driver's JVM", "driver's Python"
ROWS = (SLOT, CLIENT, JVM, DRIVER, REST)


def spent_s(root: psutil.Process) -> Counter[str]:
    """CPU seconds so far, by row."""
    found: Counter[str] = Counter()
    for process in [root, *root.children(recursive=True)]:
        try:
            times, threads = process.cpu_times(), process.threads()
            whole = times.user + times.system
            if process.name() == "java":
                found[JVM] += whole
                continue
            if process.pid == root.pid:
                found[DRIVER] += whole
                continue
            own = client = 0.0
            for thread in threads:
                name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip()
                cpu_s = thread.user_time + thread.system_time
                own += cpu_s if thread.id == process.pid else 0.0
                client += cpu_s if name.startswith("rdk:") else 0.0
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
        found += Counter({SLOT: own, CLIENT: client, REST: max(0.0, whole - own - client)})
    return found


def measure(contestant: Contestant, backlog: Backlog, central: str) -> dict[str, float]:
    """Microseconds per record, by row."""
    ends = Ends(central, contestant.topic, backlog.partitions)
    begin: tuple[int, Counter[str]] | None = None
    with contestant.start() as process:
        root = psutil.Process(process.pid)
        while (count := ends.sum()) < backlog.records:
            assert process.poll() is None, process.log.read_text()[-3000:]
            if begin is None and count >= _FROM * backlog.records:
                begin = count, spent_s(root)
            time.sleep(0.02)
        end = spent_s(root)
    assert begin is not None
    return {row: (end[row] - begin[1][row]) / (backlog.records - begin[0]) * 1e6 for row in ROWS}


def strip_us(name, records, distinct):
    """Microseconds per record of strip alone, keys and headers included, on columns as a slot has them."""
    registry, central = MemoryRegistry(), MemoryRegistry()
    schema_id = registry.register("t-value", json.dumps(ORDERS.schema))
    strip = KernelStrip(
        policy=parse_policy(json.dumps(policy(name, ORDERS))), edge_topic="t", central_topic="e.t",
        edge_registry=registry, central_registry=central, key_rings=KEYS, today=utc_today, now_s=time.monotonic,
    )  # fmt: skip
    backlog = Backlog("", records, 0, distinct, shape=ORDERS)
    rows = [(key, frame(schema_id, value[5:])) for key, value in backlog.pairs()]
    parts = [rows[at : at + _BATCH] for at in range(0, records, _BATCH)]
    empty = HeaderTable.empty
    batches = [
        Batch(BytesColumn.of([key for key, _ in part]), BytesColumn.of([value for _, value in part]), empty(len(part)))
        for part in parts
    ]
    strip.strip(batches[0])  # compiles
    began = time.process_time()
    for batch in batches[1:]:
        assert not strip.strip(batch).rejected
    return (time.process_time() - began) / (records - len(parts[0])) * 1e6


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--distinct", type=float, default=0.1)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {KEEP: [], DROP: [], MIXED: []}
    with tempfile.TemporaryDirectory() as folder:
        arena = Arena(Path(folder), TASKS)
        try:
            backlog = Backlog("orders", options.records, 0, options.distinct, shape=ORDERS)
            backlog.fill(arena.sandbox.edges["eu"].bootstrap)
            for _ in range(options.rounds):
                for name, found in runs.items():
                    contestant = arena.hub(name, backlog)
                    found.append(measure(contestant, backlog, arena.sandbox.central.bootstrap))
                    arena.drop(contestant.topic)
                    print(f"{name}: {found[-1]}", file=sys.stderr, flush=True)
        finally:
            arena.sandbox.down()
    # The round whose sum is the median one, so that the rows add up.
    typical = {name: sorted(found, key=lambda one: sum(one.values()))[len(found) // 2] for name, found in runs.items()}
    alone = {name: median(strip_us(name, 200_000, options.distinct) for _ in range(3)) for name in runs}
    asked = {"records": options.records, "rounds": options.rounds, "distinct": options.distinct}
    print(
        json.dumps(
            asked
            | {
                "where_us": {name: {row: round(us, 2) for row, us in found.items()} for name, found in typical.items()},
                "strip_us": {name: round(us, 2) for name, us in alone.items()},
                "hub_malloc": faster_malloc() or "glibc's malloc",
            }
        )
    )


if __name__ == "__main__":
    main()
