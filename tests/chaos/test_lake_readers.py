"""Readers that analysts bring, on tables as they are after hours: 320 commits, every type, a new column, tombstones.

Each reads the table by its own knowledge of the format, from the table's folder alone. DuckDB has an environment of its
own, in the release whose extensions are packages.
"""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.chaos.spark_sql import by_spark
from tests.processes import environment
from tests.unit.lake.tabling import FIRST, NAME, commit, rows, staged

pytestmark = [pytest.mark.spark]

COMMITS, DUCKDB = 320, "1.5.5"
AT = datetime(2026, 1, 1, 23, 59, 59, 123456, tzinfo=UTC)
DUCKDB_QUERY = """
import json, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": True})
for path in sys.argv[2:]:
    connection.load_extension(path)
connection.sql("set TimeZone = 'UTC'")
print(json.dumps(connection.sql(sys.argv[1]).fetchall(), default=str))
"""


def columns(number: int) -> dict[str, pa.Array]:
    """One row of every type that a table has."""
    found = {
        "_timestamp": pa.array([AT], pa.timestamp("us", "UTC")),
        "_edge": pa.array(["eu" if number % 2 else "us"]),
        "_deleted": pa.array([number % 10 == 0]),
        "id": pa.array([2**62 + number], pa.int64()),
        "small": pa.array([number], pa.int32()),
        "yes": pa.array([True]),
        "real": pa.array([number / 2], pa.float64()),
        "single": pa.array([0.5], pa.float32()),
        "price": pa.array([Decimal(number).scaleb(-2)], pa.decimal128(9, 2)),
        "born": pa.array([date(1980, 2, 29)]),
        "raw": pa.array([b"\0\xff"], pa.binary()),
        "word": pa.array([f"v1_{number:032x}"]),
        "s": pa.array([{"x": number, "y": None}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
        "l": pa.array([["a", None, "b"]], pa.list_(pa.string())),
        "m": pa.array([[("k", number)]], pa.map_(pa.string(), pa.int64())),
    }
    return found | ({"late": pa.array([number], pa.int64())} if number >= COMMITS // 2 else {})


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def table(request, tmp_path_factory):
    """Kind and folder of a table of so many commits."""
    folder = tmp_path_factory.mktemp(request.param)
    made = {"delta": DeltaTables, "iceberg": IcebergTables}[request.param]
    tables = made("hub", Folder(str(folder)), {NAME: ("_edge",)})
    for number in range(COMMITS):
        commit(tables, staged(tables, FIRST, number, number + 1, rows(1, **columns(number))))
    return request.param, folder


def by_duckdb(kind: str, folder: Path, query: str) -> list[list]:
    """What DuckDB's own extension for the format answers."""
    names = {"delta": ("delta",), "iceberg": ("avro", "iceberg")}[kind]
    packages = [f"duckdb=={DUCKDB}", *(f"duckdb-extension-{name}=={DUCKDB}" for name in names)]
    words = [
        str(Path(sys.executable).parent / "uv"),
        "run",
        "--quiet",
        "--isolated",
        "--no-project",
        "--python",
        "3.11",
    ]
    words += [word for package in packages for word in ("--with", package)]
    find = (
        "import importlib.util as u, sys; print(*[u.find_spec(f'duckdb_extension_{n}').origin for n in sys.argv[1:]])"
    )

    def run(*rest: str) -> str:
        done = subprocess.run(
            [*words, "python", *rest], capture_output=True, text=True, timeout=300, env=environment(), check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    places = [Path(one).parent for one in run("-c", find, *names).split()]
    extensions = [str(next(place.rglob("*.duckdb_extension"))) for place in places]
    scan = f"delta_scan('{folder}/{NAME}')" if kind == "delta" else f"iceberg_scan('{newest_metadata(folder)}')"
    return json.loads(run("-c", DUCKDB_QUERY, query.replace("{table}", scan), *extensions))


def newest_metadata(folder: Path) -> str:
    """The file that a catalogue would name."""
    return str(max(folder.rglob("*.metadata.json"), key=lambda path: path.name))


SUMS = (
    "count(*), count(distinct id), min(id), max(id), sum(case when _deleted then 1 else 0 end), sum(small), sum(real),"
    " cast(sum(price) as varchar(40)), cast(max(_timestamp) as varchar(40)), cast(min(born) as varchar(10)), max(word),"
    " sum(s.x), count(s.y), count(late), sum(late)"
)
EXPECTED = [
    COMMITS,
    COMMITS,
    2**62,
    2**62 + COMMITS - 1,
    COMMITS // 10,
    sum(range(COMMITS)),
    sum(range(COMMITS)) / 2,
    str(Decimal(sum(range(COMMITS))).scaleb(-2)),
    "2026-01-01 23:59:59.123456",
    "1980-02-29",
    f"v1_{COMMITS - 1:032x}",
    sum(range(COMMITS)),
    0,
    COMMITS // 2,
    sum(range(COMMITS // 2, COMMITS)),
]


def test_duckdb_reads_the_table_by_its_own_extension(table: tuple[str, Path]):
    """Counts, sums and bounds of every type; text of the moment has the zone."""
    ((*found,),) = by_duckdb(*table, f"select {SUMS} from {{table}}")
    found[8] = found[8].removesuffix("+00")
    assert found == EXPECTED
    nested = by_duckdb(*table, "select l, m['k'], raw = '\\x00\\xFF'::blob, single, yes from {table} where small = 7")
    assert nested[0][0] == ["a", None, "b"]
    assert nested[0][1] in (7, [7])
    assert nested[0][2:] == [True, 0.5, True]


def test_spark_reads_the_table_by_the_format_s_runtime(table):
    """Behind checkpoints and with the column that came later."""
    kind, folder = table
    sums = SUMS.replace("sum(case when _deleted then 1 else 0 end)", "32") if kind == "iceberg" else SUMS
    ((*found,),) = by_spark(kind, folder, f"select {sums} from {{table:{NAME}}}")
    assert found == EXPECTED


def test_polars_and_pandas_read_the_table(table, monkeypatch):
    """By the library that each has for the format; 64-bit numbers stay what they are."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    kind, folder = table
    if kind == "delta":
        lazy = pl.scan_delta(str(folder / NAME))
        arrow = DeltaTable(str(folder / NAME)).to_pyarrow_table()
    else:
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}")
        loaded = catalog.load_table(("lake", NAME))
        lazy, arrow = pl.scan_iceberg(loaded), loaded.scan().to_arrow()
    seen = lazy.select("id", "small", "price", "late", "_deleted", "_timestamp", "l").collect()
    assert (seen.height, seen["id"].max(), seen["id"].n_unique()) == (COMMITS, 2**62 + COMMITS - 1, COMMITS)
    assert (seen["late"].null_count(), seen["_deleted"].sum()) == (COMMITS // 2, COMMITS // 10)
    assert seen["price"].sum() == Decimal(sum(range(COMMITS))).scaleb(-2)
    assert seen["_timestamp"].max() == AT
    assert seen.filter(pl.col("small") == 7)["l"].to_list() == [["a", None, "b"]]
    frame = arrow.to_pandas()
    assert len(frame) == COMMITS
    assert frame["id"].max() == 2**62 + COMMITS - 1
    assert frame["late"].notna().sum() == COMMITS // 2
