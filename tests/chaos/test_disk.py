"""The disk below the lake is full: central goes on, the lake says what to do, and goes on when there is space."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(900)]

SIZE = 6 * 1024 * 1024


class SmallDisk:
    """A file system of a few MB, in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"

    @property
    def free(self) -> int:
        """Bytes that a writer can still have."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def fill(self) -> None:
        """Leave no byte."""
        with self._ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"\0" * 4096)
        assert self.free == 0, "the fault did not hit"

    def clear(self) -> None:
        """Give the space back."""
        self._ballast.unlink()


@pytest.fixture
def small_disk(trial):
    """The lake's folder on a disk of its own."""
    folder = trial.folder / "lake"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a disk of a few MB needs the right to mount: {done.stderr.strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


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
