"""Checks what the machine must have before clusters start: memory and disk.

Invariant: a refusal says how much there is and how much is needed.
"""

import shutil
from pathlib import Path

import psutil

from aggregator.errors import FatalError

# Measured: a broker with a 448 MB heap uses 350 to 550 MB.
_MEMORY_PER_BROKER = 500 * 1024**2
DISK = 1024**3
_MIB = 1024**2
_CGROUP = Path("/sys/fs/cgroup")


def available_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes that new processes can take: what the machine has left, or the container if that is less."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int((cgroup / "memory.max").read_text(encoding="ascii"))
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        cached = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
        return min(available, limit - used + int(cached.get("inactive_file", 0)))
    except (OSError, ValueError):
        return available  # no container, or one without a limit ("max")


def check_memory(brokers: int, available: int) -> None:
    """Refuse to start more brokers than fit.

    Raises:
        FatalError: too little memory.
    """
    needed = brokers * _MEMORY_PER_BROKER
    if available < needed:
        raise FatalError(
            f"too little memory: {brokers} brokers need {needed // _MIB} MB, {available // _MIB} MB are available",
            hint="end other programs, or start fewer edges with --edges, or fewer brokers with --brokers",
        )


def check_disk(folder: Path) -> None:
    """Refuse a folder whose disk is nearly full.

    Raises:
        FatalError: less than 1 GB is free.
    """
    free = shutil.disk_usage(folder).free
    if free < DISK:
        raise FatalError(
            f"too little disk: {free // _MIB} MB are free below {folder}, {DISK // _MIB} MB are needed",
            hint="free some, or take a folder on another disk with --dir",
        )
