"""The server of the page: listens before anything else begins, and answers from a thread of its own.

Invariant: what goes wrong in here never stops the hub, and the page is served again; but an address that can not be
listened on, or a token that is missing, is told before.
"""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError, Failed
from aggregator.observe.exposition import Watcher
from aggregator.page.access import allowed_hosts, gate_of, own_addresses
from aggregator.page.application import Application
from aggregator.page.explaining import Explaining
from aggregator.page.frames import Frames
from aggregator.privacy.policy.file import Policy
from aggregator.threads import Pulse, Threads

_ENDS_S = 5.0
_BOUND_S = 30.0
# Each keeps a connection open.
_READERS_MOST = 256


class PageServer:
    """Serves the page on an address of this machine; port 0 takes a free one.

    Args:
        config: The hub.
        policies: Of its rules, by path.
        threads: Of this process.

    Raises:
        ConfigError: the address can not be listened on, or its token is missing.
    """

    def __init__(self, config: HubConfig, policies: Mapping[Path, Policy], threads: Threads) -> None:
        gate = gate_of(config.ui)
        hosts = allowed_hosts(config.ui, name=socket.gethostname(), addresses=own_addresses())
        self._socket = _listening(config.ui.listen)
        self._frames = Frames()
        self._application = Application(config.hub, self._frames, Explaining(config, policies), gate, hosts)
        self._server: uvicorn.Server | None = None
        self._closing = threading.Event()
        self._thread = threads.start("page", self._serve, stop=self._closing, bound_s=_BOUND_S)

    @property
    def address(self) -> str:
        """Where to open it."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def serve(self, watcher: Watcher) -> None:
        """Show what this watcher finds."""
        self._frames.watcher = watcher

    def close(self) -> None:
        """Stop listening."""
        self._application.closing = True
        self._closing.set()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(_ENDS_S)
        self._socket.close()

    def _serve(self, pulse: Pulse) -> None:
        async def turn() -> None:
            pulse()

        serving = uvicorn.Config(
            self._application.asgi,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_READERS_MOST,
            timeout_graceful_shutdown=1,
            callback_notify=turn,
            timeout_notify=1,
        )
        self._server = uvicorn.Server(serving)
        self._server.should_exit = self._closing.is_set()
        self._server.run(sockets=[self._socket.dup()])  # a server closes what it was given
        if not self._closing.is_set():
            raise Failed("the page's server ended by itself", hint="it is served again")


def _listening(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        hint = "choose another one in `ui: {listen: …}` or with --listen"
        raise ConfigError(f"the page can not be served on {listen}: {error.strerror}", hint=hint) from None
