"""Start: seconds from the hub's command to its first record at central, beside a bare Spark session's first task.

    python -m tests.bench.start -o json

Both in the same environment, in turns, with the same Spark settings. Where the hub's time goes is read from outside, so
that asking costs nothing: when its JVM appears (`import`), when it writes its lease (`session`), its epoch
(`discovery`, beside which the workers load) and the first positions (`task`: Spark's task, the worker's transactional
id), and when the first record can be read (`first_commit`: poll, plan, strip, transaction). `after_bare_s` is what the
hub needs beyond the bare session; the median over the rounds counts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from aggregator.sandbox.sandbox import Sandbox
from tests.bench.slots import BARE
from tests.processes import environment
from tests.trial import Trial, read_all

RECORDS = 3_000
_PATIENCE_S = 120.0


def bare() -> dict[str, float]:
    """A session and one Python task."""
    began = time.time()
    process = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True, env=environment())
    try:
        jvm = _jvm_of(process)
        assert process.stdout.readline() == "task\n", "the bare session failed"
        ended = time.time()
    finally:
        process.wait(60)
        process.stdout.close()
    return {"import": jvm - began, "session_and_task": ended - jvm, "total": ended - began}


def hub(sandbox: Sandbox) -> dict[str, float]:
    """One hub, from its command to the first record of an edge's backlog that a read_committed reader can see."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(sandbox, Path(folder))
        trial.create("eu")
        trial.produce("eu", RECORDS)
        del trial.settings["lake"], trial.settings["topics"][0]["lake"]
        trial.write()
        central = f"eu.{trial.topic}"
        trial.ends(central)  # the admin client connects before the clock starts
        began = time.time()
        with trial.running("--only", "replicate") as process:
            jvm = _jvm_of(process)
            while not trial.ends(central):
                assert process.poll() is None, process.log.read_text()[-3000:]
                assert time.time() - began < _PATIENCE_S, process.log.read_text()[-3000:]
                time.sleep(0.02)
            ended = time.time()
            control = _first_times(sandbox, f"{trial.hub}.control")
            (position,) = {min(_first_times(sandbox, f"{trial.hub}.ledger").values())}
        trial.close()
    marks = [began, jvm, control["lease"], control["epoch"], position, ended]
    names = ("import", "session", "discovery", "task", "first_commit")
    phases = {name: later - earlier for name, earlier, later in zip(names, marks, marks[1:], strict=False)}
    return phases | {"total": ended - began}


def _jvm_of(process: subprocess.Popen) -> float:
    """When the JVM of a Spark driver was seen; the kernel's own times of processes are a second wrong at times."""
    while process.poll() is None:
        try:
            if any(child.name() == "java" for child in psutil.Process(process.pid).children(recursive=True)):
                return time.time()
        except psutil.NoSuchProcess:  # one of them ended just now
            continue
        time.sleep(0.02)
    raise AssertionError("ended without a JVM")


def _first_times(sandbox: Sandbox, topic: str) -> dict[str, float]:
    """When the first record of each key was written; one machine, one clock."""
    times: dict[str, float] = {}
    for message in read_all(sandbox.central.bootstrap, topic):
        times.setdefault(message.key().decode(), message.timestamp()[1] / 1000)
    return times


def measure(rounds: int) -> dict[str, object]:
    """All rounds, every second one in reverse."""
    found: dict[str, list[dict[str, float]]] = {"bare": [], "hub": []}
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder), ("eu",))
        try:
            for number in range(rounds):
                for name in ("bare", "hub") if number % 2 == 0 else ("hub", "bare"):
                    found[name].append(bare() if name == "bare" else hub(sandbox))
                    print(name, {phase: round(took, 2) for phase, took in found[name][-1].items()}, file=sys.stderr)
        finally:
            sandbox.down()
    after = [one["total"] - other["total"] for one, other in zip(found["hub"], found["bare"], strict=True)]
    medians = {
        name: {phase: round(statistics.median(one[phase] for one in runs), 2) for phase in runs[0]}
        for name, runs in found.items()
    }
    spread = [round(min(after), 2), round(max(after), 2)]
    return {"rounds": rounds, "after_bare_s": round(statistics.median(after), 2), "spread_s": spread} | medians


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    print(json.dumps(measure(options.rounds), indent=2))


if __name__ == "__main__":
    main()
