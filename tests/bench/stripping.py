"""What stripping costs end to end, on real brokers: CPU per record with five fields dropped, beside keeping everything.

    python -m tests.bench.stripping -o json

The same booking records are replicated again and again from one edge topic, by a new hub in each round: keep, drop,
keep, drop, …; a pair is two neighbours, and the ratio is that of a pair. CPU is that of the hub's own processes, from
the operating system, between 20 % and 100 % of the records; brokers are not counted. One machine runs brokers, hub and
this script: read the ratios.
"""

import argparse
import io
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import fastavro

from aggregator.sandbox.sandbox import Sandbox
from aggregator.schema.wire import frame
from tests.bench.slots import Sampler
from tests.bench.strip import BOOKING, CASES
from tests.trial import Trial, settle

DISTINCT = 20_000
DROPPED = ("passenger.name", "passenger.email", "passenger.phone", "contacts", "note")
SETTINGS = {"keep": (), "drop": DROPPED}
SCHEMA_ID = 2


def bookings(count: int) -> list[bytes]:
    """Booking records in wire format, the same in every run."""
    schema, drawn, *_ = CASES["booking"]
    parsed, rng, values = fastavro.parse_schema(schema), random.Random(1), []
    for number in range(count):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, drawn(rng, number))
        values.append(frame(SCHEMA_ID, out.getvalue()))
    return values


def fill(sandbox: Sandbox, topic: str, records: int) -> None:
    """Put bookings on the edge, the same ones over and over."""
    values = bookings(DISTINCT)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(sandbox, Path(folder))
        trial.create("eu", 3, topic=topic)
        trial.produce_raw(
            "eu", ((b"k%d" % (n % 997), values[n % DISTINCT], n % 3) for n in range(records)), topic=topic
        )


def cpu_us(sandbox: Sandbox, topic: str, records: int, dropped: tuple[str, ...]) -> dict[str, float]:
    """CPU microseconds per record of one hub's run over the whole topic, by kind of process."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(sandbox, Path(folder))
        central = f"eu.{topic}.{trial.mark}"
        _configure(trial, topic, dropped)
        with trial.running("--only", "replicate") as hub:
            sampler, first = Sampler(hub.pid), None
            while (count := trial.ends(central)) < records:
                if first is None and count >= records / 5:
                    first = (sampler.sample(), count)
                assert hub.poll() is None, hub.log.read_text()
                sampler.sample()
                time.sleep(0.05)
            last = sampler.sample()
        before, counted = first or ({"python": 0.0, "jvm": 0.0}, 0)
        settle(trial.admin("central").delete_topics([central]))
        return {kind: (last[kind] - before[kind]) / (records - counted) * 1e6 for kind in last}


def _configure(trial: Trial, topic: str, dropped: tuple[str, ...]) -> None:
    """One edge, one topic, booking records, and a policy that keeps all but some fields."""
    folder = trial.folder / "schemas" / "bookings-value"
    folder.mkdir()
    (folder / f"1-{SCHEMA_ID}.avsc").write_text(BOOKING.read_text().replace('"confluent:tags"', '"was"'))
    fields = "".join(f"\n      {path}: drop" for path in dropped)
    (trial.folder / "policy.yaml").write_text(
        "policy: bench\nversion: 1\ntopics:\n  '.*':\n    key: keep\n    default: keep\n"
        + (f"    fields:{fields}\n" if dropped else "")
    )
    (rule,) = trial.settings["topics"]
    rule |= {"match": topic, "central": f"{{edge}}.{{topic}}.{trial.mark}"}
    del rule["lake"], trial.settings["lake"], trial.settings["edges"]["us"]
    trial.write()


def measure(records: int, pairs: int) -> dict[str, object]:
    """All rounds."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder), ("eu", "us"))
        try:
            fill(sandbox, "bookings", records)
            for number in range(pairs):
                order = list(SETTINGS) if number % 2 == 0 else list(reversed(SETTINGS))
                for name in order:
                    rounds[name].append(cpu_us(sandbox, "bookings", records, SETTINGS[name]))
        finally:
            sandbox.down()
    answer: dict[str, object] = {"records": records, "pairs": pairs}
    for name, found in rounds.items():
        for kind in ("python", "jvm"):
            answer[f"{name}_{kind}_us"] = round(statistics.median(one[kind] for one in found), 2)
    for what, cost in (("ratio", _all), ("python_ratio", _python)):
        ratios = sorted(cost(drop) / cost(keep) for keep, drop in zip(rounds["keep"], rounds["drop"], strict=True))
        answer[what] = round(statistics.median(ratios), 3)
        answer[f"{what}_spread"] = [round(ratios[0], 3), round(ratios[-1], 3)]
    return answer


def _all(spent: dict[str, float]) -> float:
    return sum(spent.values())


def _python(spent: dict[str, float]) -> float:
    return spent["python"]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    print(json.dumps(measure(options.records, options.pairs), indent=2))


if __name__ == "__main__":
    main()
