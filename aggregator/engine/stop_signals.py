"""This module makes Spark's JVM ignore a supervisor's SIGTERM, because the hub ends the JVM itself.

Invariant: SIGTERM to all processes of a hub, as systemd and `timeout` send it, has the same effect as SIGTERM to the
hub alone. A JVM whose parent is gone still ends, because its standard input has ended.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Thread-local, so that only children of the thread that starts Spark ignore the signal.
_here = threading.local()


@contextmanager
def sigterm_ignored() -> Iterator[None]:
    """While the block lasts, processes that this thread starts for Spark are born ignoring SIGTERM.

    The JVM keeps that, as it keeps what `nohup` gives it. pyspark does the same for SIGINT, by a function that runs in
    the child; Python calls what is registered here in such a child, before it.
    """
    _here.deaf = True
    try:
        yield
    finally:
        _here.deaf = False


def _in_child() -> None:
    if getattr(_here, "deaf", False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_child)
