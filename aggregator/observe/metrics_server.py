"""Serves metrics over HTTP from a thread of the hub. A request must name one of the server's hosts, and bring the token
if one is set.

Invariant: a scraper uses one descriptor of the hub for some seconds, and no thread. Few scrapers are served at once. If
the address cannot be listened on, it is refused before the hub begins.
"""

import socket
import threading
import time

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from aggregator.config.model import MetricsConfig
from aggregator.errors import FatalError
from aggregator.observe.exposition import Exposition, Watcher
from aggregator.threads import Pulse, Threads
from aggregator.web.access import allowed_hosts, own_addresses, token_auth
from aggregator.web.connection_limits import ConnectionLimits
from aggregator.web.server import WebServer, listening

_PATH = "/metrics"
_BOUND_S = 30.0
_LIMITS = ConnectionLimits(waiting=32, waiting_each=16, answers=16, answers_each=8)


class MetricsServer:
    """Serves metrics on an address of this machine.

    Args:
        served: Where, and who is let in; port 0 takes a free one.
        threads: Of this process.

    Raises:
        ConfigError: the address cannot be listened on, or its token is missing.
    """

    def __init__(self, served: MetricsConfig, threads: Threads) -> None:
        self._exposition = Exposition(threads, by_partition=served.partitions)
        self._auth = token_auth(served, "metrics")
        hint = "choose another one in `metrics: {listen: …}` or with --metrics"
        self._socket = listening(str(served.listen), "metrics", hint)
        hosts = allowed_hosts(served, name=socket.gethostname(), addresses=own_addresses())
        self._app = Starlette(
            routes=[Route(_PATH, self._scrape)],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        )
        self._closing = threading.Event()
        self._web: WebServer | None = None
        self._thread = threads.start("metrics", self._serve, stop=self._closing, bound_s=_BOUND_S)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._socket.getsockname()[1])

    def serve(self, watcher: Watcher) -> None:
        """Serve the metrics of this watcher."""
        self._exposition.watcher = watcher

    def close(self) -> None:
        """Stop listening and close the socket."""
        self._closing.set()
        if self._web is not None:
            self._web.close()
        self._thread.join()
        self._socket.close()

    def _serve(self, pulse: Pulse) -> None:
        self._web = WebServer(self._app, _LIMITS, pulse)
        if not self._closing.is_set():
            self._web.run(self._socket)
        if not self._closing.is_set():
            raise FatalError("the server of metrics ended by itself", hint="it is served again")

    async def _scrape(self, request: Request) -> Response:
        if not self._auth.admits(request.headers, int(time.time())):
            text = "Metrics ask for their token: Authorization: Bearer …\n"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        return Response(self._exposition.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
