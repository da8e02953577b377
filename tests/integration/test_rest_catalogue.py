"""Iceberg tables that are registered in a REST catalogue on loopback: rule G holds as it does over SQL."""

import pytest

from aggregator.config.model import CatalogConfig
from aggregator.lake.compaction import Compacted, compact
from aggregator.lake.folder import Folder
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict, TableUnavailable
from tests.rest_catalogue import rest_catalogue
from tests.unit.lake.tabling import FIRST, NAME, SECOND, commit, ids, read_ids, staged


def tables_at(address: str, folder) -> IcebergTables:
    options = {"type": "rest", "uri": address}
    return IcebergTables("hub", Folder(str(folder)), catalog=CatalogConfig(options=options))


def test_commits_conflicts_and_a_catalogue_that_is_away(tmp_path):
    """Files and positions are one version, the second of two writers is refused, and what is away is waited for."""
    with rest_catalogue(tmp_path) as address:
        tables = tables_at(address, tmp_path / "lake")
        assert tables.names() == []
        commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
        ours, stale = tables.open(NAME), tables.open(NAME)
        outcome = staged(tables, FIRST, 2, 3, ids(3))
        ours.commit(outcome.files, {FIRST: 3})
        with pytest.raises(CommitConflict):
            stale.commit(outcome.files, {FIRST: 3})
        with pytest.raises(CommitConflict):
            tables.create(NAME, ours.schema())
        commit(tables, staged(tables, SECOND, 0, 1, ids(4)))
        assert compact(tables, tables.folder / NAME, NAME) == Compacted(3, 1)
        handle = tables.open(NAME)
        assert handle.positions([FIRST, SECOND]) == {FIRST: 3, SECOND: 1}
        assert (tables.names(), read_ids(tables)) == ([NAME], [1, 2, 3, 4])
    late = staged(tables, FIRST, 3, 4, ids(5))
    with pytest.raises(TableUnavailable, match="does not answer"):
        handle.commit(late.files, {FIRST: 4})
