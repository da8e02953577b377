"""What a supervisor's signal does to Spark's JVM: nothing, because the hub ends it itself.

Invariant: SIGTERM to all processes of a hub (systemd sends it so, and `timeout`) ends the hub as SIGTERM to it alone
does. A JVM whose parent is gone ends all the same: its standard input has ended.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Of the thread that starts a process, as what it forks has it: no other thread's children are meant.
_here = threading.local()


@contextmanager
def deaf_to_sigterm() -> Iterator[None]:
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
