"""What a cycle of the lake takes with many tables on one hub.

    python -m tests.bench.tables -o json

Each table has a topic of its own at a real central broker, with one partition. Before every cycle each topic gets a
hundred records of nine fields; a cycle plans, stages in Spark on two cores, and commits all of them. The first cycles
create the tables and warm up; they are left out. An idle cycle finds nothing new.
"""

import argparse
import io
import json
import os
import random
import statistics
import time
from pathlib import Path

import fastavro
from confluent_kafka import Producer

from aggregator.config.model import HubConfig
from aggregator.coordinates import ORIGIN_HEADER, EdgePartition, Origin
from aggregator.engine.session import open_session
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.lake.driver import LakeDriver
from aggregator.lake.tables.formats import open_tables
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame
from aggregator.state.names import HubNames
from tests.bench.lake import central, cpu_s, order, spent_s
from tests.bench.lake_peers import ORDER

RECORDS, WARM, FORMATS = 100, 2, ("delta", "iceberg")


class Bench:
    """Topics of one central, and the cycles of a lake of one format over the first of them."""

    def __init__(self, folder: Path, bootstrap: str, most: int) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        self._draw, self._parsed = random.Random(1), fastavro.parse_schema(ORDER)
        self._names = [f"orders{number:04d}" for number in range(most)]
        config = self._config("delta")
        topics.ensure(config.central, [TopicSpec(name, 1) for name in self._names])
        registry = open_registry(config.schemas)
        self._ids = {name: registry.register(f"{name}-value", json.dumps(ORDER)) for name in self._names}
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._at = dict.fromkeys(self._names, 0)
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # where workers find this
        self.spark = open_session(config, "bench")

    def _config(self, form: str, lake: str = "lake") -> HubConfig:
        return HubConfig.model_validate(
            {
                "hub": "bench",
                "central": {"bootstrap_servers": self._bootstrap},
                "edges": {"eu": {"bootstrap_servers": self._bootstrap}},
                "schemas": f"directory:{self._folder / 'registry'}",
                "topics": [{"match": "orders.*", "policy": "none.yaml", "central": "{topic}", "lake": "{topic}"}],
                "lake": {"path": self._folder / lake, "format": form},
                "spark": {"conf": {"spark.local.dir": str(self._folder)}},
            }
        )

    def _fill(self, names: list[str]) -> None:
        for name in names:
            for number in range(self._at[name], self._at[name] + RECORDS):
                origin = Origin("bench", "eu", name, 0, number, 0).encode()
                value = frame(self._ids[name], body(self._parsed, order(self._draw, number)))
                self._producer.produce(name, key=f"c{number}", value=value, headers=[(ORIGIN_HEADER, origin)])
            self._at[name] += RECORDS
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def measured(self, form: str, tables: int, cycles: int) -> dict:
        """Seconds of a cycle, and its CPU seconds by process."""
        config, names = self._config(form, f"{form}-{tables}"), self._names[:tables]
        flows = {EdgePartition("eu", name, 0): None for name in names}
        driver = LakeDriver(config, self.spark, HubNames("bench"), flows=lambda: flows)
        took, spent, idle, started = [], [], [], time.perf_counter()
        for number in range(WARM + cycles):
            self._fill(names)
            began, since = time.perf_counter(), cpu_s()
            report = driver.cycle()
            seconds = time.perf_counter() - began
            assert not report.troubles
            if not number:
                started = seconds
            if number >= WARM:
                assert report.rows == tables * RECORDS
                took.append(seconds)
                spent.append(sum(spent_s(since).values()))
            began = time.perf_counter()
            assert driver.cycle().rows == 0
            idle.append(time.perf_counter() - began)
        held = open_tables(config)
        assert all(held.open(name).rows() == self._at[name] for name in (names[0], names[-1]))
        return {
            "format": form,
            "tables": tables,
            "first_s": round(started, 2),
            "cycle_s": round(statistics.median(took), 2),
            "longest_s": round(max(took), 2),
            "cpu_s": round(statistics.median(spent), 2),
            "idle_s": round(statistics.median(idle), 2),
        }


def body(schema: dict, record: dict) -> bytes:
    """A record's body."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with central() as (folder, bootstrap):
        bench = Bench(folder, bootstrap, max(options.tables))
        cases = [bench.measured(form, count, options.cycles) for form in FORMATS for count in options.tables]
        bench.spark.stop()
    print(json.dumps({"records": RECORDS, "cycles": options.cycles, "many_tables": cases}, indent=2))


if __name__ == "__main__":
    main()
