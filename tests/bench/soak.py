"""Memory of a hub at full speed over minutes: flat, or it grows.

    python -m tests.bench.soak --minutes 10 -o json

Records come as fast as one producer writes them; once a second the resident bytes of the hub's Python workers are added
up from outside. The first fifth is warm-up. `growth_mb_per_minute` is the slope of a straight line through the rest.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psutil

from aggregator.sandbox.sandbox import Sandbox
from tests.processes import members
from tests.trial import Trial, wait_for

_BATCH = 50_000


def worker_bytes(hub) -> int:
    """Resident bytes of everything in the run that is neither a JVM nor the driver."""
    found = 0
    for one in members(hub):
        try:
            if one.pid != hub.pid and one.name() != "java":
                found += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def feed(trial: Trial, values: list[bytes], over: threading.Event) -> None:
    """Write without a pause, to both edges in turn, but never more than two million records ahead of the hub."""
    written = 0
    while not over.is_set():
        for edge in trial.sandbox.edges:
            trial.produce_raw(edge, ((b"k", values[n % 1000], n % 3) for n in range(_BATCH)))
            written += _BATCH
        while not over.is_set() and written - moved(trial) > 40 * _BATCH:
            time.sleep(0.2)


def moved(trial: Trial) -> int:
    """Offsets that central has grown by."""
    return sum(trial.ends(f"{edge}.{trial.topic}") for edge in trial.sandbox.edges)


def soak(trial: Trial, minutes: float) -> dict[str, object]:
    """One run of that many minutes, from the first record at central on."""
    values = [trial.value(n) for n in range(1000)]
    over, samples = threading.Event(), []
    feeder = threading.Thread(target=feed, args=(trial, values, over))
    with trial.running("--only", "replicate") as hub:
        feeder.start()
        try:
            wait_for(lambda: hub.poll() is not None or moved(trial) > 0, timeout=120, what="the first record")
            began, before = time.monotonic(), moved(trial)
            while (now := time.monotonic() - began) < minutes * 60:
                assert hub.poll() is None, hub.log.read_text()
                samples.append((now, worker_bytes(hub) / 1e6))
                time.sleep(1)
            records = moved(trial) - before
        finally:
            over.set()
            feeder.join()
    steady = samples[len(samples) // 5 :]
    slope = statistics.linear_regression(*zip(*steady, strict=True)).slope * 60
    by_tenth = [samples[len(samples) * tenth // 10] for tenth in range(10)] + [samples[-1]]
    return {
        "minutes": minutes,
        "records_per_s": round(records / (minutes * 60)),
        "workers_mb": {f"{seconds:.0f}s": round(megabytes) for seconds, megabytes in by_tenth},
        "peak_mb": round(max(megabytes for _, megabytes in samples)),
        "growth_mb_per_minute": round(slope, 1),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The edges delete what is long read: a soak must not fill the disk.
        small = {"log.retention.bytes": "200000000", "log.segment.bytes": "50000000"}
        quick = small | {"log.retention.check.interval.ms": "5000"}
        sandbox = Sandbox.up(
            Path(folder) / "clusters", ("eu", "us"), settings=dict.fromkeys(("eu", "us", "central"), quick)
        )
        try:
            trial = Trial(sandbox, Path(folder))
            for edge in sandbox.edges:
                trial.create(edge)
            print(json.dumps(soak(trial, options.minutes), indent=2))
        finally:
            sandbox.down()


if __name__ == "__main__":
    main()
