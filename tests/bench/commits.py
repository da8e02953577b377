"""What a commit costs when a table has had thousands of them: as a hub leaves it, without upkeep, and by the library.

    python -m tests.bench.commits --commits 5000 -o json

A table of 41 columns grows by files of a hundred rows. The hub's commit reads the positions and commits files with the
new ones, as a cycle of the lake does; its upkeep runs after every fortieth, in its own time. Beside it the hub without
upkeep, and the format's library, which appends the same rows as a job that somebody writes by hand does, for fewer
commits: each costs more than the one before. In a last line of each, a reader counts the rows through DuckDB.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from aggregator.config.lake_model import UpkeepConfig
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.commit import Commit
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.upkeep.background import BackgroundUpkeep

NAME, ROWS, KEPT_UP_EVERY = "orders", 100, 40
AT = CentralPartition("eu.orders", "id", 0)
FORMATS = {"delta": DeltaTables, "iceberg": IcebergTables}
_TEXT, _NUMBERS = range(15), range(15)


def rows(number: int) -> pa.Table:
    """A hundred rows of 41 columns: the hub's eleven, fifteen texts and fifteen numbers."""
    first = number * ROWS
    table = pa.Table.from_arrays([pa.nulls(ROWS, one.type) for one in FIXED_COLUMNS], schema=FIXED_COLUMNS)
    for at in _TEXT:
        table = table.append_column(f"text{at}", pa.array([f"{first + n}-{at}" for n in range(ROWS)]))
    for at in _NUMBERS:
        table = table.append_column(f"number{at}", pa.array(range(first + at, first + at + ROWS), pa.int64()))
    return table


class Hub:
    """The hub's own way, with its upkeep or without."""

    def __init__(self, kind: str, folder: Path, *, is_kept_up: bool) -> None:
        self._tables = FORMATS[kind]("hub", Folder(str(folder)))
        self._upkeep = BackgroundUpkeep(UpkeepConfig(), self._tables) if is_kept_up else None
        self.upkeep_s = 0.0

    def commit(self, number: int, table: pa.Table) -> float:
        """Seconds of one commit, from opening the table on."""
        stage = StagingWriter(self._tables.folder / NAME, None, promotes=self._tables.promotes)
        stage.add(table)
        span = Span(AT, OffsetRange(number, number + 1))
        outcome = StagingOutcome((SpanProgress(span, number + 1),), stage.close())
        began = time.perf_counter()
        handle = self._tables.open(NAME)
        if handle:
            handle.positions([AT])
        assert Commit(self._tables, NAME, [outcome]).run(handle).version is not None
        took_s = time.perf_counter() - began
        if self._upkeep and number % KEPT_UP_EVERY == KEPT_UP_EVERY - 1:
            began = time.perf_counter()
            self._upkeep.keep_up(NAME)
            self.upkeep_s += time.perf_counter() - began
        return took_s

    def files(self) -> list[str]:
        """Of the newest version."""
        handle = self._tables.open(NAME)
        return [str(Path(str(self._tables.folder), NAME, path)) for path in handle.live_paths()] if handle else []


class Library:
    """An append by the format's own library."""

    upkeep_s = 0.0

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder / NAME
        self._made = FORMATS[kind]("hub", Folder(str(folder)))

    def commit(self, number: int, table: pa.Table) -> float:
        """Seconds of one append; its table is made before the first."""
        if self._kind == "iceberg":
            if number == 0:
                self._made.create(NAME, self._made.narrowed(table.schema))
            narrow = table.cast(self._made.narrowed(table.schema))
            began = time.perf_counter()
            self._made.open(NAME).table.append(narrow)
        else:
            began = time.perf_counter()
            write_deltalake(str(self._folder), table, mode="append")
        return time.perf_counter() - began

    def files(self) -> list[str]:
        """Of the newest version."""
        return [str(self._folder / path) for path in self._made.open(NAME).live_paths()]


def measure(way: "Hub | Library", commits: int, windows: int) -> dict[str, object]:
    """So many commits, in windows of equal numbers."""
    took_ms: list[float] = [1000 * way.commit(number, rows(number)) for number in range(commits)]
    size = commits // windows
    found = [sorted(took_ms[at * size : (at + 1) * size]) for at in range(windows)]
    files = way.files()
    began = time.perf_counter()
    (counted,) = duckdb.sql(f"select count(number0) from read_parquet({files})").fetchall()
    read_s = time.perf_counter() - began
    assert counted[0] == commits * ROWS == sum(pq.read_metadata(one).num_rows for one in files)
    return {
        "median_ms": [round(statistics.median(one), 1) for one in found],
        "p99_ms": [round(one[len(one) * 99 // 100], 1) for one in found],
        "most_ms": round(max(took_ms), 1),
        "upkeep_share": round(way.upkeep_s * 1000 / (sum(took_ms) + way.upkeep_s * 1000), 3),
        "files": len(files),
        "read_s": round(read_s, 2),
    }


def ways(kind: str, counts: argparse.Namespace) -> Iterator[tuple[str, int, Callable[[Path], "Hub | Library"]]]:
    """Names of the contestants, their commits, and how each begins."""
    yield "hub", counts.commits, lambda folder: Hub(kind, folder, is_kept_up=True)
    yield "hub_without_upkeep", counts.unkept, lambda folder: Hub(kind, folder, is_kept_up=False)
    yield "library", counts.library, lambda folder: Library(kind, folder)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=5000)
    parser.add_argument("--unkept", type=int, default=1000, help="commits of the hub without upkeep")
    parser.add_argument("--library", type=int, default=300, help="commits of the library alone")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    for kind in FORMATS:
        for name, commits, begin in ways(kind, options):
            with tempfile.TemporaryDirectory() as folder:
                found.setdefault(kind, {})[name] = measure(begin(Path(folder)), commits, options.windows)
            print(f"{kind} {name}: {found[kind][name]}", file=sys.stderr, flush=True)
    asked = {"commits": options.commits, "unkept": options.unkept, "library": options.library}
    print(json.dumps(asked | {"formats": found}, indent=2))


if __name__ == "__main__":
    main()
