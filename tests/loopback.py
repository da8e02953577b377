"""HTTP services of tests on loopback: served from a thread while a block lasts, and gone behind it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """Writes no line for a request."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer.

        Args:
            status: Its code.
            body: What it says.
            headers: Further ones, by name.
        """
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Address of a server that answers while the block lasts."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def loopback(answer: Callable[[Quiet], None]):
    """The same, of a new server on a free port, which gives each request to a function."""
    handler = type("Handler", (Quiet,), {"do_GET": answer, "do_POST": answer})
    return serving(ThreadingHTTPServer(("127.0.0.1", 0), handler))
