"""The page's own process, for real: what goes wrong in it, or at its door, leaves the hub's process as it was."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from aggregator.page import server as server_module
from aggregator.page.server import PageServer
from aggregator.threads import ThreadCondition, Threads
from tests.crowd import crowd
from tests.trial import wait_for
from tests.unit.page.showing import TOKEN, Watched, config, troubled, wide

pytestmark = [pytest.mark.slow, pytest.mark.whole]

ROOT = Path(__file__).resolve().parents[3]
SILENT = 1000
START_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    """Enough for a thousand clients in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * SILENT)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A page with a token over the troubled hub: server, what it watches, its threads."""
    monkeypatch.setenv("A_KEY_OF_THE_HUB", "the-material-of-a-key")
    monkeypatch.setenv("PASSWORD_OF_AN_EDGE", "a-password")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    ui = {"listen": "127.0.0.1:0", "token": f"file:{tmp_path}/token"}
    hub = config(ui=ui, keys={"customer": "env:A_KEY_OF_THE_HUB"})
    threads, watched = Threads(), Watched(troubled())
    server = PageServer(hub, {}, threads)
    server.serve(watched)
    wait_for(lambda: "eu" in (read(server) or ""), timeout=START_S, what="the page")
    yield server, watched, threads
    server.close()
    assert children() == []


def children() -> list[psutil.Process]:
    """The page's processes."""
    return [
        one
        for one in psutil.Process().children(recursive=True)
        if one.status() != psutil.STATUS_ZOMBIE and "aggregator.page" in one.cmdline()
    ]


def read(server, path="") -> str | None:
    """What a token holder reads; None where nobody answers."""
    request = urllib.request.Request(server.address + path, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return None


def test_a_thousand_silent_sockets_take_nothing_of_the_hub(served):
    """No descriptor, no thread; and a token holder reads all the while."""
    server, watched, _ = served
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    hub = psutil.Process()
    before, threads_before = hub.num_fds(), hub.num_threads()
    with contextlib.ExitStack() as stack:
        crowd(stack, (host, int(port)), SILENT)
        took = []
        for _ in range(10):
            began = time.monotonic()
            assert "eu" in read(server)
            took.append(time.monotonic() - began)
        assert hub.num_fds() - before <= SILENT + 2, "their own ends are here, and no others"
        assert hub.num_threads() <= threads_before
        (page,) = children()
        assert page.num_fds() < 400
        watched.seen = replace(wide(3, 2), number=8)
        wait_for(lambda: "edge-2" in (read(server) or ""), timeout=5, what="the next snapshot")
    assert max(took) < 3.0, took


def _first_bytes(connection: socket.socket) -> bytes:
    """The beginning of an answer; nothing where the connection was closed or reset before it was read."""
    try:
        return connection.recv(12)
    except ConnectionResetError:
        return b""


def test_words_that_never_come_keep_no_reader_out(served):
    """A hundred who say that they will tell the token: few are waited for, and not long; a token holder reads on."""
    server, _, _ = served
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    owed = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\ntoken="
    with contextlib.ExitStack() as stack:
        others = crowd(stack, (host, int(port)), 100)
        for one in others:
            one.sendall(owed)
        began = time.monotonic()
        assert "eu" in read(server)
        assert time.monotonic() - began < 2
        said = {_first_bytes(one) for one in others}
    assert b"HTTP/1.1 403" in said
    assert said <= {b"HTTP/1.1 403", b"HTTP/1.1 503", b""}, "who was refused may have had to go before it read so"


def test_a_page_that_dies_or_hangs_is_begun_again(served, monkeypatch):
    """Killed or stopped: the hub's thread goes on, says so, and the page is there again on the same address."""
    monkeypatch.setattr(server_module, "_SILENT_S", 2.0)
    server, _, threads = served
    for number, hurt in enumerate((signal.SIGKILL, signal.SIGSTOP), 1):
        (page,) = children()
        os.kill(page.pid, hurt)
        wait_for(
            lambda old=page.pid: [p.pid for p in children()] not in ([], [old]), timeout=30, what="another process"
        )
        wait_for(lambda: "eu" in (read(server) or ""), timeout=START_S, what="the page again")
        (told,) = [one for one in threads.statuses() if one.name == "page"]
        assert told.restarts == number
        assert told.condition is ThreadCondition.RUNNING
        assert "page's process" in told.error


@pytest.mark.usefixtures("served")
def test_the_page_has_no_key_of_the_hub():
    """Neither in its environment nor by reference; what it needs to ask an edge stays."""
    (page,) = children()
    environment = page.environ()
    assert "A_KEY_OF_THE_HUB" not in environment
    assert "AGGREGATOR_SECRETS" not in environment
    assert environment["PASSWORD_OF_AN_EDGE"] == "a-password"
    assert "the-material-of-a-key" not in str(environment)


def test_only_the_hub_ends_it(served):
    """A terminal's Ctrl-C reaches every process, and is the hub's to answer."""
    server, _, _ = served
    (page,) = children()
    os.kill(page.pid, signal.SIGINT)
    time.sleep(0.5)
    assert children() == [page]
    assert "eu" in read(server)


HUB = """
import time
from aggregator.page.server import PageServer
from aggregator.threads import Threads
from tests.unit.page.showing import config
server = PageServer(config(ui={"listen": "127.0.0.1:0"}), {}, Threads())
print(server.address, flush=True)
time.sleep(120)
"""


def test_a_page_whose_hub_is_killed_ends():
    """Its link is all that it lives by: nobody is left to tell it."""
    with subprocess.Popen([sys.executable, "-c", HUB], stdout=subprocess.PIPE, text=True, cwd=ROOT) as hub:
        assert hub.stdout.readline().startswith("http://127.0.0.1:")
        wait_for(lambda: len(children()) == 1, timeout=20, what="the page's process")
        (page,) = children()
        time.sleep(3)
        hub.kill()
        page.wait(30)


def test_a_snapshot_that_never_comes_stops_nobody(served):
    """Whoever watches may fail: the page shows what it has, and how old that is."""
    server, watched, _ = served
    watched.latest = lambda: None
    time.sleep(6)
    shown = read(server)
    assert "eu" in shown
    assert re.search(r"nothing new from the monitor for \d+ s", shown)
