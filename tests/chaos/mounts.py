"""Small file systems of their own, for disks that fill up."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest


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


@contextlib.contextmanager
def mounted(folder: Path, size: int):
    """The folder on a disk of its own."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a disk of a few MB needs the right to mount: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
