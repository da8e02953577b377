"""What systemd and probes are told of a hub, its standby and a hub that stands still."""

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.processes import signal_all
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
QUESTIONS = ("live", "ready", "leading")


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """The socket that systemd would listen on; each hub has a runtime folder of its own, as each unit has."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "notify"))
        line.settimeout(90)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield line


def asked(trial, unit: str, monkeypatch) -> list[int]:
    """The exit codes of `health` in the environment of one unit."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", unit)
    return [trial.run("health", question).returncode for question in QUESTIONS]


def test_probes_tell_a_hub_its_standby_and_one_that_stands_still(trial, tmp_path, monkeypatch, systemd):
    """A service is ready when it leads or stands by; frozen it is not live, and the standby leads in its place."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert asked(trial, first, monkeypatch) == [1, 1, 1]
    with trial.running() as hub:
        said = ""
        while "READY=1" not in said:
            said = systemd.recv(4096).decode()
        assert asked(trial, first, monkeypatch) == [0, 0, 0]
        (beat,) = Path(first, "aggregator").iterdir()
        assert set(json.loads(beat.read_text())) == {"stage", "at_s", "hanging"}
        monkeypatch.setenv("RUNTIME_DIRECTORY", second)
        with trial.running("--standby") as standby:
            wait_for(lambda: asked(trial, second, monkeypatch) == [0, 0, 1], timeout=90, what="the standby")
            signal_all(hub, signal.SIGSTOP)
            try:
                wait_for(lambda: asked(trial, second, monkeypatch) == [0, 0, 0], timeout=120, what="the new leader")
                wait_for(lambda: asked(trial, first, monkeypatch) == [1, 1, 1], timeout=60, what="its silence")
            finally:
                signal_all(hub, signal.SIGCONT)
            assert hub.wait(90) == 6
            assert asked(trial, first, monkeypatch) == [1, 1, 1]
            standby.terminate()
            assert standby.wait(60) == 0
    assert asked(trial, second, monkeypatch) == [1, 1, 1]
