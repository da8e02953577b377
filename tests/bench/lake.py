"""Central to a committed lake table: CPU per record, beside three other ways to bring the same records into Parquet.

    python -m tests.bench.lake -o json

All read the same topic of a real central broker, whose CPU is not counted, in one run and in turns. A ratio compares
two ways in one round: its median is told with the lowest and the highest. Of the microseconds the best round counts,
because other programs only ever add. Each way warms up on the first records and is then measured on the others, so that
starts, compilers and first connections are left out. CPU is that of every process that takes part: Python, its threads,
the JVM.

All write the same rows: the record's fields and the eleven columns of the lake's tables.

* ours: the lake's driver on Spark, until a Delta table has committed them, positions included.
* polars: Kafka to polars to Parquet in one process, without a commit.
* rows: fastavro row by row to pyarrow to Parquet in one process.
* spark: the DataFrame writer of PySpark over a Python data source that decodes with polars.
"""

import argparse
import io
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fastavro
import psutil
import pyarrow.parquet as pq
from confluent_kafka import Producer

from aggregator.config.model import HubConfig
from aggregator.coordinates import ORIGIN_HEADER, EdgePartition, Origin
from aggregator.engine.session import open_session
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds
from aggregator.lake.driver import LakeBounds, LakeDriver
from aggregator.lake.tables.formats import open_tables
from aggregator.sandbox.sandbox import Sandbox
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame
from aggregator.state.names import HubNames
from tests.bench.lake_peers import ORDER, TOPIC, Source, by_polars, by_rows
from tests.bench.ratios import spread

PARTITIONS = 2
WARM_CYCLES = 4


def order(draw: random.Random, number: int) -> dict:
    """A record of about 160 bytes: two tokens, a few words, numbers."""
    return {
        "order_id": number,
        "customer": f"v1.{draw.getrandbits(128):032x}",
        "email": f"v1.{draw.getrandbits(128):032x}",
        "created": 1_760_000_000_000 + number,
        "status": draw.choice(["NEW", "PAID", "SENT", "RETURNED"]),
        "amount": draw.random() * 1000,
        "quantity": draw.randrange(9),
        "coupon": None if number % 3 else "SPRING",
        "note": "leave it at the door, please, and ring twice; the dog is friendly, the cat is not"[
            draw.randrange(60) :
        ],
    }


def fill(config: HubConfig, records: int) -> None:
    """Write the topic, as a slot would: transactions, keys, origins."""
    schema_id = open_registry(config.schemas).register(f"{TOPIC}-value", json.dumps(ORDER))
    topics.ensure(config.central, [TopicSpec(TOPIC, PARTITIONS)])
    producer = Producer(
        {
            "bootstrap.servers": config.central.bootstrap_servers,
            "transactional.id": "bench",
            "linger.ms": 20,
            "queue.buffering.max.messages": 400_000,
        }
    )
    producer.init_transactions()
    draw, parsed = random.Random(1), fastavro.parse_schema(ORDER)
    for number in range(records):
        if number % 20_000 == 0:
            if number:
                producer.commit_transaction()
            producer.begin_transaction()
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, order(draw, number))
        partition = number % PARTITIONS
        origin = Origin("bench", "eu", "orders", partition, number // PARTITIONS, 0).encode()
        producer.produce(
            TOPIC,
            key=f"c{number % 5000}",
            value=frame(schema_id, out.getvalue()),
            partition=partition,
            headers=[(ORIGIN_HEADER, origin)],
        )
    producer.commit_transaction()


def cpu_s() -> dict[str, float]:
    """CPU seconds of this process and everything below it but brokers, ended processes included, by kind."""
    found = {"driver": 0.0, "jvm": 0.0, "workers": 0.0}
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            if "kafka.Kafka" in process.cmdline():
                continue
            kind = "driver" if process == this else "jvm" if process.name() == "java" else "workers"
            times = process.cpu_times()
            found[kind] += times.user + times.system
            found["workers"] += times.children_user + times.children_system if kind == "workers" else 0.0
        except psutil.NoSuchProcess:
            continue
    return found


def spent_s(since: dict[str, float]) -> dict[str, float]:
    """CPU seconds since then."""
    now = cpu_s()
    return {kind: now[kind] - since[kind] for kind in now}


def alone(work, bootstrap: str, folder: Path, warm_and_rest: tuple[list, list], answer) -> None:
    """The body of a process of its own: warm up, then CPU seconds of the rest."""
    folder.mkdir()
    work(bootstrap, folder, warm_and_rest[0])
    began = time.process_time()
    work(bootstrap, folder, warm_and_rest[1])
    answer.put(time.process_time() - began)


class Bench:
    """The topic, a Spark session, and what each way costs."""

    def __init__(self, config: HubConfig, folder: Path, records: int, warm: int) -> None:
        self.parts: dict[str, float] = {}
        self.config, self.folder, self.records, self.warm_records = config, folder, records, warm
        self.bootstrap = config.central.bootstrap_servers
        fill(config, records + warm)
        partitions = central_partitions(config.central, [TOPIC])
        ends = {one.partition: bounds.end for one, bounds in offset_bounds(config.central, partitions).items()}
        share = warm / (records + warm)
        self.warm = [(at, 0, int(end * share)) for at, end in ends.items()]
        self.spans = [(at, int(end * share), end) for at, end in ends.items()]
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # where workers find the data source
        self.spark = open_session(config, "bench")
        self.spark.dataSource.register(Source)

    def measured(self, work, spans: list | None = None) -> float:
        """CPU microseconds per record of a way that runs in one process."""
        spans = spans or self.spans
        context = multiprocessing.get_context("spawn")
        answer = context.Queue()
        folder = self.folder / work.__name__
        process = context.Process(target=alone, args=(work, self.bootstrap, folder, (self.warm, spans), answer))
        process.start()
        seconds = answer.get()
        process.join()
        found = sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
        shutil.rmtree(folder)
        return seconds / found * 1e6

    def by_spark(self) -> float:
        """Way (c)."""
        out = str(self.folder / "spark")
        for spans in (self.warm, self.spans):
            began = cpu_s()
            reader = self.spark.read.format("bench").option("bootstrap", self.bootstrap)
            frame_ = reader.option("spans", json.dumps(spans)).load()
            frame_.write.mode("overwrite").option("compression", "zstd").parquet(out)
            spent = sum(spent_s(began).values())
        found = sum(pq.read_metadata(path).num_rows for path in Path(out).glob("*.parquet"))
        shutil.rmtree(out)
        return spent / found * 1e6

    def ours(self) -> float:
        """Committed to a Delta table, and counted in it."""
        shutil.rmtree(self.config.lake.path, ignore_errors=True)
        share = sum(end for _, _, end in self.warm) // WARM_CYCLES
        warmed = sum(self._driver(share).cycle().rows for _ in range(WARM_CYCLES))
        began = cpu_s()
        rows = self._driver(10 * self.records).drain().rows
        spent = spent_s(began)
        self.parts = {kind: round(seconds / rows * 1e6, 2) for kind, seconds in spent.items()}
        assert open_tables(self.config).open("orders").rows() == warmed + rows == self.records + self.warm_records
        return sum(spent.values()) / rows * 1e6

    def _driver(self, cycle_records: int) -> LakeDriver:
        flows = {EdgePartition("eu", "orders", 0): None}
        bounds = LakeBounds(cycle_records=cycle_records)
        return LakeDriver(self.config, self.spark, HubNames("bench"), bounds=bounds, flows=lambda: flows)


@contextmanager
def central() -> Iterator[tuple[Path, str]]:
    """A folder with an empty registry, and the address of a central cluster that lies there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "registry").mkdir()
        sandbox = Sandbox.up(folder / "clusters", ("eu",))
        try:
            yield folder, sandbox.central.bootstrap
        finally:
            sandbox.down()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with central() as (folder, bootstrap):
        config = HubConfig.model_validate(
            {
                "hub": "bench",
                "central": {"bootstrap_servers": bootstrap},
                "edges": {},
                "schemas": f"directory:{folder / 'registry'}",
                "topics": [{"match": "orders", "policy": "none.yaml", "lake": "orders"}],
                "lake": {"path": folder / "lake"},
                "spark": {"conf": {"spark.local.dir": str(folder)}},
            }
        )
        bench = Bench(config, folder, options.records, max(options.records // 5, 20_000))
        found = {"ours": [], "polars": [], "spark": [], "rows": []}
        few = [(at, start, start + (end - start) // 10) for at, start, end in bench.spans]
        for _ in range(options.rounds):
            found["ours"].append(bench.ours())
            found["polars"].append(bench.measured(by_polars))
            found["spark"].append(bench.by_spark())
            found["rows"].append(bench.measured(by_rows, few))
        bench.spark.stop()
    answer = {"records": options.records, "rounds": options.rounds}
    answer |= {f"{name}_us_per_record": round(min(costs), 2) for name, costs in found.items()}
    answer |= {f"ratio_vs_{name}": spread(found["ours"], found[name]) for name in ("polars", "rows", "spark")}
    answer["ours_last_round_by_process"] = bench.parts
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
