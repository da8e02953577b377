"""Replication alone, on real brokers: records per second, CPU per record, memory and start, with one and two slots.

    python -m tests.bench.slots --records 500000 -o json

Measured from outside, between 20 % and 100 % of the records: progress from central's end offsets, CPU and memory of the
hub's own processes from the operating system (Python workers and JVM apart). The start is compared with a bare Spark
session's first Python task in the same run. One machine runs brokers, hub and this script: read ratios, not seconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aggregator.sandbox.sandbox import Sandbox
from tests.trial import Trial

# Of a topic that is not there a client knows only when the whole time-out is over: who asks is blind for so long.
GLANCE_S = 1.0
BARE = """
from pathlib import Path
from aggregator.config.model import HubConfig
from aggregator.engine.session import open_session
config = HubConfig(hub="bare", central={"bootstrap_servers": "127.0.0.1:1"}, edges={})
spark = open_session(config, "bare")
spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()
print("task", flush=True)
spark.stop()
"""


def bare_start_s() -> float:
    """Seconds from process start to the end of a bare session's first Python task."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    took = time.monotonic() - began
    process.wait(60)
    return took


class Sampler:
    """CPU seconds and resident bytes of a process and everything below it, Python workers and JVM apart.

    Attributes:
        peak_bytes: Most that all of them held at once.
        peak_worker_bytes: Most that one Python worker held.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._last: dict[int, tuple[str, float]] = {}
        self.peak_bytes = self.peak_worker_bytes = 0

    def sample(self) -> dict[str, float]:
        """CPU seconds by kind, processes that ended included."""
        held = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                with process.oneshot():
                    kind = "jvm" if process.name() == "java" else "python"
                    times, resident = process.cpu_times(), process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            self._last[process.pid] = (kind, times.user + times.system)
            held += resident
            if kind == "python" and process.pid != self._root.pid:
                self.peak_worker_bytes = max(self.peak_worker_bytes, resident)
        self.peak_bytes = max(self.peak_bytes, held)
        return {kind: sum(cpu for found, cpu in self._last.values() if found == kind) for kind in ("python", "jvm")}


def measure(sandbox: Sandbox, *, records: int, slots: int) -> dict[str, float]:
    """One run of `aggregator run --only replicate` over a backlog of `records` on two edges."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(sandbox, Path(folder), slots=slots)
        for edge in sandbox.edges:
            trial.create(edge)
            trial.produce(edge, records // 2)
        admin = AdminClient({"bootstrap.servers": sandbox.central.bootstrap})
        at = [TopicPartition(f"{edge}.{trial.topic}", p) for edge in sandbox.edges for p in range(3)]

        def there() -> int:
            futures = admin.list_offsets(dict.fromkeys(at, OffsetSpec.latest()), request_timeout=GLANCE_S)
            found = 0
            for future in futures.values():
                try:
                    found += future.result().offset
                except Exception:  # noqa: BLE001 - the topic is not created yet
                    return 0
            return found

        began = time.monotonic()
        with trial.running("--only", "replicate") as hub:
            sampler = Sampler(hub.pid)
            first = fifth = None
            while (count := there()) < records:
                now, cpu = time.monotonic(), sampler.sample()
                if count and first is None:
                    first = now - began
                if count >= records / 5 and fifth is None:
                    fifth = (now, cpu, count)
                assert hub.poll() is None, hub.log.read_text()
                time.sleep(0.05)
            ended, cpu = time.monotonic(), sampler.sample()
        since, cpu_before, before = fifth
        moved = records - before
        return {
            "records_per_s": round(moved / (ended - since)),
            "python_cpu_us_per_record": round((cpu["python"] - cpu_before["python"]) / moved * 1e6, 2),
            "jvm_cpu_us_per_record": round((cpu["jvm"] - cpu_before["jvm"]) / moved * 1e6, 2),
            "peak_worker_mb": round(sampler.peak_worker_bytes / 1e6),
            "first_record_s": round(first, 2),
        }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder), ("eu", "us"))
        try:
            answer = {"records": options.records}
            answer |= {f"slots_{slots}": measure(sandbox, records=options.records, slots=slots) for slots in (1, 2)}
            answer["bare_spark_first_task_s"] = round(bare_start_s(), 2)
        finally:
            sandbox.down()
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
