"""A live flow beside a backfill: its throughput when both have more to do than the machine can, and its latency.

    python -m tests.bench.backfill -o json
    python -m tests.bench.backfill --only throughput --rate 20000 -o json

In one run and in alternation, alone and beside a backfill, which is started as a user does, reads the past of another
edge, and has no rate unless one is given: records arrive at the live edge at an even rate, and each one's way to a
read_committed reader is timed; then a backlog that was put aside there (`edge pause`) is read as fast as the hub can.
One machine carries clusters, hub, backfill and this script: read ratios, not seconds.
"""

import argparse
import itertools
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aggregator.sandbox.sandbox import Sandbox
from tests.bench.pace import APPEND_TIME
from tests.bench.slots import Sampler
from tests.processes import environment, kill_all, signal_all
from tests.trial import Trial, wait_for

LIVE, PAST = "us", "eu"
_PIECE = 200_000
_WARM_S = 2.0
_SETTLE_S = 2.0
# The pace of a backfill follows the live flows within two looks.
_PACE_S = 3.0
_TURN_S = 3.0


@dataclass(frozen=True)
class Bench:
    """One hub, and what was asked for."""

    trial: Trial
    seconds: float
    rounds: int
    rate: int | None

    @property
    def live(self) -> str:
        """The central topic of the live flow."""
        return f"{LIVE}.{self.trial.topic}"

    @property
    def past(self) -> str:
        """The central topic that the backfill writes."""
        return f"{PAST}.{self.trial.topic}"

    def fill(self, edge: str, records: int) -> None:
        """Put so many orders on an edge, quickly."""
        values = [self.trial.value(number) for number in range(997)]
        cycle = ((b"k%d" % (number % 13), values[number % 997], number % 3) for number in range(records))
        while piece := list(itertools.islice(cycle, _PIECE)):
            self.trial.produce_raw(edge, piece)

    @contextmanager
    def backfill(self) -> Iterator[subprocess.Popen]:
        """A backfill at work, started as a user does, stopped as a scheduler does; the next one goes on with it."""
        rate = ["--rate", str(self.rate)] if self.rate else []
        words = ("backfill", "run", "--yes", "--edge", PAST, "--topic", self.trial.topic, *rate)
        before = self.trial.ends(self.past)
        with (self.trial.folder / f"backfill-{time.monotonic_ns()}.log").open("w") as log:
            process = subprocess.Popen(
                self.trial.command(*words), stdout=log, stderr=log, env=environment(), start_new_session=True
            )
            try:
                at_work = lambda: self.trial.ends(self.past) > before or process.poll() is not None  # noqa: E731 - once
                wait_for(at_work, timeout=90, what="the backfill's first record")
                time.sleep(_WARM_S)
                yield process
                assert process.poll() is None, "void: the backfill ended before it was measured"
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            finally:
                kill_all(process)

    def throughput(self, records: int) -> dict[str, object]:
        """Records a second of the live flow through a backlog, beside a backfill, and alone, while that one is frozen.

        Both take turns of some seconds, so that whatever else this machine does meets both.
        """
        self._put_aside(records)
        found: dict[str, list[float]] = {"beside": [], "alone": [], "backfill": [], "backfill_cores": []}
        begin = self.trial.ends(self.live)
        with self.backfill() as process:
            self._edge("resume")
            wait_for(lambda: self.trial.ends(self.live) > begin + records / 20, timeout=60, what="the live flow")
            time.sleep(_PACE_S)
            sampler = Sampler(process.pid)
            while True:
                cpu_s = sum(sampler.sample().values())
                beside, late, took = self._turn()
                cpu_s = sum(sampler.sample().values()) - cpu_s
                signal_all(process, signal.SIGSTOP)
                alone, _, _ = self._turn()
                signal_all(process, signal.SIGCONT)
                if self.trial.ends(self.live) >= begin + records:
                    break
                for kind, one in zip(found, (beside, alone, late, cpu_s / took), strict=True):
                    found[kind].append(one)
                print({kind: round(some[-1], 2) for kind, some in found.items()}, file=sys.stderr, flush=True)
        assert found["alone"], "void: the backlog was too short"
        ratios = [beside / alone for beside, alone in zip(found["beside"], found["alone"], strict=True)]
        medians = {f"{kind}_per_s": round(statistics.median(found[kind])) for kind in ("alone", "beside", "backfill")}
        medians["backfill_cores"] = round(statistics.median(found["backfill_cores"]), 2)
        whole = round(sum(found["beside"]) / sum(found["alone"]), 3)
        return medians | {"ratio": whole, "ratios": [round(one, 3) for one in ratios]}

    def _turn(self) -> tuple[float, float, float]:
        """Records a second of the live flow and of the backfill, and over how many seconds."""
        began, live, late = time.monotonic(), self.trial.ends(self.live), self.trial.ends(self.past)
        time.sleep(_TURN_S)
        took = time.monotonic() - began
        return (self.trial.ends(self.live) - live) / took, (self.trial.ends(self.past) - late) / took, took

    def _put_aside(self, records: int) -> None:
        """A backlog at the live edge, which the hub is kept from."""
        self._edge("pause", "--reason", "bench")
        time.sleep(_SETTLE_S)
        self.fill(LIVE, records)

    def _edge(self, *words: str) -> None:
        said = self.trial.run("edge", words[0], LIVE, *words[1:])
        assert said.returncode == 0, said.stderr

    def latency(self, rate: int) -> dict[str, object]:
        """Milliseconds from an edge's append to a read_committed reader, alone and beside."""
        found: dict[str, list[dict[str, float]]] = {"alone": [], "beside": []}
        self._ways(rate)  # brokers are slow until they have compiled what they run often
        for _ in range(self.rounds):
            found["alone"].append(self._ways(rate))
            with self.backfill():
                found["beside"].append(self._ways(rate))
            print({kind: some[-1] for kind, some in found.items()}, file=sys.stderr, flush=True)
        return {"records_per_s": rate} | {
            kind: {name: round(statistics.median(one[name] for one in some), 1) for name in some[0]}
            for kind, some in found.items()
        }

    def _ways(self, rate: int) -> dict[str, float]:
        file = self.trial.folder / f"ways-{time.monotonic_ns()}.npz"
        pace = [sys.executable, "-m", "tests.bench.pace"]
        central, edge = self.trial.sandbox.central.bootstrap, self.trial.sandbox.edges[LIVE].bootstrap
        watcher = subprocess.Popen(
            [*pace, "watch", str(file), self.live, central], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            watcher.stdout.readline()
            time.sleep(_SETTLE_S)
            words = [*pace, "write", str(rate), str(self.seconds), self.trial.topic, edge]
            said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout)
            time.sleep(_SETTLE_S)
            watcher.terminate()
            watcher.wait(30)
        finally:
            kill_all(watcher)
            watcher.stdout.close()
        seen = np.load(file)
        ours = (seen["written"] >= said["first"]) & (seen["written"] <= said["last"])
        assert ours.sum() == said["records"], f"{said['records']} were written, {ours.sum()} showed"
        ways = (seen["shown"][ours] - seen["appended"][ours]) * 1e3
        return {
            "median_ms": float(np.median(ways)),
            "p99_ms": float(np.percentile(ways, 99)),
            "max_ms": float(ways.max()),
        }


def measure(bench: Bench, *, past: int, backlog: int, paced: int, only: str | None) -> dict[str, object]:
    """All of it, of one hub whose first start was behind the past."""
    trial = bench.trial
    for edge in (LIVE, PAST):
        trial.create(edge, **APPEND_TIME)
    bench.fill(PAST, past)
    trial.drain("--only", "replicate")
    answer: dict[str, object] = {}
    with trial.running("--only", "replicate"):
        bench.fill(LIVE, 3000)  # so that its central topic is there, and what compiles is compiled
        wait_for(lambda: trial.ends(bench.live) >= 3000, timeout=60, what="the live flow")
        if only != "throughput":
            answer["latency"] = bench.latency(paced)
        if only != "latency":
            answer["throughput"] = bench.throughput(backlog)
    return answer


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of each time that latency is measured")
    parser.add_argument("--past", type=int, default=3_000_000, help="records for the backfill")
    parser.add_argument("--backlog", type=int, default=6_000_000, help="records for the live flow")
    parser.add_argument("--paced", type=int, default=2_000, help="records a second where latency is timed")
    parser.add_argument("--rate", type=int, help="of the backfill; without one it takes what it can")
    parser.add_argument("--only", choices=["throughput", "latency"])
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder) / "clusters", (PAST, LIVE))
        try:
            (Path(folder) / "hub").mkdir()
            trial = Trial(sandbox, Path(folder) / "hub", start="latest")
            bench = Bench(trial, options.seconds, options.rounds, options.rate)
            answer = measure(bench, past=options.past, backlog=options.backlog, paced=options.paced, only=options.only)
            trial.close()
        finally:
            sandbox.down()
    asked = {name: getattr(options, name) for name in ("rounds", "seconds", "rate", "past", "backlog")}
    print(json.dumps(answer | asked, indent=2))


if __name__ == "__main__":
    main()
