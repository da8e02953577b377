"""A supervisor as a production has one: a hub that ends with an error is started again, at once."""

import threading
from contextlib import contextmanager

from tests.processes import LoggedProcess, kill_all

_MAX_RESTARTS = 20
# Another hub of this name runs: to start again would only disturb it.
_TAKEN_OVER = 6


class Supervised:
    """A hub that is kept running.

    Attributes:
        ends: Exit code and last words of each life that ended by itself.
    """

    def __init__(self, trial, *arguments: str) -> None:
        self.ends: list[tuple[int, str]] = []
        self.process: LoggedProcess | None = None
        self._trial = trial
        self._arguments = arguments
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """Start the first life."""
        self._thread.start()

    def kill(self) -> None:
        """SIGKILL the whole run; the next life follows. Counted by `ends` with code -9."""
        kill_all(self.process)

    def stop(self) -> None:
        """End it for good."""
        self._over.set()
        self._thread.join(60)

    def _keep(self) -> None:
        while not self._over.is_set() and len(self.ends) < _MAX_RESTARTS:
            with self._trial.running(*self._arguments) as self.process:
                while self.process.poll() is None and not self._over.wait(0.05):
                    pass
                if self.process.poll() is not None:
                    self.ends.append((self.process.returncode, self.process.log.read_text()[-3000:]))
            if self.process.returncode == _TAKEN_OVER:
                return


@contextmanager
def supervised(trial, *arguments: str):
    """A hub under supervision while the block runs."""
    made = Supervised(trial, *arguments)
    made.start()
    try:
        yield made
    finally:
        made.stop()
