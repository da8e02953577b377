"""A daemon is found by its own mark, and only its own process gets a signal."""

import os
import signal
import sys
import time

import psutil
import pytest

from aggregator.sandbox.process import Daemon, stop_all

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
SLEEP = "import time; print('up', flush=True); time.sleep(60)"


def _up(daemon, program):
    daemon.spawn([sys.executable, "-c", program, daemon.mark])
    while b"up" not in daemon.log.read_bytes():
        time.sleep(0.01)


@pytest.fixture
def daemon(tmp_path):
    """A daemon that is gone after the test."""
    one = Daemon(tmp_path / "one.pid", str(tmp_path / "mark"), tmp_path / "one.log")
    yield one
    stop_all([one], timeout_s=0.1)


def test_a_daemon_lives_in_a_session_of_its_own(daemon):
    """A Ctrl-C in our terminal must not reach it, so it has its own session; its output is kept."""
    _up(daemon, SLEEP)
    process = daemon.find()
    assert process is not None
    assert os.getsid(process.pid) == process.pid


def test_a_daemon_keeps_nothing_that_its_caller_has_open(daemon):
    """A lock or a pipe of the shell that started it is free when the command ends, not when the daemon does."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    _up(daemon, SLEEP)
    os.close(writing)
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"", "the other end is still open"


def test_stop_ends_it_and_forgets_it(daemon):
    """After stop there is neither a process nor a file that names one."""
    _up(daemon, SLEEP)
    pid = daemon.find().pid
    assert stop_all([daemon], timeout_s=5) == []
    assert not psutil.pid_exists(pid)
    assert not daemon.pid_file.exists()


def test_a_stubborn_one_is_killed(daemon):
    """SIGTERM is a request, SIGKILL is not."""
    _up(daemon, STUBBORN)
    assert stop_all([daemon], timeout_s=0.2) == [daemon]
    assert daemon.find() is None


def test_a_frozen_one_ends_without_being_killed(daemon):
    """A process under SIGSTOP takes SIGTERM once it is let go on."""
    _up(daemon, SLEEP)
    daemon.signal(signal.SIGSTOP)
    assert stop_all([daemon], timeout_s=5) == []


def test_a_reused_process_id_is_never_hit(daemon):
    """The file may name a process that is somebody else's by now: ours, here."""
    daemon.pid_file.write_text(str(os.getpid()))
    assert daemon.find() is None
    assert stop_all([daemon], timeout_s=0.1) == []


@pytest.mark.parametrize("content", ["", "abc", "-1", "99999999"])
def test_a_damaged_file_means_nothing_runs(daemon, content):
    """Half a write or garbage in the file is no process."""
    daemon.pid_file.write_text(content)
    assert daemon.find() is None
