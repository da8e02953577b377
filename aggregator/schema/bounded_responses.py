"""Reads the responses of an HTTP server within a budget of bytes and of time.

Invariant: no more than the budget of a response is held in memory, even if a small compressed response would expand.
Responses are requested uncompressed, and a response that is compressed anyway is not read. A server that sends single
bytes of a body now and then is cut off. `Exchange` finds a server that does so with a response's head. Every fault is
raised as `httpx2.RequestError`, like the client's own faults of a connection.
"""

import time
from collections.abc import Iterator

import httpx2

from aggregator.budgets import ANSWER_BYTES, ANSWER_SECONDS

_PLAIN = ("", "identity")


class _Bounded(httpx2.SyncByteStream):
    """A stream that ends with an error once it is over its budget."""

    def __init__(self, stream: httpx2.SyncByteStream, began_s: float) -> None:
        self._stream = stream
        self._began_s = began_s

    def __iter__(self) -> Iterator[bytes]:
        read = 0
        for chunk in self._stream:
            read += len(chunk)
            if read > ANSWER_BYTES.limit:
                raise httpx2.ReadError(f"an answer of more than {ANSWER_BYTES.limit:,} bytes")
            if time.monotonic() - self._began_s > ANSWER_SECONDS.limit:
                raise httpx2.ReadTimeout(f"an answer that takes more than {ANSWER_SECONDS.limit} seconds")
            yield chunk

    def close(self) -> None:
        """Close the stream, which gives the connection back."""
        self._stream.close()


class Exchange:
    """When a client last sent a request or got the head of an answer: between the two nothing else bounds the time."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def note(self, _: httpx2.Request | httpx2.Response) -> None:
        """A request goes out, or a head has come."""
        self._last_s = time.monotonic()

    @property
    def hangs(self) -> bool:
        """Whether neither has been for longer than an answer may take, if a question is under way."""
        return time.monotonic() - self._last_s > 2 * ANSWER_SECONDS.limit


def limit_responses(client: httpx2.Client, exchange: Exchange) -> None:
    """Hold every answer of a client to the budget.

    Args:
        client: Its requests and answers are noted.
        exchange: Where; clients that wait for each other share one.
    """
    client.headers["Accept-Encoding"] = "identity"
    client.event_hooks = {"request": [exchange.note], "response": [exchange.note, _check]}


def _check(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "").strip().lower() not in _PLAIN:
        raise httpx2.DecodingError("an answer that is compressed, which was not asked for")
    if response.status_code == httpx2.codes.PARTIAL_CONTENT:
        raise httpx2.DecodingError("a part of an answer, which was not asked for")
    if not isinstance(response.stream, httpx2.SyncByteStream):
        raise TypeError("an answer that cannot be counted")
    response.stream = _Bounded(response.stream, time.monotonic())
