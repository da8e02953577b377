"""Runs an HTTP server of the hub: uvicorn on one address of this machine, with bounded connections.

Invariant: the server listens before anything else begins, so that an address that is not available is reported at once.
The served application may end and begin again later on the same socket.
"""

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from aggregator.errors import ConfigError
from aggregator.web.connection_limits import Bounded, ConnectionLimits, WaitingConnections, protocol_of

# The server accepts up to this number of connections in one turn, before it reads from any of them.
_BACKLOG = 64
_HEAD_BYTES = 16_384


def listening(listen: str, what: str, hint: str) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Args:
        listen: `host:port`.
        what: Is to be served there.
        hint: Where another address is chosen.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(f"{what} cannot be served on {listen}: {error.strerror}", hint=hint) from None


class WebServer:
    """Serves one application, in the thread that runs it.

    Args:
        app: What answers.
        limits: How much anybody may have.
        on_tick: Called once a second, in the server's own loop.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, on_tick: Callable[[], None]) -> None:
        async def notify() -> None:
            on_tick()

        self._server = uvicorn.Server(
            uvicorn.Config(
                Bounded(app, limits),
                http=protocol_of(WaitingConnections(limits)),
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # malformed requests are not logged
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                h11_max_incomplete_event_size=_HEAD_BYTES,
                timeout_graceful_shutdown=1,
                callback_notify=notify,
                timeout_notify=1,
            )
        )

    def run(self, listens: socket.socket) -> None:
        """Serve until `close` is called; the socket stays open."""
        self._server.run(sockets=[listens.dup()])  # a server closes what it was given

    def close(self) -> None:
        """Stop the server."""
        self._server.should_exit = True
