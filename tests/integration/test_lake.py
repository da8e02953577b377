"""Central to lake on a real broker and a real Spark session: every committed record once, whoever dies or races."""

import io
import json
import os
import random
import threading
import time
import uuid
from pathlib import Path

import duckdb
import fastavro
import polars as pl
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from aggregator.config.model import HubConfig
from aggregator.coordinates import ORIGIN_HEADER, EdgePartition, OffsetRange, Origin
from aggregator.engine.session import open_session
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.readers.committed_reader import CommittedReader, central_partitions, offset_bounds
from aggregator.lake.cycle.attempts import TURN
from aggregator.lake.cycle.commit import Commit
from aggregator.lake.driver import LakeBounds, LakeDriver
from aggregator.lake.status import lake_status
from aggregator.lake.tables.formats import open_tables
from aggregator.lake.upkeep.orphans import sweep
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from tests.trial import wait_for

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.spark,
    # PySpark's collect() leaves its result socket to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "quantity", "type": "int"}]}}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}  # fmt: skip
WIDER = json.loads(json.dumps(ORDER))
REFUSED = json.loads(json.dumps(ORDER).replace('"order_id", "type": "long"', '"order_id", "type": "string"'))
WIDER["fields"].append({"name": "channel", "type": ["null", "string", "long"], "default": None})


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    session = open_session(
        HubConfig.model_validate(
            {
                "hub": "lake",
                "central": {"bootstrap_servers": "127.0.0.1:1"},
                "edges": {},
                "spark": {"master": "local[3,4]", "conf": {"spark.local.dir": str(folder)}},
            }
        ),
        "test-lake",
    )
    yield session
    session.stop()


class Hub:
    """One hub with its own topics, registry and lake on the shared broker, fed by transactions of the test's own."""

    def __init__(self, bootstrap: str, folder: Path, **lake: object) -> None:
        self.name = f"h{uuid.uuid4().hex[:6]}"
        (folder / "registry").mkdir()
        self.config = HubConfig.model_validate(
            {
                "hub": self.name,
                "central": {"bootstrap_servers": bootstrap},
                "edges": {},
                "schemas": f"directory:{folder / 'registry'}",
                "topics": [
                    {
                        "match": "orders",
                        "policy": "none.yaml",
                        "central": f"{self.name}.{{edge}}.{{topic}}",
                        "lake": "all",
                    }
                ],
                "lake": {"path": folder / "lake", "commit_interval": "1s"} | lake,
            }
        )
        self.folder = folder / "lake" / "all"
        self.registry = open_registry(self.config.schemas)
        self.producer: Producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{self.name}.writer"})
        self.producer.init_transactions()
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.expected: dict[tuple[str, int], dict] = {}
        self.offset = 0

    def topic(self, edge: str) -> str:
        """The central topic of an edge; hubs of other tests have others."""
        return f"{self.name}.{edge}.orders"

    def create(self, *edges: str) -> None:
        """The central topics, and the ledger that says which flows there are."""
        names = HubNames(self.name)
        any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}  # as the hub makes them
        specs = [TopicSpec(self.topic(edge), 2, any_time) for edge in edges]
        topics.ensure(self.config.central, [*specs, TopicSpec(names.ledger, 1, {"cleanup.policy": "compact"})])
        self.producer.begin_transaction()
        for edge in edges:
            flow = str(EdgePartition(edge, "orders", 0))
            self.producer.produce(names.ledger, key=flow, value=LedgerRecord(0, "id", 1, 1, 0).encode())
        self.producer.commit_transaction()

    def write(self, edge: str, count: int, *, schema: dict = ORDER, abort=False, settle=None, at_ms=None) -> None:
        """One transaction of `count` records, a tombstone every seventh."""
        schema_id = self.registry.register(f"{self.topic(edge)}-value", json.dumps(schema))
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        self.producer.begin_transaction()
        for _ in range(count):
            self.offset += 1
            value = None if self.offset % 7 == 0 else self.order(schema)
            origin = Origin(self.name, edge, "orders", self.offset % 2, self.offset, 0)
            key = f"k{self.offset}".encode()
            if not abort:
                self.expected[edge, self.offset] = {"key": key, "value": value}
            framed = None if value is None else frame(schema_id, encoded(parsed, value))
            headers = [("traceparent", b"00"), (ORIGIN_HEADER, origin.encode())]
            self.producer.produce(
                self.topic(edge),
                key=key,
                value=framed,
                partition=self.offset % 2,
                headers=headers,
                timestamp=at_ms or self.offset,
            )
        self.producer.flush()
        (settle or (self.producer.abort_transaction if abort else self.producer.commit_transaction))()
        if not settle:
            self.await_markers(edge)

    def await_markers(self, edge: str) -> None:
        """Until what was written is decided: a transaction's marker comes a moment after the producer's answer."""
        both = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        for partition in range(2):
            at = TopicPartition(self.topic(edge), partition)
            wait_for(lambda at=at: len({self._end(at, level) for level in both}) == 1, timeout=30, what="its markers")

    def _end(self, at: TopicPartition, level: IsolationLevel) -> int:
        asked = self.admin.list_offsets({at: OffsetSpec.latest()}, isolation_level=level)
        return asked[at].result().offset

    def order(self, schema: dict) -> dict:
        """A record that its number determines."""
        draw = random.Random(self.offset)
        order = {
            "order_id": str(self.offset) if schema is REFUSED else self.offset,
            "status": draw.choice(["NEW", "PAID"]),
            "note": draw.choice([None, "żółć"]),
            "lines": [{"sku": f"s{n}", "quantity": n} for n in range(draw.randrange(3))],
            "labels": {f"l{n}": "x" for n in range(draw.randrange(3))},
            "price": pl.Series([f"{self.offset}.25"]).cast(pl.Decimal(9, 2))[0],
        }
        return order | ({"channel": draw.choice([None, "web", 7])} if schema is WIDER else {})

    def driver(self, spark, **bounds) -> LakeDriver:
        """A driver as a process of its own would make it."""
        return LakeDriver(self.config, spark, HubNames(self.name), bounds=LakeBounds(**bounds))

    def files(self) -> list[str]:
        """The live files."""
        return [str(self.folder / path) for path in open_tables(self.config).open("all").live_paths()]


def encoded(parsed, value: dict) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


@pytest.fixture
def hub(request, clusters, tmp_path):
    return Hub(clusters.central.bootstrap, tmp_path, format=getattr(request, "param", "delta"))


both_formats = pytest.mark.parametrize("hub", ["delta", "iceberg"], indirect=True)


def lake_rows(hub: Hub) -> list[dict]:
    """The table as its format's own library reads it."""
    if hub.config.lake.format == "delta":
        return DeltaTable(hub.folder).to_pyarrow_table().to_pylist()
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{hub.folder.parent / 'catalog.db'}")
    rows = catalog.load_table(("lake", "all")).scan().to_arrow().to_pylist()
    # pyiceberg shows null lists and maps as empty ones.
    return [row | ({"lines": None, "labels": None} if row["_deleted"] else {}) for row in rows]


def assert_agrees(hub: Hub, rows: list[dict]) -> None:
    """Every committed record once, its fields as produced, and central's order kept within a partition."""
    assert len(rows) == len(hub.expected)
    by_origin = {(row["_edge"], row["_offset"]): row for row in rows}
    assert by_origin.keys() == hub.expected.keys()
    for at, row in by_origin.items():
        expected = hub.expected[at]
        assert row["_key"] == expected["key"]
        assert row["_deleted"] == (expected["value"] is None)
        assert row["_timestamp"].timestamp() * 1000 == pytest.approx(at[1])
        for name, value in (expected["value"] or {}).items():
            got = dict(row[name]) if name == "labels" else row[name]
            if name == "channel" and value is not None:
                got = next(one for one in got.values() if one is not None)
            assert got == value, name
    seen: dict[tuple, int] = {}
    for row in sorted(rows, key=lambda one: one["_central_offset"]):
        partition = (row["_central_topic"], row["_central_partition"])
        assert seen.get(partition, -1) < row["_offset"]
        seen[partition] = row["_offset"]


@both_formats
def test_three_readers_agree_record_by_record(hub, spark):
    """The format's library, polars and DuckDB over the live files read what central has, in every schema version."""
    hub.create("eu", "us")
    hub.write("eu", 40)
    hub.write("us", 25)
    hub.write("eu", 20, abort=True)
    report = hub.driver(spark).drain()
    assert (report.rows, report.held) == (65, ())
    hub.write("eu", 20, abort=True)
    hub.write("us", 30, schema=WIDER)
    assert hub.driver(spark).drain().rows == 30
    rows = lake_rows(hub)
    assert_agrees(hub, rows)
    order = ["_central_topic", "_central_partition", "_central_offset"]
    ours = sorted(rows, key=lambda row: [row[name] for name in order])
    polars = pl.scan_parquet(hub.files(), missing_columns="insert", extra_columns="ignore").sort(order).collect()
    assert polars["order_id"].to_list() == [row["order_id"] for row in ours]
    assert polars["lines"].to_list() == [row["lines"] for row in ours]
    query = f"select * from read_parquet({hub.files()}, union_by_name=true) order by {', '.join(order)}"
    with duckdb.connect() as connection:
        duck = connection.sql(query).to_arrow_table().to_pylist()
    for name in ("_edge", "_offset", "_key", "_deleted", "order_id", "status", "lines", "price"):
        assert [row[name] for row in duck] == [row[name] for row in ours], name
    (status,) = lake_status(hub.config)
    assert (status.table, status.rows, status.lag_records, status.problem) == ("all", 95, 0, "")


@both_formats
def test_killed_between_staging_and_commit_leaves_no_duplicates(hub, spark, monkeypatch):
    """A driver that dies after its files are staged leaves nothing in the table; the next one delivers once."""
    hub.create("eu")
    hub.write("eu", 30)
    hub.driver(spark).drain()
    hub.write("eu", 30)

    def die(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Commit, "run", die)
        with pytest.raises(KeyboardInterrupt):
            hub.driver(spark).cycle()
    staged = [path for path in hub.folder.glob("*.parquet") if str(path) not in hub.files()]
    assert staged
    assert hub.driver(spark).drain().rows == 30
    assert_agrees(hub, lake_rows(hub))
    os.utime(staged[0], (0, 0))
    hub.driver(spark).cycle()
    assert not staged[0].exists()


@both_formats
def test_two_drivers_deliver_once(hub, spark, monkeypatch):
    """Rule G: of two drivers that planned from the same positions one commits, and the other drops what it staged."""
    hub.create("eu")
    hub.write("eu", 30)
    first, second = hub.driver(spark), hub.driver(spark)
    reached = []
    run = Commit.run

    def overtaken(commit, handle):
        if not reached:
            reached.append(handle)
            assert second.drain().rows in (30, 9)
        return run(commit, handle)

    with monkeypatch.context() as race:
        race.setattr(Commit, "run", overtaken)
        report = first.cycle()
        hub.write("eu", 9)
        reached.clear()
        later = first.cycle()
    assert (report.rows, later.rows) == (0, 0)
    assert_agrees(hub, lake_rows(hub))
    tables = open_tables(hub.config)
    sweep(tables, hub.folder.name, now_s=time.time() + 2 * 86_400)
    assert len(list(hub.folder.glob("*.parquet"))) == len(hub.files())


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_record_times_out_of_range_stop_nothing(clusters, tmp_path, spark, form):
    """Beyond Arrow's microseconds, and beyond the year 9999 in a table divided by day: kept, without a time, told."""
    hub = Hub(clusters.central.bootstrap, tmp_path, format=form, tables={"all": {"partition_by": ["day"]}})
    hub.create("eu")
    beyond = (9_300_000_000_000_000, 253_402_300_800_000)
    hub.write("eu", 4)
    for at_ms in beyond:
        hub.write("eu", 4, at_ms=at_ms)
    hub.write("eu", 4)
    report = hub.driver(spark).drain()
    assert (report.rows, report.held) == (16, ())
    rows = sorted(lake_rows(hub), key=lambda row: row["_offset"])
    assert [row["_offset"] for row in rows] == list(range(1, 17))
    told = [row["_out_of_range"] and json.loads(row["_out_of_range"])["_timestamp"] for row in rows]
    assert told == [None] * 4 + [beyond[0]] * 4 + [beyond[1]] * 4 + [None] * 4
    assert [row["_timestamp"] is None for row in rows] == [one is not None for one in told]
    assert [row["_day"] is None for row in rows] == [one is not None for one in told]
    assert lake_status(hub.config)[0].out_of_range == 8


def test_a_long_backlog_is_cut_and_committed_in_order(hub, spark):
    """Bounds of tasks and cycles cut the backlog; positions and rows stay without hole and overlap."""
    hub.create("eu")
    for _ in range(4):
        hub.write("eu", 100)
        hub.write("eu", 10, abort=True)
    report = hub.driver(spark, cycle_records=250, task_records=60).drain()
    assert report.rows == 400
    assert_agrees(hub, lake_rows(hub))


def test_enough_records_are_committed_before_the_interval_ends(clusters, tmp_path, spark):
    """Cadence by size: nobody waits for an hour when as much is there as a commit is worth."""
    hub = Hub(clusters.central.bootstrap, tmp_path, commit_interval="1h", commit_records=20)
    hub.create("eu")
    hub.write("eu", 10)
    stop = threading.Event()
    running = threading.Thread(target=hub.driver(spark).run, args=(stop,))
    running.start()
    try:
        wait_for(
            lambda: (hub.folder / "_delta_log").exists() and len(lake_rows(hub)) == 10,
            timeout=20,
            what="the first commit",
        )
        hub.write("eu", 30)
        wait_for(lambda: len(lake_rows(hub)) == 40, timeout=20, what="a commit of thirty records")
    finally:
        stop.set()
        running.join()


def test_a_drain_waits_for_what_is_in_the_log(hub, spark):
    """To its end: a commit returns before its marker is written, so a drain waits for open transactions."""
    hub.create("eu")
    hub.write("eu", 10)
    release = threading.Timer(1.5, hub.producer.commit_transaction)
    hub.write("eu", 10, settle=release.start)
    assert hub.driver(spark).drain().rows == 20
    release.join()


def test_a_job_that_was_outrun_has_a_turn(hub, spark):
    """A cycle leaves the table alone while somebody has one, and goes on behind it."""
    hub.create("eu")
    hub.write("eu", 10)
    driver = hub.driver(spark)
    assert driver.drain().rows == 10
    hub.write("eu", 10)
    (hub.folder / TURN).write_text("somebody's")
    report = driver.cycle()
    assert (report.rows, report.has_backlog, report.held) == (0, False, ())
    (hub.folder / TURN).unlink()
    assert driver.drain().rows == 10


def test_a_record_that_does_not_decode_holds_its_partition_only(hub, spark):
    """What comes before it and every other partition is committed; the report names the place and no content."""
    hub.create("eu")
    hub.write("eu", 10)
    hub.producer.begin_transaction()
    hub.producer.produce(hub.topic("eu"), value=b"canary-payload", partition=1)
    hub.producer.commit_transaction()
    hub.write("eu", 10)
    report = hub.driver(spark).drain()
    (held,) = report.held
    assert str(held).startswith(f"central {hub.topic('eu')}-1: its record is not framed as Avro")
    assert "canary" not in held.reason
    assert report.rows == 15
    assert {row["_partition"] for row in lake_rows(hub) if row["_offset"] > 10} == {0}


@both_formats
@pytest.mark.parametrize("together", [True, False], ids=["one task", "a task per partition"])
def test_what_comes_before_a_refused_schema_is_delivered(hub, spark, together):
    """On a fresh hub too, whose first cycle meets both schemas in one read or in two tasks; held is the first of it."""
    hub.create("eu")
    hub.write("eu", 20)
    hub.write("eu", 10, schema=REFUSED)
    hub.write("eu", 10)
    bounds = {} if together else {"task_records": 25}
    for _ in range(2):
        report = hub.driver(spark, **bounds).drain()
        assert sorted(row["_offset"] for row in lake_rows(hub)) == list(range(1, 22)), "21 is a tombstone"
    at = {one.partition.partition: one.reason for one in report.held}
    stands = {at.partition: offset for at, offset in report.tables[0].next_offsets.items()}
    assert at.keys() == {0, 1}
    for partition, reason in at.items():
        first = next(n for n in range(22, 30) if n % 2 == partition)
        assert stands[partition] == central_offset(hub, partition, first)
        assert reason.startswith("its record cannot be written: ")
        assert "order_id is int64 in the table and string in the schema" in reason


def central_offset(hub: Hub, partition: int, offset: int) -> int:
    """Where the record of an origin lies."""
    bounds = offset_bounds(hub.config.central, central_partitions(hub.config.central, [hub.topic("eu")]))
    (log,) = [offsets for one, offsets in bounds.items() if one.partition == partition]
    lies = {
        origin: at
        for piece in read(hub, log, partition)
        for at, origin in zip(piece.offsets, piece.origins, strict=True)
    }
    return lies[Origin(hub.name, "eu", "orders", partition, offset, 0).encode()]


def test_a_column_that_two_tasks_would_add_differently_holds_one_of_them_at_its_record(hub, spark):
    """The second task's rows before that column wait for no other run: the next cycle stages them by the table."""
    hub.create("eu", "us")
    for edge, kind in (("eu", "string"), ("us", "long")):
        other = json.loads(json.dumps(ORDER))
        other["fields"].append({"name": "extra", "type": ["null", kind], "default": None})
        hub.write(edge, 20)
        hub.write(edge, 10, schema=other)
    report = hub.driver(spark, task_records=17).drain()
    rows = lake_rows(hub)
    assert {row["_offset"] for row in rows} >= set(range(1, 51))
    assert all("extra is string in the table and int64 in the schema" in one.reason for one in report.held)
    assert len(report.held) == 2


def test_a_start_that_central_no_longer_has_is_held_by_name(hub, spark):
    """Retention that overtakes the lake is a named range, never a silent jump."""
    hub.create("eu")
    hub.write("eu", 10)
    hub.driver(spark).drain()
    hub.write("eu", 10)
    futures = clients.admin(hub.config.central).delete_records([TopicPartition(hub.topic("eu"), 0, 9)])
    for future in futures.values():
        future.result(10)
    report = hub.driver(spark).drain()
    (held,) = report.held
    assert "to 8 were removed before the lake read them" in held.reason
    assert report.rows == 5
    (piece,) = read(hub, OffsetRange(2, 9))
    assert "no longer has" in str(piece.held)


def read(hub: Hub, offsets: OffsetRange, partition: int = 0) -> list:
    """Pieces of one range."""
    reader = CommittedReader(hub.config.central, max_bytes=1)
    try:
        return list(reader.read({(hub.topic("eu"), partition): offsets}))
    finally:
        reader.close()


def test_a_range_ends_behind_markers_and_aborted_records(hub):
    """A range whose last offsets are aborted records and markers ends at once, at any cut."""
    hub.create("eu")
    hub.write("eu", 10)
    hub.write("eu", 10, abort=True)
    partitions = central_partitions(hub.config.central, [hub.topic("eu")])
    bounds = offset_bounds(hub.config.central, partitions)
    for partition in partitions:
        end = bounds[partition].end
        for cut in (0, 3, 6, 8, end):
            halves = [OffsetRange(0, cut), OffsetRange(cut, end)]
            pieces = [piece for half in halves for piece in read(hub, half, partition.partition)]
            assert [offset for piece in pieces for offset in piece.offsets] == [0, 1, 2, 3, 4]
