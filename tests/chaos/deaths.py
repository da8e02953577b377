"""A process that dies at a chosen step."""

import subprocess
import sys

from tests.processes import environment


def die(trial, step: str, *words: str, times: int = 1) -> None:
    """Run a command, by default the lake alone, until it is killed at a step."""
    words = words or ("run", "--only", "lake")
    command = [sys.executable, "-m", "tests.chaos.killed_at_step", step, str(times), *words]
    done = subprocess.run(
        [*command, "--config", str(trial.config)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        start_new_session=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr[-3000:]
