"""Metrics are served by the hub's own process: who is silent, slow or many takes nothing of it, and scrapes go on."""

import contextlib
import resource
import socket
import time

import psutil
import pytest

from aggregator.config.model import MetricsConfig
from aggregator.observe import metrics_server
from aggregator.observe.metrics_server import MetricsServer
from aggregator.threads import Threads
from tests.crowd import crowd
from tests.unit.web.asking import asked, held, is_over

SILENT = 1000
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# Of one address; the tests are one, and give a head less time than a hub does.
WAITING, ANSWERS, HEAD_S = 16, 8, 2.0
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("descriptors")]


@pytest.fixture(scope="module")
def descriptors():
    """As many as this process may have: clients and server share it here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8 * SILENT)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def served(monkeypatch):
    """A server of metrics as a hub has it, but for the time that a head has."""
    monkeypatch.setattr(metrics_server, "_LIMITS", metrics_server._LIMITS._replace(head_s=HEAD_S))
    server = MetricsServer(MetricsConfig(listen="127.0.0.1:0"), Threads())
    yield server
    server.close()


def connected(server: MetricsServer) -> socket.socket:
    """A connection to it."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def scraped(server: MetricsServer) -> float:
    """Seconds that a scrape takes."""
    began = time.monotonic()
    with connected(server) as mine:
        assert b"200 OK" in asked(mine, REQUEST)
    return time.monotonic() - began


def test_it_is_bounded_as_it_is_written_down():
    """One address gets half of what there is, and a head has so long."""
    limits = metrics_server._LIMITS
    assert (limits.waiting_each, limits.answers_each, limits.head_s) == (WAITING, ANSWERS, 5.0)
    assert (limits.waiting, limits.answers) == (2 * WAITING, 2 * ANSWERS)


@pytest.mark.parametrize("said", [b"", b"G", REQUEST[:-2], b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 9000])
def test_a_thousand_who_finish_no_head_take_nothing_of_the_hub(served, said):
    """Silent, or with a piece of a head: few connections are held, no thread is begun, and every scrape is answered."""
    hub = psutil.Process()
    scraped(served)
    threads, descriptors = hub.num_threads(), hub.num_fds()
    with contextlib.ExitStack() as stack:
        others = crowd(stack, ("127.0.0.1", served.port), SILENT)
        for one in others:
            with contextlib.suppress(OSError):
                one.sendall(said)
        took = [scraped(served) for _ in range(20)]
        assert held(served.port) <= WAITING + 2
        assert hub.num_fds() - descriptors <= SILENT + WAITING + 4, "their own ends are here, too"
        assert hub.num_threads() <= threads
        assert all(is_over(one) for one in others[: SILENT - 100])
        assert is_over(others[-1], within_s=HEAD_S + 2), "its deadline has come"
    assert max(took) < 2.0, took


@pytest.mark.parametrize("first", [b"", REQUEST])
def test_a_head_in_small_pieces_has_one_deadline(served, first):
    """A byte now and then buys no time; neither does a first, honest scrape."""
    with connected(served) as one:
        if first:
            assert b"200 OK" in asked(one, first)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 2 * HEAD_S:
                one.sendall(b"X")
                time.sleep(0.1)
        assert time.monotonic() - began < HEAD_S + 1.5
