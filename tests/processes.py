"""The processes of a hub under test: its environment, its members, and what kills or freezes all of them at once."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil


class LoggedProcess(subprocess.Popen):
    """A process whose output is in a file."""

    log: Path


def environment() -> dict[str, str]:
    """The environment of a hub under test: its JVM compiles little, its Python caches bytecode; both start in half."""
    environ = os.environ | {"PYTHONWARNINGS": "default", "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def members(process: subprocess.Popen) -> list[psutil.Process]:
    """Every process of a run: the driver, JVMs, Python daemons and workers; all share the session of the command."""
    found = []
    for one in psutil.process_iter():
        try:
            if os.getsid(one.pid) == process.pid and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def signal_all(process: subprocess.Popen, number: signal.Signals) -> None:
    """Send a signal to every process of a run."""
    signal_each(members(process), number)


def signal_each(found: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to these, as far as they are there."""
    for one in found:
        try:
            one.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def kill_all(process: subprocess.Popen) -> None:
    """SIGKILL the whole run; returns when none of it is left."""
    while members(process):
        signal_all(process, signal.SIGKILL)
        time.sleep(0.02)
    process.wait(20)


def freeze(cluster) -> None:
    """SIGSTOP of a cluster's brokers; returns when all stand, for a commit is answered in less than that takes."""
    cluster.freeze()
    deadline = time.monotonic() + 5
    while any(broker.daemon.find().status() != psutil.STATUS_STOPPED for broker in cluster.brokers):
        assert time.monotonic() < deadline, "a broker does not stop"
        time.sleep(0.001)
