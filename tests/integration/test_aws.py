"""Both formats in S3, and Iceberg's tables in Glue, as moto speaks them: conditional puts, and tables' versions."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from aggregator.config.lake_model import CatalogConfig
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict
from tests.aws import Aws
from tests.object_store import BUCKET
from tests.stored_tables import found, live_there
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, staged


@pytest.fixture(scope="module")
def aws():
    running = Aws()
    yield running
    running.end()


@pytest.fixture(params=["delta", "iceberg"])
def tables(request, aws, monkeypatch):
    folder = Folder(f"s3://{BUCKET}/{request.node.name}", request.param, aws.storage(request.param))
    if request.param == "delta":
        return DeltaTables("hub", folder)
    monkeypatch.setenv("GLUE_SECRET", "y")
    catalog = CatalogConfig(namespace=request.node.name[5:9], options=aws.catalog("env:GLUE_SECRET"))
    return IcebergTables("hub", folder, catalog=catalog)


def test_a_table_lives_in_s3_and_glue(tables):
    """Commits, a conflict, compaction, sweep and vacuum."""
    live_there(tables)


def test_of_many_writers_each_commits_once(tables):
    """Four write from the same version, until all have; every row is there once, and the positions are the last."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(0)))
    done = []

    def write(_: int) -> int:
        refused = 0
        while True:
            handle = tables.open(NAME)
            (start,) = handle.positions([FIRST]).values()
            outcome = staged(tables, FIRST, start, start + 1, ids(start))
            try:
                handle.commit(outcome.files, {FIRST: start + 1})
            except CommitConflict:
                refused += 1
            else:
                done.append(start)
                return refused

    with ThreadPoolExecutor(4) as pool:
        refused = sum(pool.map(write, range(12)))
    assert refused
    assert sorted(done) == list(range(1, 13))
    assert found(tables) == list(range(13))
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 13}
