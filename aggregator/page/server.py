"""Starts the page for the hub: a socket that listens, and a separate process that answers on it.

Invariants: if that process fails, the hub goes on and starts it again. The process has none of the hub's descriptors
and none of its keys. If the address cannot be listened on, or a token is missing, this is refused before the process
starts.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.config.secrets import HANDED_ON
from aggregator.engine.environment import variables
from aggregator.errors import FatalError
from aggregator.observe.exposition import Watcher
from aggregator.page.process import Setup
from aggregator.page.snapshot_channel import PageLink
from aggregator.privacy.policy.file import Policy
from aggregator.threads import Pulse, Threads
from aggregator.web.access import token_auth
from aggregator.web.server import listening

_ENDS_S = 5.0
_BOUND_S = 30.0
_LOOK_S = 0.5
_TIMEOUT_S = 10.0
# The process asks several times a second. Its first message takes as long as Python's imports on a busy machine.
_SILENT_S, _FIRST_S = 15.0, 60.0


class PageServer:
    """Serves the page on an address of this machine; port 0 takes a free one.

    Args:
        config: The hub.
        policies: Of its rules, by path.
        threads: Of this process.

    Raises:
        ConfigError: the address cannot be listened on, or its token is missing.
    """

    def __init__(self, config: HubConfig, policies: Mapping[Path, Policy], threads: Threads) -> None:
        token_auth(config.ui, "the page")
        self._setup = Setup(config, policies)
        hint = "choose another one in `ui: {listen: …}` or with --listen"
        self._socket = listening(config.ui.listen, "the page", hint)
        self._watcher: Watcher | None = None
        self._closing = threading.Event()
        self._thread = threads.start("page", self._serve, stop=self._closing, bound_s=_BOUND_S)

    @property
    def address(self) -> str:
        """The URL of the page."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def serve(self, watcher: Watcher) -> None:
        """Show what this watcher finds."""
        self._watcher = watcher

    def close(self) -> None:
        """Stop listening and close the socket."""
        self._closing.set()
        self._thread.join(_ENDS_S)
        self._socket.close()

    def _serve(self, pulse: Pulse) -> None:
        """Begin the process, answer it, and end it with this thread."""
        ours, theirs = socket.socketpair()
        numbers = (theirs.fileno(), self._socket.fileno())
        command = [sys.executable, "-m", "aggregator.page", *map(str, numbers)]
        process = subprocess.Popen(  # noqa: S603 - ourselves
            command, pass_fds=numbers, env=self._environment(), stdin=subprocess.DEVNULL
        )
        theirs.close()
        link = PageLink(ours, timeout_s=_TIMEOUT_S)
        try:
            link.send(self._setup)
            self._answer(link, pulse)
        finally:
            link.close()
            try:
                process.wait(_ENDS_S if self._closing.is_set() else 0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _answer(self, link: PageLink, pulse: Pulse) -> None:
        until_s = time.monotonic() + _FIRST_S
        while not self._closing.is_set():
            pulse()
            number = link.asked(_LOOK_S)
            if number is not None:
                until_s = time.monotonic() + _SILENT_S
                seen = self._watcher.latest() if self._watcher else None
                link.send(seen if seen and seen.number != number else None)
            elif time.monotonic() > until_s:
                raise FatalError("the page's process hangs", hint="it is begun again; the hub goes on without it")

    def _environment(self) -> dict[str, str]:
        """This process's, without the hub's keys: a page shows nothing that needs one."""
        kept_back = variables(list(self._setup.config.keys.values())) | {HANDED_ON}
        return {name: value for name, value in os.environ.items() if name not in kept_back}
