"""Latency beside MirrorMaker 2 exactly once: from an edge's append to a read_committed reader at central.

    python -m tests.bench.latency -o json
    python -m tests.bench.latency --rounds 1 --seconds 10 -o json

Both contestants in one run, in alternation, at each rate per edge: median, 99th percentile and the longest (a blip);
beside it the same from the producer's call, which holds the time that the edge's broker took.
Orders are written at an even rate by one process and read by another (`pace`), and every record has to show exactly
once. One machine carries brokers, contestant, writer, reader and this script; on two cores the load is part of every
figure, and is reported in cores: `others` is the watching reader, some 0.1, and whoever else runs here, who should
not. Then topics are added at an edge, one a second, while records flow, and the longest time without any is told. At
last one of them gets more partitions, which ends the epoch, and the same is told.

MirrorMaker 2 runs with the bench's settings but two that trade latency for throughput: it fetches what is there at
once, and its producer lingers for nothing. This hub drops one field and pseudonymises one.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from confluent_kafka.admin import NewPartitions

from aggregator.sandbox.sandbox import Sandbox
from tests.bench import mirrormaker
from tests.bench.pace import APPEND_TIME, PARTITIONS
from tests.bench.slots import Sampler
from tests.processes import kill_all
from tests.trial import Trial, read_all, settle, wait_for

RATES = (1_000, 20_000)
QUICK = {"consumer.fetch.min.bytes": "1"}
QUICK_PRODUCER = {"linger.ms": "0"}
_WARM_RATE, _WARM_S = 5_000, 8
_SETTLE_S = 2.0
_CHANGE_S = 8.0
_ADDED = 8


@dataclass(frozen=True)
class Phase:
    """Records written at one rate, between two moments."""

    rate: int
    first: float
    last: float
    records: int
    load: Mapping[str, float]


@dataclass(frozen=True)
class Contestant:
    """Who copies: where its copies are, what makes its process, and, of a hub, its trial."""

    name: str
    topics: list[str]
    start: Callable[[], AbstractContextManager]
    trial: Trial | None = None


def hub(sandbox: Sandbox, folder: Path, topic: str, slots: int) -> Contestant:
    """This project's hub under a name of its own."""
    folder.mkdir()
    trial = Trial(sandbox, folder, slots=slots)
    (folder / "schemas" / f"{topic}-value").mkdir()
    orders = folder / "schemas" / f"{trial.topic}-value" / "1-7.avsc"
    (folder / "schemas" / f"{topic}-value" / "1-7.avsc").write_text(orders.read_text())
    (rule,) = trial.settings["topics"]
    rule |= {"match": f"{topic}.*", "central": f"{{edge}}.{{topic}}.{trial.mark}"}
    del rule["lake"], trial.settings["lake"]
    trial.write()
    topics = [f"{edge}.{topic}.{trial.mark}" for edge in sandbox.edges]
    return Contestant("hub", topics, lambda: trial.running("--only", "replicate"), trial)


def mm2(sandbox: Sandbox, folder: Path, topic: str) -> Contestant:
    """MirrorMaker 2 exactly once, one process for all edges, under aliases of its own."""
    aliases = {edge: f"{edge}{uuid.uuid4().hex[:6]}" for edge in sandbox.edges}
    properties: dict[str, str] = {}
    for edge, alias in aliases.items():
        source, central = sandbox.edges[edge].bootstrap, sandbox.central.bootstrap
        port = mirrormaker.free_port()
        properties |= mirrormaker.settings(alias, source, central, topic, exactly_once=True, port=port)
        properties |= {f"{alias}->central.{name}": value for name, value in QUICK.items()}
    properties |= {f"central.producer.{name}": value for name, value in QUICK_PRODUCER.items()}
    properties["clusters"] = ", ".join([*aliases.values(), "central"])
    topics = [f"{alias}.{topic}" for alias in aliases.values()]
    return Contestant("mm2_exactly_once", topics, lambda: mirrormaker.running(folder, properties))


@contextmanager
def _watched(topics: list[str], servers: str, file: Path) -> Iterator[None]:
    """Both moments of every record are in `file` after the block."""
    command = [sys.executable, "-m", "tests.bench.pace", "watch", str(file), ",".join(topics), servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        process.stdout.readline()
        time.sleep(_SETTLE_S)  # until it has found the ends
        yield
        process.terminate()
        assert process.wait(30) == 0
    finally:
        kill_all(process)
        process.stdout.close()


def _write(sandbox: Sandbox, topic: str, rate: int, seconds: float) -> subprocess.Popen:
    servers = [edge.bootstrap for edge in sandbox.edges.values()]
    command = [sys.executable, "-m", "tests.bench.pace", "write", str(rate), str(seconds), topic, *servers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _written(process: subprocess.Popen) -> dict[str, float]:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, "the writer failed"
    return json.loads(said)


class _Load:
    """Cores in use between two looks: the whole machine, the contestant, and the brokers."""

    def __init__(self, contestant: int, brokers: list[int]) -> None:
        self._kinds = {"contestant": [Sampler(contestant)], "brokers": [Sampler(pid) for pid in brokers]}
        self._before, self._began = self._spent(), time.monotonic()

    def _spent(self) -> dict[str, float]:
        cores = psutil.cpu_times()
        spent = {"machine": sum(cores) - cores.idle - cores.iowait - cores.guest - cores.guest_nice}
        return spent | {
            kind: sum(sum(one.sample().values()) for one in samplers) for kind, samplers in self._kinds.items()
        }

    def cores(self, ends_s: float) -> dict[str, float]:
        """Cores since the beginning; `ends_s` is the CPU time of the writer. What is left over is other programs."""
        took = time.monotonic() - self._began
        used = {kind: (now - self._before[kind]) / took for kind, now in self._spent().items()}
        used["writer"] = ends_s / took
        used["others"] = used["machine"] - used["contestant"] - used["brokers"] - used["writer"]
        return {f"{kind}_cores": value for kind, value in used.items()}


def _phase(sandbox: Sandbox, topic: str, rate: int, seconds: float, contestant: subprocess.Popen) -> Phase:
    load = _Load(contestant.pid, [one.pid for one in sandbox.clusters])
    said = _written(_write(sandbox, topic, rate, seconds))
    used = load.cores(said["cpu_s"]) | {"writer_late_ms": said["late_ms"]}
    time.sleep(_SETTLE_S)
    return Phase(rate, said["first"], said["last"], int(said["records"]), used)


def _growth(sandbox: Sandbox, topic: str, trial: Trial) -> Phase:
    """Records flow at the first rate while the first edge gets a topic each second, which running slots take."""
    edge, before = next(iter(sandbox.edges)), trial.epochs()
    writing = _write(sandbox, topic, RATES[0], _CHANGE_S + _ADDED)
    time.sleep(2)
    for number in range(_ADDED):
        trial.create(edge, PARTITIONS, topic=f"{topic}-added-{number}-{trial.mark}")
        time.sleep(1)
    said = _written(writing)
    time.sleep(_SETTLE_S)
    assert trial.epochs() == before, "an epoch ended for a new topic"
    return Phase(RATES[0], said["first"], said["last"], int(said["records"]), {"topics": _ADDED})


def _change(sandbox: Sandbox, topic: str, trial: Trial) -> Phase:
    """Records flow at the first rate while an added topic gets more partitions, which ends the epoch."""
    writing = _write(sandbox, topic, RATES[0], _CHANGE_S)
    time.sleep(2)
    changed_ms, more = time.time() * 1e3, NewPartitions(f"{topic}-added-0-{trial.mark}", PARTITIONS + 1)
    settle(trial.admin(next(iter(sandbox.edges))).create_partitions([more]))
    said = _written(writing)
    time.sleep(_SETTLE_S)
    return Phase(RATES[0], said["first"], said["last"], int(said["records"]), _standstill(sandbox, trial, changed_ms))


def _standstill(sandbox: Sandbox, trial: Trial, changed_ms: float) -> dict[str, float]:
    """Where the time goes, by the times of the hub's own records: seen, ended and opened, first records committed."""
    central = sandbox.central.bootstrap
    control = [(m.key(), m.timestamp()[1]) for m in read_all(central, f"{trial.hub}.control")]
    asked, opened = (max(at for key, at in control if key == kind) for kind in (b"end", b"epoch"))
    assert changed_ms < asked < opened, "no epoch followed the new partition"
    ledger = [m.timestamp()[1] for m in read_all(central, f"{trial.hub}.ledger")]
    moved = min((at for at in ledger if at > opened), default=opened)
    return {"seen_ms": asked - changed_ms, "opened_ms": opened - asked, "moved_ms": moved - opened}


def _await_quiet(sandbox: Sandbox, topics: list[str]) -> None:
    """Everything that was written to warm up is at central: its topics have grown, and grow no more."""
    with tempfile.TemporaryDirectory() as folder:
        judge, seen = Trial(sandbox, Path(folder)), [0, -1]

        def quiet() -> bool:
            seen.append(sum(map(judge.ends, topics)))
            return seen[-1] == seen[-2] == seen[-3] > 0

        try:
            wait_for(lambda: quiet() or time.sleep(0.4), timeout=60, what="the end of the warm-up")
        finally:
            judge.close()


def trial_of(sandbox: Sandbox, contestant: Contestant, topic: str, seconds: float, file: Path) -> dict[str, dict]:
    """One contestant through all rates, and of the hub the added topics and the epoch change.

    Raises:
        AssertionError: it ended, or a record was lost or showed twice.
    """
    with contestant.start() as process:
        warm = _write(sandbox, topic, _WARM_RATE, _WARM_S + 15)
        _written(warm)
        _await_quiet(sandbox, contestant.topics)
        with _watched(contestant.topics, sandbox.central.bootstrap, file):
            phases = [_phase(sandbox, topic, rate, seconds, process) for rate in RATES]
            hub_only = {"topics_added": _growth, "epoch_change": _change} if contestant.trial else {}
            changes = {name: change(sandbox, topic, contestant.trial) for name, change in hub_only.items()}
        assert process.poll() is None, process.log.read_text()[-3000:]
    found = np.load(file)
    told = {str(phase.rate): phase for phase in phases} | changes
    return {name: _figures(found, phase, len(sandbox.edges)) for name, phase in told.items()}


def _figures(found, phase: Phase, edges: int) -> dict[str, float]:
    """Milliseconds of one phase; every record written in it showed once."""
    of_phase = (found["written"] >= phase.first) & (found["written"] <= phase.last)
    written, shown = found["written"][of_phase], np.sort(found["shown"][of_phase])
    assert len(np.unique(written)) == len(written) == phase.records * edges, (
        f"{phase.records * edges} written, {len(written)} showed, {len(np.unique(written))} of them once"
    )
    waited = (found["shown"][of_phase] - found["appended"][of_phase]) * 1e3
    called = (found["shown"][of_phase] - written) * 1e3
    return {
        "median_ms": round(float(np.median(waited)), 1),
        "p99_ms": round(float(np.percentile(waited, 99)), 1),
        "max_ms": round(float(waited.max()), 1),
        "from_call_median_ms": round(float(np.median(called)), 1),
        "from_call_p99_ms": round(float(np.percentile(called, 99)), 1),
        "longest_gap_ms": round(float(np.diff(shown).max()) * 1e3, 1),
        "achieved_per_s": round(len(written) / edges / (phase.last - phase.first)),
        **{name: round(value, 2) for name, value in phase.load.items()},
    }


def measure(sandbox: Sandbox, folder: Path, *, rounds: int, seconds: float, slots: int) -> dict[str, object]:
    """All rounds; every second one in reverse."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for number in range(rounds):
        topic = f"paced{number}"
        with tempfile.TemporaryDirectory() as scratch:
            maker = Trial(sandbox, Path(scratch))
            for edge in sandbox.edges:
                maker.create(edge, PARTITIONS, topic=topic, **APPEND_TIME)
            maker.close()
        makers = [
            lambda n=number, t=topic: mm2(sandbox, folder / f"mm2-{n}", t),
            lambda n=number, t=topic: hub(sandbox, folder / f"hub-{n}", t, slots),
        ]
        for make in makers if number % 2 == 0 else reversed(makers):
            contestant = make()
            answer = trial_of(sandbox, contestant, topic, seconds, folder / f"{contestant.name}-{number}.npz")
            if contestant.trial:
                contestant.trial.close()
            for phase, figures in answer.items():
                found.setdefault(phase, {}).setdefault(contestant.name, []).append(figures)
                print(f"{contestant.name} {phase}: {figures}", file=sys.stderr, flush=True)
    return {
        phase: {name: _over_rounds(figures) for name, figures in by_name.items()} for phase, by_name in found.items()
    }


def _over_rounds(figures: list[dict[str, float]]) -> dict[str, object]:
    """The median of each figure over the rounds, and every round."""
    return {name: statistics.median(one[name] for one in figures) for name in figures[0]} | {"rounds": figures}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of each rate")
    parser.add_argument("--edges", type=int, choices=[1, 2], default=1)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    mirrormaker.jars(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder) / "clusters", ("eu", "us")[: options.edges])
        try:
            answer = measure(sandbox, Path(folder), rounds=options.rounds, seconds=options.seconds, slots=options.slots)
        finally:
            sandbox.down()
    answer |= {"rounds": options.rounds, "seconds": options.seconds, "edges": options.edges, "slots": options.slots}
    answer["mm2_settings"] = mirrormaker.TUNED | QUICK | mirrormaker.TUNED_PRODUCER | QUICK_PRODUCER
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
