"""A full disk below the lake, below central's log, and below the hub: named, nothing lost, and it goes on."""

import pytest

from aggregator.sandbox.sandbox import Sandbox
from tests.chaos.mounts import mounted
from tests.chaos.promptness import Arrivals
from tests.chaos.supervisor import supervised
from tests.trial import Trial, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

LAKE_SIZE = 6 * 1024 * 1024
# Kafka keeps 20 MB of index for each partition's newest segment, as holes; what is written is a few MB.
BROKER_SIZE = 256 * 1024 * 1024


@pytest.fixture
def small_disk(trial):
    """The lake's folder on a disk of its own."""
    with mounted(trial.folder / "lake", LAKE_SIZE) as disk:
        yield disk


def test_the_lake_s_disk_is_full(trial, arrivals, small_disk):
    """Fault 7 (I1-I4, I8): named with the next step, replication flows, a drain ends with 1; with space it resumes."""
    with trial.running() as hub, trial.traffic("eu", "us") as produced:
        wait_for(lambda: trial.lake_version() >= 0, timeout=120, what="a first commit")
        small_disk.fill()
        quiet = len(hub.log.read_text())
        wait_for(lambda: "check the disk" in hub.log.read_text()[quiet:], timeout=60, what="the next step in the log")
        before = arrivals["eu"].count()
        arrivals["eu"].reach(before + 500, hub=hub, timeout=20)
        version = trial.lake_version()
        small_disk.clear()
        wait_for(lambda: hub.poll() is not None or trial.lake_version() > version, timeout=40, what="a commit again")
        small_disk.fill()
    done = trial.run("run", "--drain")
    assert done.returncode == 1, done.stderr[-3000:]
    assert "check the disk" in done.stderr
    assert "Traceback" not in done.stderr
    small_disk.clear()
    trial.drain()
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge])


def test_central_s_disk_is_full(tmp_path):
    """Fault 7 (I1-I4, I8): the broker ends; the hub waits, or ends with 1 and a next step; with space all is there."""
    with mounted(tmp_path / "clusters" / "central", BROKER_SIZE) as disk:
        sandbox = Sandbox.up(tmp_path / "clusters", ("eu", "us"))
        try:
            trial = Trial(sandbox, tmp_path)
            for edge in sandbox.edges:
                trial.create(edge)
            arrivals = Arrivals(trial, "eu")
            with supervised(trial) as hub, trial.traffic("eu", "us") as produced:
                arrivals.reach(500, timeout=120)
                disk.fill()
                wait_for(lambda: sandbox.central.pid is None, timeout=90, what="the broker's end on a full disk")
                before = produced["eu"]
                disk.clear()
                sandbox.central.start()
                took = arrivals.reach(before + 500, timeout=120)
            print(f"recovered in {took} s, ends {hub.ends}")
            assert {code for code, _ in hub.ends} <= {1}
            assert all("next:" in words for _, words in hub.ends)
            arrivals.close()
            trial.drain()
            for edge in sandbox.edges:
                trial.check_exactly_once(edge, produced[edge])
        finally:
            sandbox.down()


def test_the_hub_s_scratch_disk_is_full(trial, monkeypatch):
    """Fault 7 (I1, I2): a hub keeps nothing on its own disk, so a full one takes nothing from it."""
    trial.produce("eu", 500)
    scratch = trial.folder / "scratch"
    with mounted(scratch, LAKE_SIZE) as disk:
        for name in ("TMPDIR", "SPARK_LOCAL_DIRS"):
            monkeypatch.setenv(name, str(scratch))
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.io.tmpdir={scratch}")
        disk.fill()
        with trial.running("--drain") as hub:
            wait_for(lambda: hub.poll() is not None or any(scratch.rglob("blockmgr*")), timeout=90, what="its use")
            assert hub.poll() is None, hub.log.read_text()
            assert disk.free == 0
            assert hub.wait(120) == 0, hub.log.read_text()
        trial.check_exactly_once("eu", 500)
