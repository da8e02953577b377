"""What a supervisor's SIGTERM to all of a hub's processes does to those that Spark starts."""

import signal
import subprocess
import sys
import threading

from aggregator.engine.stop_signals import sigterm_ignored

TELL = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_IGN)"


def is_deaf() -> bool:
    """Whether a process that is started as pyspark starts its JVM ignores SIGTERM."""

    def as_pyspark_does() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    ran = subprocess.run(
        [sys.executable, "-c", TELL], preexec_fn=as_pyspark_does, stdout=subprocess.PIPE, check=True, text=True
    )
    return ran.stdout.strip() == "True"


def test_the_jvm_outlives_a_sigterm_to_the_whole_group():
    """The hub ends it when it has stopped cleanly; processes that are started before and after obey it."""
    assert not is_deaf()
    with sigterm_ignored():
        assert is_deaf()
    assert not is_deaf()
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN


def test_processes_of_other_threads_obey_it():
    """What is asked of clusters while Spark starts runs in processes of its own."""
    found: list[bool] = []
    with sigterm_ignored():
        thread = threading.Thread(target=lambda: found.append(is_deaf()))
        thread.start()
        thread.join()
    assert found == [False]
