"""Reloads changed policies into a running hub. On SIGHUP, or when a look finds other files (`policy_watch`), they are
read and checked by the plan; then they are accepted or refused.

Invariant: the hub uses its present policies until all new ones are accepted. A refusal changes nothing. The hub's log
and status report it with the next step.
"""

import hashlib
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from enum import Enum, auto
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError, in_one_line
from aggregator.machine_clock import utc_now_ms, utc_today
from aggregator.plan.policy_reload import changed, objections
from aggregator.privacy.policy.cross_check import read_policies
from aggregator.privacy.policy.file import Policy
from aggregator.regular_files import read_bytes
from aggregator.threads import Pulse, Threads

_LOOK_S, _LEAVES_S = 0.5, 5.0
_AGAIN_S = 600.0  # a plan asks every edge
log = logging.getLogger(__name__)


class Reload(Enum):
    """What became of policies that were read again."""

    TAKEN = auto()
    REFUSED = auto()
    UNCHANGED = auto()


class FileChanges:
    """Says when files have come to other contents and stay so, which is what a reload is for.

    Args:
        paths: Files; one that cannot be read has a content of its own, too.
        every: Time between two looks; None: nobody looks.
    """

    def __init__(self, paths: Iterable[Path], every: timedelta | None) -> None:
        self._paths = sorted(paths)
        self._every_s = every.total_seconds() if every else math.inf
        self._looked_s = -math.inf
        self._again_s = math.inf
        self._known = self._seen = b""  # they were read before anybody looked, and may be others by now

    def are_due(self, now_s: float) -> bool:
        """Whether files have changed since they were last due, and were the same at the look before; or are to be tried
        again.

        Args:
            now_s: Seconds on a clock that only goes forward.
        """
        if now_s - self._looked_s < self._every_s:
            return False
        self._looked_s, before, self._seen = now_s, self._seen, self._digest()
        is_due = self._seen == before and (self._seen != self._known or now_s >= self._again_s)
        if is_due:
            self._known, self._again_s = self._seen, math.inf
        return is_due

    def try_again(self, now_s: float) -> None:
        """They were refused, perhaps for the sake of an edge that did not answer: they are due again in a while."""
        self._again_s = now_s + _AGAIN_S

    def _digest(self) -> bytes:
        found = hashlib.sha256()
        for path in self._paths:
            try:
                content = read_bytes(path)
            except OSError as error:
                content = type(error).__name__.encode()
            found.update(hashlib.sha256(content).digest())
        return found.digest()


class PolicyReload:
    """Reloads changed policies into a running hub.

    Args:
        config: The hub's configuration.
        policies: Policies of its rules at its start, by path.
        use_policies: Replaces the hub's policies, from its next epoch on.
        told: Takes what speaks against the new ones; nothing, where they are in force.
        is_stale: Whether the hub's own file changed since its start, and counts at the next one only.
        today: Asked at every reload.
    """

    def __init__(
        self,
        config: HubConfig,
        policies: Mapping[Path, Policy],
        use_policies: Callable[[Mapping[Path, Policy]], None],
        *,
        told: Callable[[Sequence[str]], None],
        is_stale: Callable[[], bool],
        today: Callable[[], date] = utc_today,
    ) -> None:
        self._config = config
        self._policies = policies
        self._use_policies = use_policies
        self._told = told
        self._is_stale = is_stale
        self._today = today

    @contextmanager
    def on_hangup(self, threads: Threads, stop: threading.Event) -> Iterator[None]:
        """Reload on SIGHUP while the block lasts; one from a terminal that was closed sets `stop` instead."""
        asked = threading.Event()
        terminal = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None

        def hang_up(_signal: int, _frame: object) -> None:
            is_closed = terminal is not None and not os.isatty(terminal)
            (stop if is_closed else asked).set()

        def wait(pulse: Pulse) -> None:
            while not over.is_set():
                pulse()
                is_asked = asked.wait(_LOOK_S)
                if is_asked or changes.are_due(time.monotonic()):
                    asked.clear()
                    if self.reload(asked=is_asked) is Reload.REFUSED:
                        changes.try_again(time.monotonic())

        over, changes = threading.Event(), FileChanges(self._policies, self._config.policy_watch)
        before = signal.signal(signal.SIGHUP, hang_up)
        thread = threads.start("policies", wait, stop=over, bound_s=None)
        try:
            yield
        finally:
            over.set()
            signal.signal(signal.SIGHUP, before)
            thread.join(_LEAVES_S)

    def reload(self, *, asked: bool = True) -> Reload:
        """Read the files and apply them.

        Args:
            asked: Whether somebody waits for an answer, also where nothing has changed.
        """
        try:
            if self._is_stale():
                log.warning("the hub's own file has changed since it started, and counts at its next start: restart it")
            new, today = read_policies(self._config, self._today()), self._today()
            files = changed(self._policies, new)
            if not files:
                if asked:
                    log.info("no policy file has changed: nothing is reloaded")
                self._told(())
                return Reload.UNCHANGED
            now_ms = utc_now_ms()
            log.info("policy files have changed: it is judged first what they would do, at every edge")
            against = objections(self._config, self._policies, new, now_ms=now_ms, today=today)
        except AggregatorError as error:
            against = list(error.lines)
        against = [in_one_line(line) for line in against]
        for line in against:
            log.warning("the policies stay as they are: %s", line)
        self._told(against)
        if against:
            return Reload.REFUSED
        self._policies = new
        self._use_policies(new)
        for path in files:
            log.warning("%s: policy %s version %d is in force from now on", path, new[path].policy, new[path].version)
        return Reload.TAKEN
