"""A lake that is millions of records behind: how fast it catches up, and in how much memory.

    python -m tests.bench.catchup --records 5000000 -o json

Measured from outside, over one run of `aggregator run --only lake --drain`: resident bytes of the Python workers, of
the driver and of the JVM, a few times a second. `growth_mb` is how much larger the workers are at the end than when a
quarter was in: bounded memory means next to nothing.
"""

import argparse
import io
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastavro
import psutil
from confluent_kafka import Producer
from deltalake import DeltaTable

from aggregator.config.load import load_config
from aggregator.coordinates import ORIGIN_HEADER, EdgePartition, Origin
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.sandbox.sandbox import Sandbox
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from tests.bench.lake import order
from tests.bench.lake_peers import ORDER, TOPIC
from tests.processes import environment, kill_all, members

PARTITIONS, DISTINCT = 3, 20_000
CONFIG = """
hub: bench
central: {bootstrap_servers: "%s"}
edges: {eu: {bootstrap_servers: "%s", schemas: "directory:registry"}}
schemas: "directory:registry"
topics: [{match: orders, policy: policy.yaml, lake: "{topic}"}]
lake: {path: lake}
spark: {conf: {spark.local.dir: %s}}
"""
POLICY = """
policy: none
version: 1
default: drop
topics: {".*": {key: keep}}
"""


def fill(config, records: int) -> None:
    """A backlog at central, and the ledger that names its flow."""
    schema_id = open_registry(config.schemas).register(f"{TOPIC}-value", json.dumps(ORDER))
    names, draw, parsed = HubNames("bench"), random.Random(1), fastavro.parse_schema(ORDER)
    ledger = TopicSpec(names.ledger, 1, {"cleanup.policy": "compact"})
    topics.ensure(config.central, [TopicSpec(TOPIC, PARTITIONS), ledger])
    values = []
    for number in range(DISTINCT):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, order(draw, number))
        values.append(frame(schema_id, out.getvalue()))
    producer = Producer(
        {"bootstrap.servers": config.central.bootstrap_servers, "transactional.id": "bench", "linger.ms": 20}
    )
    producer.init_transactions()
    producer.begin_transaction()
    flow = EdgePartition("eu", "orders", 0)
    producer.produce(names.ledger, key=str(flow), value=LedgerRecord(0, "id", 1, 1, 0).encode())
    for number in range(records):
        if number and number % 50_000 == 0:
            producer.commit_transaction()
            producer.begin_transaction()
        at = number % PARTITIONS
        headers = [(ORIGIN_HEADER, Origin("bench", "eu", "orders", at, number // PARTITIONS, 0).encode())]
        producer.produce(TOPIC, values[number % DISTINCT], b"k", at, headers=headers)
    producer.commit_transaction()


def resident(hub: subprocess.Popen) -> dict[str, int]:
    """Bytes by kind of process."""
    found = {"workers": 0, "driver": 0, "jvm": 0}
    for one in members(hub):
        try:
            kind = "jvm" if one.name() == "java" else "driver" if one.pid == hub.pid else "workers"
            found[kind] += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def catch_up(folder: Path, records: int) -> dict[str, object]:
    """One drain of the lake."""
    table = folder / "lake" / "orders"
    command = [sys.executable, "-m", "aggregator.cli.main", "run", "--only", "lake", "--drain"]
    samples, first = [], None
    with (folder / "run.log").open("w") as log:
        hub = subprocess.Popen(
            [*command, "--config", str(folder / "hub.yaml")],
            stdout=log,
            stderr=log,
            env=environment(),
            start_new_session=True,
        )
        try:
            while hub.poll() is None:
                samples.append(resident(hub))
                first = first or (time.monotonic() if samples[-1]["workers"] else None)
                time.sleep(0.2)
            ended = time.monotonic()
        finally:
            kill_all(hub)
    assert hub.returncode == 0, (folder / "run.log").read_text()[-3000:]
    took = ended - first
    rows = DeltaTable(table).to_pyarrow_dataset().count_rows()
    assert rows == records, rows
    working = [sample for sample in samples if sample["workers"]]
    quarter = max(sample["workers"] for sample in working[: len(working) // 4 + 1])
    return {
        "records": records,
        "records_per_s": round(records / took),
        "commits": len(list((table / "_delta_log").glob("*.json"))),
        "peak_mb": {kind: round(max(sample[kind] for sample in samples) / 1e6) for kind in samples[0]},
        "growth_mb": round((max(sample["workers"] for sample in working) - quarter) / 1e6),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sandbox = Sandbox.up(folder / "clusters", ("eu",))
        try:
            addresses = (sandbox.central.bootstrap, sandbox.edges["eu"].bootstrap, name)
            (folder / "hub.yaml").write_text(CONFIG % addresses)
            (folder / "policy.yaml").write_text(POLICY)
            (folder / "registry").mkdir()
            fill(load_config(folder / "hub.yaml", {}), options.records)
            print(json.dumps(catch_up(folder, options.records), indent=2))
        finally:
            sandbox.down()


if __name__ == "__main__":
    main()
