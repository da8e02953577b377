"""Runs one process that outlives the command that started it. A file holds the process's id.

Invariant: a signal goes only to a process whose command line holds this process's own mark. A process that reuses the
id is never hit.
"""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from aggregator.regular_files import replace_file

_EXEC_PATIENCE_S = 2.0
_STANDARD = (0, 1, 2)


def _inherited() -> list[int]:
    """What a caller's shell had open: a daemon that kept it would hold the caller's locks and pipes for ever."""
    found = []
    for entry in Path("/dev/fd").iterdir():
        descriptor = int(entry.name)
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
            if descriptor not in _STANDARD and os.get_inheritable(descriptor):
                found.append(descriptor)
    return found


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process in a session of its own.

    Attributes:
        pid_file: Holds the process id while it runs.
        mark: An argument of its command line that no other process has.
        log: Takes its standard output and standard error, appended.
    """

    pid_file: Path
    mark: str
    log: Path

    def find(self) -> psutil.Process | None:
        """The running process; None if there is none, or if its id belongs to somebody else by now."""
        try:
            process = psutil.Process(int(self.pid_file.read_text(encoding="ascii")))
            ours = self.mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if ours else None

    def spawn(self, command: Sequence[str | Path]) -> int:
        """Start `command` in a session of its own, so that neither an exit nor a Ctrl-C of ours ends it.

        Returns:
            The process id. `posix_spawn`, because a `Popen` that is let go complains that its process still runs.
        """
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            command[0],
            [str(part) for part in command],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inherited()),
            ],
            setsid=True,
        )
        replace_file(self.pid_file, str(pid))
        self._await_arguments(pid)
        return pid

    def _await_arguments(self, pid: int) -> None:
        """Wait until the kernel shows the new command line: for an instant after exec it is empty."""
        deadline = time.monotonic() + _EXEC_PATIENCE_S
        while self.find() is None and time.monotonic() < deadline:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return  # it has ended already, and the caller's wait will notice that
            time.sleep(0.002)

    def signal(self, number: signal.Signals) -> psutil.Process | None:
        """Send a signal; the process that got it, None if none runs."""
        process = self.find()
        if process is not None:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                return None
        return process

    def forget(self) -> None:
        """Remove the file with the id of a process that ended."""
        self.pid_file.unlink(missing_ok=True)


def stop_all(daemons: Sequence[Daemon], *, timeout_s: float) -> list[Daemon]:
    """End daemons together: SIGTERM, and after `timeout_s` SIGKILL.

    Returns:
        Those that had to be killed.
    """
    asked = [(daemon, process) for daemon in daemons if (process := daemon.signal(signal.SIGTERM)) is not None]
    for daemon, _ in asked:
        daemon.signal(signal.SIGCONT)  # a frozen process reacts to SIGTERM only after it is continued
    deadline = time.monotonic() + timeout_s
    stubborn = [pair for pair in asked if not wait_for_exit(pair[1], deadline - time.monotonic())]
    for daemon, process in stubborn:
        daemon.signal(signal.SIGKILL)
        wait_for_exit(process, timeout_s)
    for daemon in daemons:
        daemon.forget()
    return [daemon for daemon, _ in stubborn]


def wait_for_exit(process: psutil.Process, timeout_s: float) -> bool:
    """Wait for the end of a process, and return whether it came in time.

    A zombie has ended, whoever has yet to reap it; a child of ours is reaped.
    """
    deadline = time.monotonic() + timeout_s
    while not _ended(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _ended(process: psutil.Process) -> bool:
    try:
        # A killed JVM is a zombie whose threads are still ending. Until they end, they hold its port.
        ended = not process.is_running() or (process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        ended = True
    with contextlib.suppress(ChildProcessError):  # usually it is the child of a command that has ended
        os.waitpid(process.pid, os.WNOHANG)
    return ended
