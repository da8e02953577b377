"""Both formats in an object store on loopback, through the clients of their own libraries."""

import pytest

from aggregator.config.lake_model import CatalogConfig
from aggregator.lake.quality.verdict_log import append_audit, append_commit, read
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import TableUnavailable
from tests.object_store import BUCKET, ObjectStore
from tests.stored_tables import found, live_there
from tests.unit.lake.quality.audits import audit
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, staged


@pytest.fixture
def store():
    running = ObjectStore()
    yield running
    running.end()


@pytest.fixture(params=["delta", "iceberg"])
def tables(request, store, tmp_path):
    folder = Folder(f"s3://{BUCKET}/hub", request.param, store.options(request.param))
    if request.param == "delta":
        return DeltaTables("hub", folder)
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    return IcebergTables("hub", folder, catalog=CatalogConfig(options=options))


def test_a_table_lives_in_an_object_store(tables):
    """As on a disk."""
    live_there(tables)


def test_the_history_of_verdicts_lies_there_too(tables):
    """A store takes no line behind another; each process has files of its own, and a reader sees one history."""
    append_audit(tables.folder, audit(1))
    append_commit(tables.folder, audit(1, version=4, commit_s=0.5))
    (seen,) = read(tables.folder, "t")
    assert (seen.version, seen.commit_s) == (4, 0.5)


def test_a_store_that_is_away_is_named_and_waited_for(store):
    """Without an option, a key or an address that is signed; and it goes on."""
    tables = DeltaTables("hub", Folder(f"s3://{BUCKET}/hub", "delta", store.options("delta")))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    outcome = staged(tables, FIRST, 1, 2, ids(2))
    handle = tables.open(NAME)
    store.turn()
    with pytest.raises(TableUnavailable, match=NAME) as told:
        handle.commit(outcome.files, {FIRST: 2})
    assert "127.0.0.1" not in str(told.value)
    with pytest.raises(OSError):  # noqa: PT011 - each client's own text; the task names the table
        staged(tables, FIRST, 2, 3, ids(3))
    store.turn()
    commit(tables, outcome)
    assert found(tables) == [1, 2]
