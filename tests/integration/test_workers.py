"""What a Python worker of Spark brings from one task into the next, and what it runs on."""

import sys
import threading
import time
import zipimport
from pathlib import Path

import pyarrow as pa
import pytest

from aggregator.config.model import HubConfig
from aggregator.engine.allocator import faster_malloc
from aggregator.engine.session import open_session
from aggregator.replicate.cadence import Cadence
from aggregator.replicate.slot_job import _SlotsJob
from aggregator.replicate.slot_plan import SlotPlan
from aggregator.replicate.task import EpochWork
from aggregator.replicate.warming import Warming
from aggregator.state.names import HubNames
from aggregator.threads import Threads
from tests.trial import wait_for

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


def test_slots_that_are_ended_by_force_take_no_other_job_with_them(spark):
    """Only what was marked as an epoch's slots is cancelled: a job of the lake beside them comes to its end."""
    names, ended = HubNames("h"), {}
    plan = SlotPlan(names, 7, 0, (), Cadence(1.0, 1000), False, 5.0)
    slots = _SlotsJob(spark, EpochWork(None, {}, (plan,), frozenset()))

    def job(name, seconds, mark):
        def body(batches):
            for batch in batches:
                time.sleep(seconds)
                yield batch

        if mark:
            mark()
        try:
            spark.range(0, 1, 1, 1).mapInArrow(body, "id long").collect()
            ended[name] = "done"
        except Exception as error:  # noqa: BLE001 - Spark raises whatever its gateway does
            ended[name] = str(error)

    running = [
        threading.Thread(target=job, args=("slots", 120, slots.mark)),
        threading.Thread(target=job, args=("lake", 6, None)),
    ]
    for one in running:
        one.start()
    wait_for(lambda: len(spark.sparkContext.statusTracker().getActiveStageIds()) == 2, timeout=30, what="both jobs")
    slots.cancel()
    for one in running:
        one.join(60)
    assert ended["lake"] == "done"
    assert "cancel" in ended["slots"].lower()


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
