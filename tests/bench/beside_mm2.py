"""Beside MirrorMaker 2, on real brokers: throughput, CPU per record and memory, in one run, in alternation.

    python -m tests.bench.beside_mm2 -o json
    python -m tests.bench.beside_mm2 --rounds 1 --records 400000 -o json

The same records wait on one edge for everybody: MirrorMaker 2 exactly once and at least once, a plain transactional
copy with librdkafka, and this hub with (a) everything kept, (b) five fields dropped, (c) three dropped and two
pseudonymised, the identifiers a tenth and all of them distinct. Each round runs all of them once, every second round
in reverse. Every delivery is read back and verified. Ratios are those of neighbours in one round; the median counts,
the spread is told, cold and warm; what stands for all of it is warm. One machine runs brokers, contestant and this
script: read the ratios.
"""

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro

from aggregator.engine.allocator import faster_malloc
from aggregator.sandbox.sandbox import Sandbox
from tests.bench import mirrormaker
from tests.bench.backlog import SCHEMA_ID, Backlog, Shape
from tests.bench.contest import Contestant, Result, as_dict, race
from tests.bench.ratios import spread
from tests.processes import LoggedProcess, kill_all
from tests.trial import Trial, settle

TASKS = 2
KEEP, DROP, MIXED = "hub_keep", "hub_drop_5", "hub_mixed"
EXACTLY, LEAST = "mm2_exactly_once", "mm2_at_least_once"


def policy(name: str, shape: Shape) -> dict[str, object]:
    """What the hub does as this contestant, to every topic."""
    rules = dict.fromkeys((*shape.dropped, *shape.identifiers) if name == DROP else shape.dropped, "drop")
    tokens = {
        path: {"pseudonymize": {"key": "customer", "domain": path.rpartition(".")[2]}} for path in shape.identifiers
    }
    key: object = tokens[shape.identifiers[0]] if name == MIXED and shape.hides_keys else "keep"
    fields = {} if name == KEEP else rules if name == DROP else rules | tokens
    of_topic = {"key": key, "headers": ["traceparent"], "default": "keep", "fields": fields}
    return {"policy": "bench", "version": 1, "topics": {".*": of_topic}}


class Arena:
    """The clusters of one bench run and everybody who may run on them."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.sandbox = Sandbox.up(folder / "clusters", ("eu",))
        self._folder = folder
        self._slots = slots

    @property
    def brokers(self) -> list[int]:
        """Process ids."""
        return [cluster.pid for cluster in self.sandbox.clusters if cluster.pid is not None]

    def mirrormaker(self, name: str, backlog: Backlog) -> Contestant:
        """MirrorMaker 2 under an alias of its own, so that it knows nothing of earlier rounds."""
        alias = f"r{uuid.uuid4().hex[:6]}"
        properties = mirrormaker.settings(
            alias,
            self.sandbox.edges["eu"].bootstrap,
            self.sandbox.central.bootstrap,
            backlog.topic,
            exactly_once=name == EXACTLY,
            port=mirrormaker.free_port(),
            codec=backlog.codec,
        )
        topic = f"{alias}.{backlog.topic}"
        return Contestant(
            name, topic, lambda: mirrormaker.running(self._folder / alias, properties), _unchanged(backlog)
        )

    def floor(self, backlog: Backlog) -> Contestant:
        """The plain copy, to a topic of its own."""
        topic = f"plain-{uuid.uuid4().hex[:6]}"
        self._create(topic, backlog.partitions)
        return Contestant("plain_copy", topic, lambda: self._plain(backlog.topic, topic), _unchanged(backlog))

    def hub(self, name: str, backlog: Backlog, workers: Mapping[str, str] = {}) -> Contestant:
        """This project's hub, under a name of its own; `workers` is what their environment has more."""
        folder = self._folder / uuid.uuid4().hex[:6]
        folder.mkdir()
        trial = Trial(self.sandbox, folder, slots=self._slots)
        subject = folder / "schemas" / f"{backlog.topic}-value"
        subject.mkdir()
        (subject / f"1-{SCHEMA_ID}.avsc").write_text(json.dumps(backlog.shape.schema))
        (folder / "policy.yaml").write_text(json.dumps(policy(name, backlog.shape)))
        (rule,) = trial.settings["topics"]
        rule |= {"match": backlog.topic, "central": f"{{edge}}.{{topic}}.{trial.mark}"}
        del rule["lake"], trial.settings["lake"]
        if workers:
            conf = {f"spark.executorEnv.{key}": value for key, value in workers.items()}
            trial.settings["spark"] = {"conf": conf}
        trial.settings["central"]["producer"] = {"compression.type": backlog.codec}
        trial.write()
        check = _unchanged_but_id(backlog) if name == KEEP else _stripped(name, backlog.shape, folder)
        topic = f"eu.{backlog.topic}.{trial.mark}"
        return Contestant(name, topic, lambda: trial.running("--only", "replicate"), check)

    def _create(self, topic: str, partitions: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Trial(self.sandbox, Path(folder)).create("central", partitions, topic=topic)

    @contextmanager
    def _plain(self, source: str, target: str) -> Iterator[LoggedProcess]:
        log = self._folder / f"{target}.log"
        servers = [self.sandbox.edges["eu"].bootstrap, self.sandbox.central.bootstrap]
        with log.open("w") as out:
            process = LoggedProcess(
                [sys.executable, "-m", "tests.bench.plain_copy", *servers, source, target],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            process.log = log
            try:
                yield process
            finally:
                kill_all(process)

    def drop(self, topic: str) -> None:
        """Give central's disk back."""
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(self.sandbox, Path(folder))  # kept: what a collected client was asked for is never told
            settle(trial.admin("central").delete_topics([topic]))


def _some(messages: list) -> list:
    return messages[:: max(1, len(messages) // 100)]


def _unchanged(backlog: Backlog) -> Callable[[list], None]:
    """A copy carries the writer's own bytes, key and header."""
    shape = backlog.shape

    def verify(messages: list) -> None:
        for message in _some(messages):
            assert message.value()[:5] == b"\0" + SCHEMA_ID.to_bytes(4, "big")
            assert _at(_parsed(message.value(), shape.schema), shape.shop) == "berlin-mitte"
            assert ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c") in message.headers()

    return verify


def _unchanged_but_id(backlog: Backlog) -> Callable[[list], None]:
    """Everything is kept; the schema's id is central's."""

    def verify(messages: list) -> None:
        for message in _some(messages):
            assert b"@mail.example" in message.value()
            assert _at(_parsed(message.value(), backlog.shape.schema), backlog.shape.shop) == "berlin-mitte"
            assert "hub.origin" in dict(message.headers())

    return verify


def _stripped(name: str, shape: Shape, folder: Path) -> Callable[[list], None]:
    """No dropped field is left, no identifier is what it was, and the rest is."""
    schemas: dict[int, dict] = {}
    kept = set() if name == DROP else set(shape.identifiers)

    def verify(messages: list) -> None:
        for message in _some(messages):
            value = message.value()
            at = int.from_bytes(value[1:5], "big")
            if at not in schemas:
                (path,) = (folder / "central-schemas").glob(f"*/*-{at}.avsc")
                schemas[at] = fastavro.parse_schema(json.loads(path.read_text()))
            record = _parsed(value, schemas[at])
            assert _at(record, shape.shop) == "berlin-mitte"
            assert record["amount"] == record["id"] / 4
            assert b"@mail.example" not in value
            left = {path for path in (*shape.dropped, *shape.identifiers) if _at(record, path) is not None}
            assert left == kept
            assert all(_at(record, path).startswith("v1_") for path in kept)
            assert message.key().startswith(b"v1_") == (shape.hides_keys and name == MIXED)
            assert "hub.origin" in dict(message.headers())

    return verify


def _at(record: dict, path: str) -> Any:
    """What a record has at a path; None where it has no such field."""
    found: Any = record
    for step in path.split("."):
        found = (found or {}).get(step)
    return found


def _parsed(value: bytes, schema: dict) -> dict:
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(schema))


def rounds(arena: Arena, backlogs: dict[str, Backlog], count: int) -> dict[str, dict[str, list[Result]]]:
    """All results, by backlog and contestant."""
    results: dict[str, dict[str, list[Result]]] = {name: {} for name in backlogs}
    for number in range(count):
        for size, backlog in backlogs.items():
            makers = [
                *((name, lambda n=name, b=backlog: arena.mirrormaker(n, b)) for name in (EXACTLY, LEAST)),
                ("plain_copy", lambda b=backlog: arena.floor(b)),
                *((name, lambda n=name, b=backlog: arena.hub(n, b)) for name in (KEEP, DROP, MIXED)),
            ]
            if size.endswith("all_distinct"):
                makers = [(EXACTLY, makers[0][1]), ("hub_mixed", makers[-1][1])]
            for name, make in makers if number % 2 == 0 else reversed(makers):
                contestant = make()
                found = race(contestant, backlog, arena.brokers, arena.sandbox.central.bootstrap)
                arena.drop(contestant.topic)
                results[size].setdefault(name, []).append(found)
                print(f"{size} {name}: {as_dict(found)}", file=sys.stderr, flush=True)
    return results


def _ratios(results: dict[str, list[Result]], base: str, what: str) -> dict[str, dict[str, float]]:
    """Each contestant's figure by that of `base` in the same round: median, least, most."""
    theirs = [as_dict(one)[what] for one in results[base]]
    return {name: spread((as_dict(one)[what] for one in found), theirs) for name, found in results.items()}


def answer_of(results: dict[str, dict[str, list[Result]]]) -> dict[str, object]:
    """The whole answer."""
    answer: dict[str, object] = {}
    for size, found in results.items():
        medians = {
            name: {field: statistics.median(as_dict(one)[field] for one in runs) for field in as_dict(runs[0])}
            for name, runs in found.items()
        }
        answer[size] = {
            "medians": medians,
            "cpu_ratio_vs_mm2_eos": _ratios(found, EXACTLY, "cpu_us"),
            "throughput_ratio_vs_mm2_eos": _ratios(found, EXACTLY, "records_per_s"),
            "warm_cpu_ratio_vs_mm2_eos": _ratios(found, EXACTLY, "warm_cpu_us"),
            "warm_throughput_ratio_vs_mm2_eos": _ratios(found, EXACTLY, "warm_records_per_s"),
        }
    small = answer["160_bytes"]
    answer["cpu_ratio_vs_mm2_eos"] = small["warm_cpu_ratio_vs_mm2_eos"]["hub_mixed"]["median"]
    answer["throughput_ratio_vs_mm2_eos"] = small["warm_throughput_ratio_vs_mm2_eos"]["hub_drop_5"]["median"]
    return answer


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="of 160 bytes; a quarter as many of 1 kB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=TASKS)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    backlogs = {
        "160_bytes": Backlog("visits", options.records, 160, 0.1),
        "160_bytes_all_distinct": Backlog("visits-distinct", options.records, 160, 1.0),
        "1_kb": Backlog("visits-large", options.records // 4, 1000, 0.1),
    }
    mirrormaker.jars(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        arena = Arena(Path(folder), options.slots)
        try:
            for backlog in backlogs.values():
                backlog.fill(arena.sandbox.edges["eu"].bootstrap)
            answer = answer_of(rounds(arena, backlogs, options.rounds))
        finally:
            arena.sandbox.down()
    answer |= {"rounds": options.rounds, "records": options.records, "slots": options.slots}
    answer["hub_malloc"] = faster_malloc() or "glibc's malloc"
    answer["mm2_settings"] = mirrormaker.TUNED | mirrormaker.TUNED_PRODUCER
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
