"""A full disk below each format's tables: named in plain words, nothing lost or doubled, and it goes on with space."""

import pytest

from aggregator.lake.cycle.commit import Commit
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import TableUnavailable
from tests.chaos.mounts import mounted
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, read_ids, staged

SIZE = 2 * 1024 * 1024


@pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
def test_a_full_disk_is_named_and_resumed_from(kind, tmp_path):
    """Fault 7 (I2, I8): staging and commit both refuse by name, without a library's colours; with space both go in."""
    with mounted(tmp_path / "lake", SIZE) as disk:
        tables = kind("hub", Folder(str(tmp_path / "lake")))
        commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
        outcome, handle = staged(tables, FIRST, 1, 2, ids(2)), tables.open(NAME)
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            staged(tables, FIRST, 2, 3, ids(3))
        with pytest.raises(TableUnavailable, match="No space left") as told:
            Commit(tables, NAME, [outcome]).run(handle)
        assert "\x1b" not in str(told.value)
        disk.clear()
        again = staged(tables, FIRST, 1, 2, ids(2))  # as the lake does: what was never sent is gone with the error
        commit(tables, again, staged(tables, FIRST, 2, 3, ids(3)))
        assert read_ids(tables) == [1, 2, 3]
