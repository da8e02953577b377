"""`aggregator …` that is killed, whole, at a named step of the lake's cycle.

    python -m tests.chaos.killed_at_step committed 1 run --only lake --config hub.yaml

The process and everything that it started get SIGKILL when the step is reached for the given time.
"""

import itertools
import os
import signal
import sys

from aggregator.cli.main import main
from aggregator.lake import driver
from aggregator.lake.tables.delta import DeltaHandle
from aggregator.lake.tables.iceberg_handle import IcebergHandle


def die_at(step: str, times: int) -> None:
    """Arm one step: `staged`, `audited`, `committed`, or `next`, the cycle after a commit."""
    reached, after_commit = itertools.count(1), []

    def die() -> None:
        if next(reached) == times:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def around(owner, name, *, before=lambda: None, after=lambda: None) -> None:
        real = getattr(owner, name)

        def wrapped(*args, **kwargs):
            before()
            answer = real(*args, **kwargs)
            after()
            return answer

        setattr(owner, name, wrapped)

    if step == "staged":
        around(driver, "run_jobs", after=die)
    for handle in (DeltaHandle, IcebergHandle):
        if step == "audited":
            around(handle, "commit", before=die)
        if step == "committed":
            around(handle, "commit", after=die)
        if step == "next":
            around(handle, "commit", after=lambda: after_commit.append(1))
    if step == "next":
        around(driver, "run_jobs", before=lambda: die() if after_commit else None)


if __name__ == "__main__":
    die_at(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
