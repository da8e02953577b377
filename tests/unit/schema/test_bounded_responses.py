"""A registry's answer is held to its budget: bytes, compression, and time in all; over real sockets."""

import contextlib
import gzip
import itertools
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from aggregator.budgets import ANSWER_BYTES, ANSWER_SECONDS
from aggregator.errors import Unreachable
from aggregator.schema import bounded_responses
from aggregator.schema.confluent import ConfluentRegistry

HUGE = b'{"schema": "' + b" " * (ANSWER_BYTES.limit + 1) + b'"}'


class Server:
    """Answers every request in one way, and counts the bytes that were taken from it."""

    def __init__(self, encoding, chunks, pause_s=0.0):
        self.accepted = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.accepted.append(self.headers.get("Accept-Encoding"))
                self.send_response(200)
                if encoding:
                    self.send_header("Content-Encoding", encoding)
                self.end_headers()
                for chunk in chunks:
                    try:
                        self.wfile.write(chunk)
                    except OSError:
                        return
                    time.sleep(pause_s)

            def log_message(self, *_):
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def close(self):
        """Stop."""
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def serve():
    """Servers that end with the test."""
    made = []

    def start(*how, **more):
        made.append(Server(*how, **more))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.mark.parametrize("how", ["compressed", "plain"])
def test_an_answer_that_is_too_large_is_not_held(serve, how):
    """Ten kilobytes that would become megabytes are not inflated, and a large plain answer is cut off."""
    server = serve("gzip", [gzip.compress(HUGE)]) if how == "compressed" else serve(None, [HUGE])
    registry = ConfluentRegistry(server.address, {}, wait_s=20.0)
    with pytest.raises(Unreachable):
        registry.schema(7)
    assert set(server.accepted) == {"identity"}


@pytest.mark.slow
def test_an_answer_in_drops_is_cut_off(serve, monkeypatch):
    """Each byte is in time, and all of them never are: the question ends."""
    monkeypatch.setattr(bounded_responses, "ANSWER_SECONDS", ANSWER_SECONDS._replace(limit=0.2))
    server = serve(None, [b" "] * 600, pause_s=0.05)
    registry = ConfluentRegistry(server.address, {}, wait_s=20.0)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        registry.schema(7)
    assert time.monotonic() - began < 15


class Dripping(threading.Thread):
    """A server whose first connections get a byte of a head now and then, without end; later ones are answered."""

    def __init__(self, drips):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.drips, self.over = drips, threading.Event()
        self.start()

    def run(self):
        for number in itertools.count():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection, number < self.drips), daemon=True).start()

    def serve(self, connection, drips):
        body = json.dumps({"schema": '"int"'}).encode()
        with connection, contextlib.suppress(OSError):
            while asked := connection.recv(4096):
                assert asked.startswith(b"GET")
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while drips and not self.over.wait(0.02):
                    connection.sendall(b"X")
                connection.sendall(
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                )

    def close(self):
        self.over.set()
        self.listener.close()


@pytest.mark.slow
def test_a_head_in_drops_is_given_up(monkeypatch):
    """It ends in no time of its own; the registry is asked anew, and nothing of the old question is left running."""
    monkeypatch.setattr(bounded_responses, "ANSWER_SECONDS", ANSWER_SECONDS._replace(limit=0.2))
    server = Dripping(2)
    registry = ConfluentRegistry(server.address, {}, wait_s=0.1)
    began, text = time.monotonic(), None
    while text is None:
        assert time.monotonic() - began < 30
        with contextlib.suppress(Unreachable):
            text = registry.schema(7)
        time.sleep(0.01)
    assert text == '"int"'
    server.close()
    while any(one.name == "registry" for one in threading.enumerate()):
        assert time.monotonic() - began < 30
        time.sleep(0.01)
