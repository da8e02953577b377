"""What it costs to keep the current state of a table, by its new rows and by all of them.

    python -m tests.bench.current --keys 2000000 --changes 1000 -o json

Every key has had `--versions` rows. Then some keys change: of the newest hundredth of all, as orders do, or any. Each
change is one commit of the table, and its refresh is timed; a whole refresh, as a new process makes it, is timed after
the same number of changes. Rows have the hub's columns, three texts and two numbers.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.current_state import CurrentState
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.unit.lake.tabling import FIRST, NAME, commit, staged

PIECE = 250_000
FORMATS = {"delta": DeltaTables, "iceberg": IcebergTables}


def rows(keys: Sequence[int], first: int) -> pa.Table:
    """A row for each key, at the offsets from `first` on."""
    count, numbers = len(keys), pa.array(np.asarray(keys, np.int64))
    offsets = pa.array(np.arange(first, first + count, dtype=np.int64))
    given = {
        "_edge": pa.repeat("eu", count),
        "_topic": pa.repeat("orders", count),
        "_partition": pa.array(np.zeros(count, np.int32)),
        "_offset": offsets,
        "_incarnation": pa.array(np.zeros(count, np.int32)),
        "_key": numbers.cast(pa.string()).cast(pa.binary()),
        "_deleted": pa.repeat(pa.scalar(value=False), count),
    }
    fixed = [given.get(one.name, pa.nulls(count, one.type)) for one in FIXED_COLUMNS]
    table = pa.Table.from_arrays(fixed, schema=FIXED_COLUMNS)
    for at in range(3):
        table = table.append_column(f"text{at}", offsets.cast(pa.string()))
    return table.append_column("id", numbers).append_column("amount", offsets)


class Table:
    """A table with its history, and its current state."""

    def __init__(self, kind: str, folder: Path, keys: int, versions: int) -> None:
        self._tables = FORMATS[kind]("hub", Folder(str(folder)))
        self._state = self._new_state()
        self._next, self._keys = 0, keys
        for _ in range(versions):
            for begin in range(0, keys, PIECE):
                self.change(range(begin, min(keys, begin + PIECE)))

    def _new_state(self) -> CurrentState:
        return CurrentState(self._tables, self._tables.folder, NAME)

    def change(self, keys: Sequence[int]) -> None:
        """One commit with a new row for each of these keys."""
        begin, self._next = self._next, self._next + len(keys)
        assert commit(self._tables, staged(self._tables, FIRST, begin, self._next, rows(keys, begin))).version

    def refresh(self, *, whole: bool = False) -> float:
        """Seconds that a refresh takes; the state is then what it must be."""
        if whole:
            self._state = self._new_state()
        began = time.perf_counter()
        assert self._state.refresh([FIRST], force=True) is not None
        took_s = time.perf_counter() - began
        handle = self._tables.open(self._state.table)
        files = [str(Path(str(self._tables.folder), self._state.table, one)) for one in handle.live_paths()]
        query = f"select count(*), count(distinct id), max(amount) from read_parquet({files})"
        assert duckdb.sql(query).fetchall() == [(self._keys, self._keys, self._next - 1)]
        return took_s


def measure(kind: str, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a refresh of each sort, the medians of the rounds."""
    chance, took_s = random.Random(26), dict[str, list[float]]()
    newest = range(options.keys - options.keys // 100, options.keys)
    with tempfile.TemporaryDirectory() as folder:
        table = Table(kind, Path(folder), options.keys, options.versions)
        table.refresh(whole=True)
        for _ in range(options.rounds):
            for name, among in (("newest", newest), ("any", range(options.keys)), ("whole", range(options.keys))):
                table.change(chance.sample(among, options.changes))
                took_s.setdefault(name, []).append(table.refresh(whole=name == "whole"))
    return {name: round(statistics.median(found), 3) for name, found in took_s.items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    asked = {name: getattr(options, name) for name in ("keys", "versions", "changes", "rounds")}
    print(json.dumps(asked | {"refresh_s": {kind: measure(kind, options) for kind in FORMATS}}))


if __name__ == "__main__":
    main()
