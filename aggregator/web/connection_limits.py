"""Limits the connections of an HTTP server: a deadline for the head of every request, bounds per address and in total.

Invariants: a connection without a request costs one descriptor for some seconds, and never keeps other clients out.
When too many connections wait, the one that has waited longest is closed. If one address has too many, its oldest
connection is closed. The number of requests that are answered at once is bounded too. Beyond it, a client gets a
response that says so. uvicorn has a deadline between two requests but none for a head, and its own bound counts silent
connections like others.
"""

import asyncio
from collections import Counter
from typing import NamedTuple

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class ConnectionLimits(NamedTuple):
    """The bounds for one client, and for all clients of a server together.

    Attributes:
        head_s: Longest time from a connection, or from the answer before, to the end of a request's head.
        waiting: Connections without a complete head.
        waiting_each: The same, of one address.
        answers: Requests that are being answered, streams among them.
        answers_each: The same, of one address.
    """

    head_s: float = 5.0
    waiting: int = 128
    waiting_each: int = 64
    answers: int = 256
    answers_each: int = 128


class WaitingConnections:
    """The connections that wait for the head of a request, the oldest first.

    Args:
        limits: How many, and how long.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._waiting: dict[BoundedProtocol, str] = {}

    def enter(self, one: "BoundedProtocol", address: str) -> None:
        """A connection begins to wait; another one may have to go for it."""
        mine = [other for other, its in self._waiting.items() if its == address]
        if len(mine) >= self.limits.waiting_each:
            mine[0].leave()
        elif len(self._waiting) >= self.limits.waiting:
            next(iter(self._waiting)).leave()
        self._waiting[one] = address

    def forget(self, one: "BoundedProtocol") -> None:
        """Remove a connection that does not wait any more."""
        self._waiting.pop(one, None)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with a bound for connections that wait; `protocol_of` makes the class of one server."""

    waiting: WaitingConnections
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take some bytes; a head is complete when an answer begins."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the head of the next request."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait of a connection that is lost."""
        self._rest()
        super().connection_lost(exc)

    def leave(self) -> None:
        """End the connection, whatever it still wants."""
        self._rest()
        self.transport.abort()

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()
        elif self._deadline is None and not self.transport.is_closing():
            self.waiting.enter(self, self.client[0] if self.client else "")
            self._deadline = self.loop.call_later(self.waiting.limits.head_s, self.leave)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.waiting.forget(self)


def protocol_of(waiting: WaitingConnections) -> type[BoundedProtocol]:
    """The protocol of a server whose connections wait here."""
    return type("BoundedHere", (BoundedProtocol,), {"waiting": waiting})


class Bounded:
    """Bounds the number of requests that are answered at once; a further request gets status 503.

    Args:
        app: Answers.
        limits: How many.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app, self._limits = app, limits
        self._by_address: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it while too many are being answered."""
        address = (scope.get("client") or ("", 0))[0]
        is_full = self._by_address.total() >= self._limits.answers
        if is_full or self._by_address[address] >= self._limits.answers_each:
            refused = PlainTextResponse(
                "Too many requests at once; try again in a second.\n", 503, {"Retry-After": "1"}
            )
            await refused(scope, receive, send)
            return
        self._by_address[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._by_address[address] -= 1
            self._by_address += Counter()  # removes addresses without open requests
