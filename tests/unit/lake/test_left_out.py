"""Notices of what a restate left out, between rows and tombstones of its topic: staged apart, and nowhere else."""

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.kafka.readers.committed_reader import CommittedRecords
from aggregator.lake.columns.decode import BatchDecoder
from aggregator.lake.cycle.task import StagingPlan, _Running
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.unit.lake.avro_samples import framed

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}'
COLUMNS = ["_offset", "_incarnation", "_deleted"]


@pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("left_out", [{1, 3}, {0, 1, 2, 3}, set()], ids=["some", "all", "none"])
def test_notices_are_no_rows_of_a_restate(kind, apart, left_out, tmp_path):
    """A tombstone is a row; so is whatever somebody wrote with such a header into a live topic."""
    values = [None if at in left_out or at == 2 else framed(SCHEMA, {"id": at}) for at in range(4)]
    origins = [b"hub/eu/orders/0/%d/1" % (10 + at) for at in range(4)]
    piece = CommittedRecords("t", 0, list(range(4)), [1] * 4, [b"k"] * 4, values, origins, left_out=left_out)
    folder = Folder(str(tmp_path))
    tables = kind("hub", folder)
    task = StagingPlan("t", folder, ClusterConfig(bootstrap_servers="x:1"), "", tables, None, (), apart=apart)
    running = _Running(
        task, None, BatchDecoder(lambda _: SCHEMA), StagingWriter(folder, None), StagingWriter(folder, None)
    )
    running._add(piece)
    staged = [
        [(row["_offset"], row["_incarnation"], row["_deleted"]) for row in rows_of(folder, stage)]
        for stage in (running.stage, running.left_out)
    ]
    told = left_out if apart else set()
    assert staged == [
        [(10 + at, 1, values[at] is None) for at in range(4) if (at in told) is one] for one in (False, True)
    ]


def rows_of(folder: Folder, stage: StagingWriter) -> list[dict]:
    return [row for file in stage.close() for row in folder.rows(file.path, COLUMNS).to_pylist()]
