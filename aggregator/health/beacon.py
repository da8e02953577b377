"""The beacon tells systemd and probes every two seconds which stage the process of a hub has reached.

Invariant: the beacon never ends the hub. If it cannot write, it logs that once.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aggregator.health import beats
from aggregator.health.beats import Beat, Stage
from aggregator.health.systemd import notify
from aggregator.threads import Pulse, ThreadCondition, Threads

_EVERY_S = 2.0
_BOUND_S = 60.0
# Without this thread nothing is delivered. If another thread hangs, status and page name it, without a restart.
_VITAL = "driver"
log = logging.getLogger(__name__)


class Beacon:
    """Writes the beats of one process, from its first moment until its end.

    Args:
        hub: The hub's name.
        threads: The threads of the process.
        stop: Set where the process is to end.
        environ: Names systemd's socket and the folder for beats.
    """

    def __init__(self, hub: str, threads: Threads, stop: threading.Event, environ: Mapping[str, str]) -> None:
        self._threads, self._stop, self._environ = threads, stop, environ
        self._stage = Stage.STARTING
        self._over, self._lock = threading.Event(), threading.Lock()
        place = beats.folder(environ)
        self._path = beats.file_of(place, hub, os.getpid()) if place else None
        if place is None:
            log.warning("no folder for beats, so that `aggregator health` says no: set RUNTIME_DIRECTORY")

    def __enter__(self) -> Self:
        if self._path:
            beats.forget_old(self._path.parent, time.monotonic())
        self._beat()
        self._threads.start("beacon", self._run, stop=self._over, bound_s=_BOUND_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._over.set()
        notify(self._environ, "STOPPING=1")
        with self._lock:
            if self._path:
                self._path.unlink(missing_ok=True)
            self._path = None

    def set_stage(self, stage: Stage) -> None:
        """Set the stage that the process has reached, and tell it."""
        self._stage = stage
        self._beat()
        if stage is not Stage.STARTING:
            notify(self._environ, "READY=1")

    def _run(self, pulse: Pulse) -> None:
        while not self._over.wait(_EVERY_S):
            pulse()
            self._beat()

    def _beat(self) -> None:
        stage = Stage.STOPPING if self._stop.is_set() else self._stage
        hangs = any(one.name == _VITAL and one.condition is ThreadCondition.HANGING for one in self._threads.statuses())
        hanging = _VITAL if hangs else ""
        notify(self._environ, f"STATUS={stage}", *(() if hanging else ("WATCHDOG=1",)))
        with self._lock:
            if self._path is None:
                return
            try:
                beats.write(self._path, Beat(stage, time.monotonic(), hanging))
            except OSError as error:
                why = "%s cannot be written, so that `aggregator health` says no: %s"
                log.warning(why, self._path, error.strerror)
                self._path = None
