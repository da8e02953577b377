"""A Delta table of which a file cannot be read: only a reader that skips it, by its statistics, gets an answer."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from tests.unit.lake.tabling import FIRST, NAME, commit, rows, staged

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NESTED = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])


def half_broken(folder: Path) -> None:
    """Commit a row of ones, break its file, and commit a row of fives, each in a column of every type with bounds."""
    tables = DeltaTables("hub", Folder(str(folder)))
    commit(tables, staged(tables, FIRST, 0, 1, _row(1)))
    (broken,) = tables.open(NAME).live_paths()
    (folder / NAME / broken).write_bytes(b"broken")
    commit(tables, staged(tables, FIRST, 1, 2, _row(5)))


def _row(number: int) -> pa.Table:
    moment = NEW_YEAR + dt.timedelta(days=number, microseconds=5)
    return rows(
        1,
        text=pa.array([f"{number}" * 40]),
        real=pa.array([number + 0.5]),
        dec=pa.array([Decimal(f"{number}.25")], pa.decimal128(10, 2)),
        rec=pa.array([{"a": number, "b": {"c": f"v{number}"}}], NESTED),
        at=pa.array([moment], pa.timestamp("us", "UTC")),
    )
