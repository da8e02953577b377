"""`aggregator lake compact|vacuum` on real tables of both formats, without Kafka."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, read_ids, staged

CONFIG = """
hub: hub
central: {bootstrap_servers: "127.0.0.1:1"}
edges: {}
lake: {path: lake, format: %s}
"""


@pytest.fixture(params=[DeltaTables, IcebergTables], ids=["delta", "iceberg"])
def tables(request, tmp_path):
    """Three commits of one row, and a hub.yaml beside them."""
    kind = request.param
    tables = kind("hub", Folder(str(tmp_path / "lake")))
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    (tmp_path / "hub.yaml").write_text(CONFIG % ("delta" if kind is DeltaTables else "iceberg"))
    return tables


def data_files(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("lake/*/hub-*.parquet"))


@pytest.mark.slow
def test_compact_then_vacuum(tables, tmp_path, aggregator):
    """Small files become one, and stay for readers of the older version until they are old."""
    config = ("--config", tmp_path / "hub.yaml", "-o", "json")
    done = aggregator("lake", "compact", *config)
    assert (done.exit_code, json.loads(done.stdout)) == (0, [{"table": NAME, "rewritten": 3, "written": 1}])
    assert len(data_files(tmp_path)) == 4
    kept = aggregator("lake", "vacuum", NAME, *config)
    assert (kept.exit_code, json.loads(kept.stdout)) == (0, [{"table": NAME, "removed": 0}])
    assert read_ids(tables) == [0, 1, 2]


def test_vacuum_removes_staged_files_that_nothing_named(tables, tmp_path, aggregator):
    """By age, also where no hub runs any more."""
    lost, young = (Path(tables.folder) / NAME / staged(tables, FIRST, 3, 4, ids(3)).files[0].path for _ in range(2))
    long_ago = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    os.utime(lost, (long_ago, long_ago))
    done = aggregator("lake", "vacuum", "--config", tmp_path / "hub.yaml", "-o", "json")
    assert json.loads(done.stdout) == [{"table": NAME, "removed": 1}]
    assert young.exists()
    assert not lost.exists()


def test_one_tables_trouble_does_not_keep_another_from_its_upkeep(tables, tmp_path, aggregator):
    """The exit code tells, stderr says what to do, stdout has every table."""
    broken = type(tables)("hub", tables.folder, {"broken": ()})
    broken.create("broken", ids(1).schema)
    for path in [*(tmp_path / "lake/broken").rglob("*.json"), *(tmp_path / "lake/broken").rglob("*.avro")]:
        path.write_text("{}")
    done = aggregator("lake", "compact", "--config", tmp_path / "hub.yaml", "-o", "json")
    assert done.exit_code == 1
    assert [row["written"] for row in json.loads(done.stdout)] == [0, 1]
    assert "broken" in done.stderr
    assert "next:" in done.stderr


@pytest.mark.usefixtures("tables")
def test_a_table_that_is_not_there_is_a_fault(tmp_path, aggregator):
    """With the names of those that are."""
    done = aggregator("lake", "compact", "nothing", "--config", tmp_path / "hub.yaml")
    assert done.exit_code == 1
    assert f"there are: {NAME}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--keep", "30m"), "an hour at least"), (("--keep", "7"), "carries its unit")],
)
def test_an_age_that_breaks_queries_is_refused(tmp_path, aggregator, arguments, told):
    """Before anything is read."""
    done = aggregator("lake", "vacuum", *arguments, "--config", tmp_path / "none.yaml")
    assert (done.exit_code, told in done.stderr) == (2, True)
