"""What a Python worker of Spark brings from one task into the next, and what it runs on."""

import sys
import threading
import zipimport
from pathlib import Path

import pyarrow as pa
import pytest

from aggregator.config.model import HubConfig
from aggregator.engine.allocator import faster_malloc
from aggregator.engine.session import open_session
from aggregator.replicate.warming import Warming
from aggregator.threads import Threads

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session as a hub has it."""
    settings = {"master": "local[2,4]", "conf": {"spark.local.dir": str(tmp_path_factory.mktemp("spark"))}}
    central = {"bootstrap_servers": "127.0.0.1:1"}
    session = open_session(
        HubConfig.model_validate({"hub": "h", "central": central, "edges": {}, "spark": settings}), "test-workers"
    )
    yield session
    session.stop()


def _archives(batches):
    found = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"archives": [len(found)]})


def test_the_task_after_a_warm_one_has_no_archive_to_read_anew(spark):
    """A task of ours forgets the archives that Spark's workers import from; without that the next one finds them."""
    seen = [
        row.archives
        for _ in range(2)
        for row in spark.range(0, 1, 1, 1).mapInArrow(_archives, "archives long").collect()
    ]
    assert seen[1] > 0, "Spark's workers import from no archive any more: what this is for has gone"
    warming = Warming(spark, 1)
    warming.start(Threads())
    warming.wait(threading.Event())
    assert [row.archives for row in spark.range(0, 1, 1, 1).mapInArrow(_archives, "archives long").collect()] == [0]


def _libraries(batches):
    mapped = {Path(line.split()[-1]).name for line in Path("/proc/self/maps").read_text().splitlines()}
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"name": sorted(mapped)})


@pytest.mark.skipif(faster_malloc() is None, reason="no faster malloc is installed (Debian: libtcmalloc-minimal4)")
def test_a_worker_has_the_faster_malloc(spark):
    """The library is in the worker's memory, and in nobody's before."""
    rows = spark.range(0, 1, 1, 1).mapInArrow(_libraries, "name string").collect()
    stem = faster_malloc().partition(".so")[0]
    assert [row.name for row in rows if row.name.startswith(stem)]
    assert stem not in Path("/proc/self/maps").read_text()
