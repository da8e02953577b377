"""What a Python worker of Spark brings from one task into the next."""

import sys
import threading
import zipimport

import pyarrow as pa
import pytest

from aggregator.config.model import HubConfig
from aggregator.engine.session import open_session
from aggregator.replicate.warming import Warming

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def _archives(batches):
    found = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"archives": [len(found)]})


def test_the_task_after_a_warm_one_has_no_archive_to_read_anew(tmp_path):
    """A task of ours forgets the archives that Spark's workers import from; without that the next one finds them."""
    settings = {"master": "local[2,4]", "conf": {"spark.local.dir": str(tmp_path)}}
    central = {"bootstrap_servers": "127.0.0.1:1"}
    spark = open_session(
        HubConfig.model_validate({"hub": "h", "central": central, "edges": {}, "spark": settings}), "test-workers"
    )
    try:
        seen = [
            row.archives
            for _ in range(2)
            for row in spark.range(0, 1, 1, 1).mapInArrow(_archives, "archives long").collect()
        ]
        assert seen[1] > 0, "Spark's workers import from no archive any more: what this is for has gone"
        warming = Warming(spark, 1)
        warming.start()
        warming.wait(threading.Event())
        assert [row.archives for row in spark.range(0, 1, 1, 1).mapInArrow(_archives, "archives long").collect()] == [0]
    finally:
        spark.stop()
