"""Compression at central: bytes of the demo's records in central's log, and the slot's CPU, by codec, in turns.

    python -m tests.bench.compression --rounds 3 -o json

The demo's flights and bookings wait on one edge, written as the demo writes them. Each hub delivers all of them to
topics of its own, with another codec of central's producer. Bytes are those of central's log segments: what went over
the wire, and what the brokers keep and replicate. CPU is that of the slot's worker, between a fifth and the last of the
records, so that what a start compiles is left out. Each round runs every codec once, every second round in reverse;
ratios are those of one round, and the median counts.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from ruamel.yaml import YAML

from aggregator.config.load import load_config
from aggregator.sandbox.demo_run import produce_to_edges
from aggregator.sandbox.sandbox import Sandbox
from tests.bench.contest import PATIENCE_S, Ends
from tests.processes import LoggedProcess, environment, kill_all
from tests.trial import settle

EDGE, PARTITIONS = "ewr", 3
TOPICS = ("flights", "bookings")
CODECS = {
    "none": {"compression.type": "none"},
    "lz4": {"compression.type": "lz4"},
    "zstd_1": {"compression.type": "zstd", "compression.level": 1},
    "zstd_3": {"compression.type": "zstd", "compression.level": 3},
}
_FROM = 0.2
# What is under way when central has as many offsets as records: markers have some, too.
_SETTLE_S = 3.0


@dataclass(frozen=True)
class Cost:
    """What one codec cost in one run.

    Attributes:
        log_bytes: In central's log, of all records.
        cpu_us: Of the slot's worker, a record.
        records_per_s: Between a fifth and the last of them.
    """

    log_bytes: int
    cpu_us: float
    records_per_s: int


def run(sandbox: Sandbox, name: str, records: int) -> Cost:
    """One hub with one codec, from the first record to the last."""
    mark = f"{name.replace('_', '-')}-{time.monotonic_ns() % 10**9}"
    settings = YAML(typ="safe").load(sandbox.config)
    settings["hub"] = mark
    settings["central"]["producer"] = CODECS[name]
    settings.pop("lake", None)
    for rule in settings["topics"]:
        rule.pop("lake", None)
        rule["central"] = mark + ".{edge}.{topic}"
    config = sandbox.dir / f"{mark}.yaml"
    config.write_text(json.dumps(settings))
    names = [f"{mark}.{EDGE}.{topic}" for topic in TOPICS]
    ends = [Ends(sandbox.central.bootstrap, topic, PARTITIONS) for topic in names]
    began, fifth = time.monotonic(), None
    with _running(config) as hub:
        while (count := sum(one.sum() for one in ends)) < records:
            spent = _workers_s(hub.pid)
            if fifth is None and count >= records * _FROM:
                fifth = time.monotonic(), spent, count
            assert hub.poll() is None, hub.log.read_text()[-3000:]
            assert time.monotonic() - began < PATIENCE_S, f"{mark} has {count} of {records}"
            time.sleep(0.05)
        now, spent = time.monotonic(), _workers_s(hub.pid)
        time.sleep(_SETTLE_S)
    at, before, there = fifth or (began, 0.0, 0)
    size = sum(file.stat().st_size for topic in names for file in _segments(sandbox, topic))
    admin = AdminClient({"bootstrap.servers": sandbox.central.bootstrap})
    settle(admin.delete_topics(names))
    return Cost(size, round((spent - before) / (count - there) * 1e6, 2), round((count - there) / (now - at)))


@contextmanager
def _running(config: Path):
    log = config.with_suffix(".log")
    command = [sys.executable, "-m", "aggregator.cli.main", "run", "--only", "replicate", "--config", str(config)]
    with log.open("w") as out:
        hub = LoggedProcess(command, stdout=out, stderr=out, env=environment(), start_new_session=True)
        hub.log = log
        try:
            yield hub
        finally:
            kill_all(hub)


def _segments(sandbox: Sandbox, topic: str):
    return sandbox.central.brokers[0].data.glob(f"{topic}-*/*.log")


def _workers_s(pid: int) -> float:
    """CPU seconds of the Python processes below a hub's own."""
    spent = 0.0
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.name() != "java":
                times = process.cpu_times()
                spent += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return spent


def ratios(found: dict[str, list[Cost]], what: str) -> dict[str, dict[str, float]]:
    """Each codec beside none, in the same round: the median, and what it lies between."""
    answer = {}
    for name, costs in found.items():
        each = [getattr(cost, what) / getattr(none, what) for cost, none in zip(costs, found["none"], strict=True)]
        answer[name] = {key: round(fold(each), 3) for key, fold in _FOLDS.items()}
    return answer


_FOLDS = {"median": statistics.median, "least": min, "most": max}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    found: dict[str, list[Cost]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder) / "clusters", (EDGE,))
        try:
            produced = produce_to_edges(load_config(sandbox.config, {}), options.records)[EDGE]
            delivered = produced.total - produced.poison
            for number in range(options.rounds):
                for name in list(CODECS)[:: -1 if number % 2 else 1]:
                    found[name].append(run(sandbox, name, delivered))
        finally:
            sandbox.down()
    answer = {
        "rounds": options.rounds,
        "records": options.records,
        "codecs": {
            name: {key: statistics.median(asdict(cost)[key] for cost in costs) for key in asdict(costs[0])}
            for name, costs in found.items()
        },
        "bytes_ratio": ratios(found, "log_bytes"),
        "compression_cpu_ratio": ratios(found, "cpu_us"),
    }
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
