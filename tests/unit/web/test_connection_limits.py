"""Connections by the hundred, over real sockets: whoever asks is answered, whoever is silent goes."""

import asyncio
import contextlib
import resource
import socket
import threading
import time

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from aggregator.web.connection_limits import ConnectionLimits
from aggregator.web.server import WebServer, listening
from tests.crowd import crowd
from tests.unit.web.asking import asked, held, is_over

SILENT = 1000
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = ConnectionLimits(head_s=1.0, waiting=32, waiting_each=16, answers=8, answers_each=4)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("descriptors")]


@pytest.fixture(scope="module")
def descriptors():
    """As many as this process may have: clients and server share it here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8 * SILENT)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Served:
    """A server with one answer and one stream, in a thread."""

    def __init__(self, limits=LIMITS):
        self.ended = threading.Event()
        routes = [Route("/", lambda _: PlainTextResponse("hello")), Route("/stream", self._stream)]
        self.socket = listening("127.0.0.1:0", "a test", "")
        self.turns = 0
        self._web = WebServer(Starlette(routes=routes), limits, self._turn)
        self._thread = threading.Thread(target=self._web.run, args=(self.socket,))
        self._thread.start()
        self.address = self.socket.getsockname()

    def _turn(self):
        self.turns += 1

    def _stream(self, _):
        async def pieces():
            yield b"begun"
            while not self.ended.is_set():  # noqa: ASYNC110 - it is set by another thread
                await asyncio.sleep(0.05)

        return StreamingResponse(pieces())

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)

    def close(self):
        self.ended.set()
        self._web.close()
        self._thread.join(10)
        self.socket.close()


@pytest.fixture
def served():
    """A server, ended after the test."""
    server = Served()
    yield server
    server.close()


@pytest.mark.parametrize("said", [b"", b"G", REQUEST[:-2], b"GET / HTTP/1.1\r\nX: " + b"a" * 9000])
def test_a_thousand_who_finish_no_head_keep_nobody_out(served, said):
    """Silent, or with a piece of a head: the server holds a few of them, every request is answered at once."""
    with contextlib.ExitStack() as stack:
        others = crowd(stack, served.address, SILENT)
        for one in others:
            with contextlib.suppress(OSError):
                one.sendall(said)
        took = []
        for _ in range(20):
            began = time.monotonic()
            with served.connect() as mine:
                assert b"hello" in asked(mine, REQUEST)
            took.append(time.monotonic() - began)
        assert max(took) < 2.0, took
        assert held(served.address[1]) <= LIMITS.waiting_each + 2
        assert all(is_over(one) for one in others[: SILENT - 100])
        assert is_over(others[-1]), "its deadline has come"


def test_a_head_in_small_pieces_has_one_deadline(served):
    """A byte now and then, as slow-loris sends them, buys no time; neither does a first, honest request."""
    for first in (b"", REQUEST):
        with served.connect() as one:
            if first:
                assert b"hello" in asked(one, first)
            began = time.monotonic()
            with contextlib.suppress(OSError):
                while time.monotonic() - began < 4:
                    one.sendall(b"X")
                    time.sleep(0.1)
            assert time.monotonic() - began < LIMITS.head_s + 1


def test_a_body_that_never_comes_buys_no_time(served):
    """The answer has gone out, and what the request still owes is not waited for."""
    with served.connect() as one:
        assert b"hello" in asked(one, b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 4:
                one.sendall(b"X")
                time.sleep(0.1)
        assert time.monotonic() - began < LIMITS.head_s + 1


def test_a_stream_is_not_ended(served):
    """What is being answered has no deadline of its head, also while others come and go."""
    with served.connect() as one, contextlib.ExitStack() as stack:
        assert b"200 OK" in asked(one, REQUEST.replace(b"/ ", b"/stream ", 1))
        crowd(stack, served.address, 100)
        assert not is_over(one, within_s=LIMITS.head_s + 1)


def test_too_many_answers_at_once_are_refused_and_forgotten(served):
    """One address has a part of the answers; the next request is told to come again, and is answered later."""
    streams = [served.connect() for _ in range(LIMITS.answers_each)]
    for one in streams:
        assert b"200 OK" in asked(one, REQUEST.replace(b"/ ", b"/stream ", 1))
    with served.connect() as more:
        answer = asked(more, REQUEST)
        assert b"503" in answer
        assert b"Retry-After: 1".lower() in answer.lower()
    for one in streams:
        one.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with served.connect() as more:
            if b"hello" in asked(more, REQUEST):
                return
        time.sleep(0.1)
    pytest.fail("nobody forgot the streams that ended")


def test_requests_one_after_another_keep_their_connection(served):
    """An honest client with a connection of its own, and one that sends the next request before the answer."""
    with served.connect() as one:
        for _ in range(5):
            assert b"hello" in asked(one, REQUEST)
            time.sleep(0.1)
        one.sendall(REQUEST * 3)
        said = b""
        while said.count(b"hello") < 3:
            said += one.recv(4096)


def test_the_loop_turns_meanwhile(served):
    """Its pulse comes while a thousand wait: nothing blocks it."""
    with contextlib.ExitStack() as stack:
        crowd(stack, served.address, SILENT)
        before = served.turns
        time.sleep(2.5)
        assert served.turns > before
