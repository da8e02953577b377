"""What a Python worker of Spark brings from one task into the next, and what it runs on."""

import os
import sys
import threading
import time
import zipimport
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext

from aggregator.config.model import HubConfig
from aggregator.config.secrets import HANDED_ON, SecretRef
from aggregator.engine.allocator import faster_malloc
from aggregator.engine.session import open_session
from aggregator.replicate.epoch.slot_job import _SlotsJob
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.task import EpochWork
from aggregator.replicate.warmup import WorkerWarmup
from aggregator.state.names import HubNames
from aggregator.threads import Threads
from tests.trial import wait_for

SECRETS = {"TEST_PASSWORD": "a-password-of-the-test", "TEST_KEY": "a-key-of-the-test"}
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def end_jvm() -> None:
    """A stopped session leaves its JVM to the next one of the process: with what that one inherited, not this one."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        assert gateway.proc.wait(30) == 0
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session as a hub has it, in a JVM of its own."""
    end_jvm()
    settings = {"master": "local[2,4]", "conf": {"spark.local.dir": str(tmp_path_factory.mktemp("spark"))}}
    client = {"security.protocol": "SASL_SSL", "sasl.password": "env:TEST_PASSWORD"}
    parts = {
        "central": {"bootstrap_servers": "127.0.0.1:1", "client": client},
        "keys": {"customer": {"current": 2, "versions": {1: "file:/nowhere", 2: "env:TEST_KEY"}}},
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SECRETS.items():
            patched.setenv(name, value)
        hub = HubConfig.model_validate({"hub": "h", "edges": {}, "spark": settings} | parts)
        session = open_session(hub, "test-workers")
        yield session
        assert {name: os.environ[name] for name in SECRETS} == SECRETS, "the hub itself keeps them"
    session.stop()


def _reading(batches):
    """What a worker sees of the secrets: in its environment, in its parents', and through their references."""
    seen = [Path(f"/proc/{pid}/environ").read_bytes() for pid in ("self", os.getppid())]
    seen.append(repr(os.environ).encode())
    resolved = [SecretRef("env", name).resolve() for name in SECRETS]
    for _ in batches:
        there = [value for value in SECRETS.values() if any(value.encode() in one for one in seen)]
        yield pa.RecordBatch.from_pydict({"there": [there], "resolved": [resolved]})


def test_no_process_of_spark_has_a_secret_in_its_environment(spark):
    """Neither the JVM nor a Python worker, as SQL or Python see it; a reference is resolved there all the same."""
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(_reading, "there array<string>, resolved array<string>").collect()
    assert row.there == []
    assert row.resolved == list(SECRETS.values())
    for name in SECRETS:
        (row,) = spark.sql(f"select reflect('java.lang.System', 'getenv', '{name}') as value").collect()
        assert row.value in (None, "null")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    environment = Path(f"/proc/{jvm}/environ").read_bytes()
    assert not [value for value in SECRETS.values() if value.encode() in environment]
    assert HANDED_ON.encode() in environment, "the search looks at the right process"


HOSTILE = [
    "\x1b[2J",
    "\r\nspark ERROR x: y",
    "\x00",
    "\x7f",
    "\x9b",
    "\u200b",
    "\u202e",
    "\u2028",
    "\u2029",
    "\xa0",
    "\ue000",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_a_line_of_the_jvm_shows_what_came_from_elsewhere(spark, hostile):
    """By the layout that is in force: one line, of printable characters, whatever a message or a name holds."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j
    layout = log4j.core.LoggerContext.getContext(False).getConfiguration().getAppender("stderr").getLayout()
    message = log4j.message.SimpleMessage(f"żółć \U0001f600{hostile}|")
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setLoggerName(f"o.a.N{hostile}").setMessage(message)
    line = layout.toSerializable(event.setLevel(log4j.Level.ERROR).build())
    assert line.endswith("|\n")
    assert line[:-1].isprintable(), ascii(line)
    assert " spark ERROR N" in line
    assert ": żółć \U0001f600" in line


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
    warming = WorkerWarmup(spark, 1)
    warming.start(Threads())
    warming.wait(threading.Event())
    assert [row.archives for row in spark.range(0, 1, 1, 1).mapInArrow(_archives, "archives long").collect()] == [0]


def test_slots_that_are_ended_by_force_take_no_other_job_with_them(spark):
    """Only what was marked as an epoch's slots is cancelled: a job of the lake beside them comes to its end."""
    names, ended = HubNames("h"), {}
    plan = SlotPlan(names, 7, "driver", 0, (), CommitPolicy(1.0, 1000), False, 5.0)
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
