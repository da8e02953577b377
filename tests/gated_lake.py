"""A lake without brokers: the real driver, gate, quarantine and tables over records of the test's own.

Only central and the staging job are stood in for: every offset of a partition is a record that the test describes, and
it is staged as the task stages it. Tables are read by DuckDB over their live file lists.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.lake import driver as driver_module
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.ranges import SpanProgress, StagingOutcome
from aggregator.lake.driver import LakeBounds, LakeDriver
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.formats import open_tables
from aggregator.state.names import HubNames
from aggregator.state.releases import Release

TABLE = "orders"
PARTITIONS = tuple(CentralPartition("eu.orders", "AAA", number) for number in range(2))
FIXED = DeltaTables("h", Folder("/")).narrowed(FIXED_COLUMNS)


class GatedLake:
    """Central, a lake with suites, and drivers that share it.

    Args:
        folder: Of the lake.
        monkeypatch: pytest's.
        columns: Of the records, beside the fixed ones.
        quality: Suites of the table, as the configuration has them.
        spark: For the gate.
        form: `delta` or `iceberg`.
        storage: How to reach a folder that is an address.
    """

    def __init__(self, folder: Path, monkeypatch, *, columns=(), quality=(), spark=None, form="delta", storage=None):
        self.folder, self.spark = folder, spark
        self.columns = pa.schema([*FIXED, *columns])
        self.releases: list[Release] = []
        self.records: dict[CentralPartition, list[dict]] = {one: [] for one in PARTITIONS}
        self.config = HubConfig.model_validate(
            {
                "hub": "h",
                "central": {"bootstrap_servers": "central:1"},
                "edges": {},
                "schemas": "directory:schemas",
                "topics": [{"match": TABLE, "policy": "p.yaml", "lake": TABLE}],
                "lake": {
                    "path": folder,
                    "format": form,
                    "storage": storage or {},
                    "tables": {TABLE: {"quality": list(quality)}},
                },
            }
        )
        monkeypatch.setattr(driver_module, "central_partitions", lambda *_: PARTITIONS)
        monkeypatch.setattr(driver_module, "offset_bounds", lambda *_: self.bounds())
        monkeypatch.setattr(driver_module, "run_jobs", self.stage)

    def write(self, *records: dict, partition: int = 0) -> None:
        """Append records to central; None is a tombstone."""
        self.records[PARTITIONS[partition]] += records

    def bounds(self) -> dict[CentralPartition, OffsetRange]:
        return {one: OffsetRange(0, len(records)) for one, records in self.records.items()}

    def driver(self, **bounds) -> LakeDriver:
        """A driver as a process of its own would make it."""
        flows = {EdgePartition("eu", TABLE, 0): None}
        bounds = LakeBounds(task_records=7) if not bounds else LakeBounds(**bounds)
        return LakeDriver(
            self.config,
            self.spark,
            HubNames("h"),
            bounds=bounds,
            clock=lambda: 0.0,
            flows=lambda: flows,
            releases=lambda: self.releases,
        )

    def stage(self, _, plans, *, parallel) -> list[list[StagingOutcome]]:
        """What Spark's tasks would stage."""
        return [self._staged(plan) for plan in plans]

    def _staged(self, plan) -> list[StagingOutcome]:
        outcomes = []
        for spans in plan.tasks:
            stage = StagingWriter(plan.folder, self.columns, partition_columns=plan.partition_columns)
            for partition, offsets in spans:
                rows = [self._row(partition, offset) for offset in range(*offsets)]
                stage.add(pa.Table.from_pylist(rows, schema=self.columns))
            outcomes.append(
                StagingOutcome(tuple(SpanProgress(span, span.offsets.end) for span in spans), stage.close())
            )
        return outcomes

    def _row(self, partition, offset):
        record = self.records[partition][offset]
        place = {"_central_topic": partition.topic, "_central_partition": partition.partition}
        return place | {"_central_offset": offset, "_deleted": record is None} | (record or {})

    @property
    def tables(self):
        """The format's."""
        return open_tables(self.config)

    def rows(self, query: str, table: str = TABLE) -> list[tuple]:
        """A table as DuckDB reads its live files; nothing where there is none."""
        handle = open_tables(self.config).open(table)
        files = [str(self.folder / table / path) for path in handle.live_paths()] if handle else []
        if not files:
            return []
        with duckdb.connect() as connection:
            return connection.sql(f"select {query} from read_parquet({files!r}, union_by_name=true)").fetchall()

    def places(self, table: str = TABLE) -> list[tuple]:
        """Partition and offset of every row."""
        return self.rows("_central_partition, _central_offset", table)

    def check(self, cycle: Callable[[], object] | None = None) -> None:
        """Every record is in the table or in its quarantine, once (I3).

        Args:
            cycle: Runs a last driver without faults, first.
        """
        for _ in range(3 if cycle else 0):
            cycle()
        both = Counter(self.places() + self.places(f"{TABLE}__quarantine"))
        assert both == Counter((one.partition, at) for one, all_ in self.records.items() for at in range(len(all_)))
