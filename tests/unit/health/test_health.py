"""Beats of a hub's process, what probes are answered, and what systemd is told."""

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.health import beats
from aggregator.health.beacon import Beacon
from aggregator.health.beats import Beat, Stage
from aggregator.health.systemd import notify
from aggregator.health.verdict import ProbeQuestion, why_unhealthy
from aggregator.threads import Threads

NOW_S = 1000.0
UNIT = Path(__file__).parents[3] / "configs" / "systemd" / "aggregator.service"


@pytest.mark.parametrize(
    ("stage", "yes"),
    [
        (Stage.STARTING, {"live"}),
        (Stage.STANDBY, {"live", "ready"}),
        (Stage.LEADING, {"live", "ready", "leading"}),
        (Stage.STOPPING, {"live"}),
    ],
)
def test_a_probe_is_answered_by_the_stage(stage, yes):
    """A standby is ready: it would lead."""
    told = {question: why_unhealthy(question, [Beat(stage, NOW_S)], NOW_S + 5) for question in ProbeQuestion}
    assert {question.value for question, why in told.items() if not why} == yes
    assert {why for why in told.values() if why} <= {f"it is {stage.value}"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param([], "does not run here", id="none"),
        pytest.param([Beat(Stage.LEADING, NOW_S - 21)], "does not run here", id="frozen"),
        pytest.param([Beat(Stage.LEADING, NOW_S + 1)], "does not run here", id="of the time before a reboot"),
        pytest.param([Beat(Stage.LEADING, NOW_S, "driver")], "driver stands still", id="its driver hangs"),
        pytest.param([Beat(Stage.LEADING, NOW_S, "driver"), Beat(Stage.STANDBY, NOW_S)], "", id="another one moves"),
    ],
)
def test_who_does_not_move_is_not_live(found, why):
    """Whatever it was at."""
    answer = why_unhealthy(ProbeQuestion.LIVE, found, NOW_S)
    assert why in answer
    assert bool(why) == bool(answer)


@pytest.fixture
def environ(tmp_path):
    """A folder for beats, and systemd's socket."""
    return {"RUNTIME_DIRECTORY": str(tmp_path / "runtime"), "NOTIFY_SOCKET": str(tmp_path / "notify")}


@pytest.fixture
def systemd(environ):
    """Takes what systemd is told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(environ["NOTIFY_SOCKET"])
        line.settimeout(10)
        yield line


def told(line: socket.socket, most: int = 100) -> list[str]:
    """All that came until now."""
    found = []
    line.settimeout(0.2)
    while len(found) < most:
        try:
            found += line.recv(4096).decode().split("\n")
        except TimeoutError:
            break
    return found


@pytest.mark.slow
def test_systemd_and_probes_are_told_of_each_stage(environ, systemd):
    """From the first moment to the end, after which nothing is left."""
    place, stop = beats.folder(environ), threading.Event()
    with Beacon("hub", Threads(), stop, environ) as beacon:
        (first,) = beats.read(place, "hub")
        assert (first.stage, "READY=1" in told(systemd)) == (Stage.STARTING, False)
        beacon.set_stage(Stage.STANDBY)
        beacon.set_stage(Stage.LEADING)
        (leading,) = beats.read(place, "hub")
        assert (leading.stage, beats.read(place, "other")) == (Stage.LEADING, [])
        assert [one for one in told(systemd) if not one.startswith("WATCHDOG")] == [
            "STATUS=standby", "READY=1", "STATUS=leading", "READY=1",
        ]  # fmt: skip
        stop.set()
        deadline = time.monotonic() + 10
        while (found := beats.read(place, "hub"))[0].stage is not Stage.STOPPING:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
    assert (beats.read(place, "hub"), list(place.iterdir())) == ([], [])
    assert told(systemd)[-1] == "STOPPING=1"


@pytest.mark.slow
def test_a_driver_that_hangs_beats_without_the_watchdog(environ, systemd):
    """So that systemd, and a liveness probe, start it anew."""
    threads = Threads()
    with threads.watching("driver", 0.01), Beacon("hub", threads, threading.Event(), environ) as beacon:
        time.sleep(0.1)
        told(systemd)
        beacon.set_stage(Stage.LEADING)
        assert told(systemd) == ["STATUS=leading", "READY=1"]
        assert "driver" in why_unhealthy(ProbeQuestion.LIVE, beats.read(beats.folder(environ), "hub"), time.monotonic())


def test_another_thread_that_hangs_costs_no_restart(environ):
    """Page and status name it."""
    threads = Threads()
    with threads.watching("page", 0.01), Beacon("hub", threads, threading.Event(), environ):
        time.sleep(0.1)
        assert not why_unhealthy(ProbeQuestion.LIVE, beats.read(beats.folder(environ), "hub"), time.monotonic())


def test_files_of_processes_that_are_gone_are_removed_at_a_start(environ):
    """Those that move stay, and what cannot be read is nobody's."""
    place = beats.folder(environ)
    beats.write(beats.file_of(place, "hub", 1), Beat(Stage.LEADING, time.monotonic() - 60))
    beats.write(beats.file_of(place, "hub", 2), Beat(Stage.LEADING, time.monotonic()))
    for number, text in enumerate((b"", b"{", b"[]", b'{"stage": "asleep", "at_s": 1}', b"\xff" * 100)):
        beats.file_of(place, "hub", 10 + number).write_bytes(text)
    with Beacon("hub", Threads(), threading.Event(), environ):
        assert {beat.stage for beat in beats.read(place, "hub")} == {Stage.LEADING, Stage.STARTING}
        assert not beats.file_of(place, "hub", 1).exists()


def test_a_hub_that_cannot_beat_goes_on(tmp_path, caplog):
    """It is said once, and probes are told no."""
    (tmp_path / "file").write_text("")
    environ = {"RUNTIME_DIRECTORY": str(tmp_path / "file")}
    with Beacon("hub", Threads(), threading.Event(), environ) as beacon:
        beacon.set_stage(Stage.LEADING)
    assert caplog.text.count("RUNTIME_DIRECTORY") == 1
    place = beats.folder(fine := {"RUNTIME_DIRECTORY": str(tmp_path / "runtime")})
    with Beacon("hub", Threads(), threading.Event(), fine) as beacon:
        shutil.rmtree(place)
        beacon.set_stage(Stage.LEADING)
        beacon.set_stage(Stage.STOPPING)
    assert caplog.text.count("cannot be written") == 1


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket", "@no-such-socket", "vsock:1:2"])
def test_where_no_systemd_listens_nothing_is_told(address):
    """Nor waited for."""
    began = time.monotonic()
    notify({"NOTIFY_SOCKET": address}, "READY=1")
    notify({}, "READY=1")
    assert time.monotonic() - began < 5


def test_an_abstract_socket_is_told(tmp_path):
    """As systemd may name it."""
    name = f"aggregator-test-{tmp_path.name}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind("\0" + name)
        notify({"NOTIFY_SOCKET": "@" + name}, "READY=1", "STATUS=leading")
        line.settimeout(5)
        assert line.recv(100) == b"READY=1\nSTATUS=leading"


def test_the_command_ends_with_the_answer(tmp_path, monkeypatch):
    """0 for yes and 1 for no, and nothing on stdout."""
    (tmp_path / "hub.yaml").write_text(
        'hub: one\ncentral: {bootstrap_servers: "c:9092"}\nedges: {eu: {bootstrap_servers: "e:9092", schemas: '
        '"directory:."}}\nschemas: "directory:."\ntopics: []\n'
    )
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "runtime"))
    place = beats.folder(os.environ)

    def ask(question: str) -> int:
        done = CliRunner().invoke(main, ["health", question, "--config", str(tmp_path / "hub.yaml")])
        assert done.stdout == ""
        assert ("is not" in done.stderr) == bool(done.exit_code), done.stderr
        return done.exit_code

    assert [ask(question.value) for question in ProbeQuestion] == [1, 1, 1]
    beats.write(beats.file_of(place, "one", 7), Beat(Stage.STANDBY, time.monotonic()))
    assert [ask(question.value) for question in ProbeQuestion] == [0, 0, 1]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    """Every line of it."""
    program = tmp_path / "aggregator"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/aggregator/bin/aggregator", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
