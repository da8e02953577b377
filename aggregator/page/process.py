"""The page's own process. It answers readers from the last snapshot that the hub gave it, and ends with the hub.

Invariant: nothing in this process can delay the hub, use up its descriptors, or see its keys. The process gives a sign
of life while its server's loop runs, and is restarted otherwise.
"""

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.errors import FatalError
from aggregator.observe.snapshot import Snapshot
from aggregator.page.application import Application
from aggregator.page.explanations import ExplanationCache
from aggregator.page.frames import Frames
from aggregator.page.snapshot_channel import PageLink
from aggregator.privacy.policy.file import Policy
from aggregator.web.access import allowed_hosts, own_addresses, token_auth
from aggregator.web.connection_limits import ConnectionLimits
from aggregator.web.server import WebServer

_ASK_EVERY_S = 0.2
_TURN_BOUND_S = 10.0
_TIMEOUT_S = 10.0
_ENDS_S = 3.0


class Setup(NamedTuple):
    """Holds what the page's process needs to know.

    Attributes:
        config: The hub, with references where secrets are.
        policies: Of its rules, by path.
    """

    config: HubConfig
    policies: Mapping[Path, Policy]


class Received:
    """Keeps the last snapshot that arrived."""

    def __init__(self) -> None:
        self.seen: Snapshot | None = None

    def latest(self) -> Snapshot | None:
        """The newest snapshot, or None before the first."""
        return self.seen


class PageProcess:
    """The page of one hub, in this process.

    Args:
        setup: The hub.
        link: To it.
        listens: Where readers come.

    Raises:
        ConfigError: the token is missing.
    """

    def __init__(self, setup: Setup, link: PageLink, listens: socket.socket) -> None:
        config = setup.config
        hosts = allowed_hosts(config.ui, name=socket.gethostname(), addresses=own_addresses())
        self._received, frames = Received(), Frames()
        frames.watcher = self._received
        explanations = ExplanationCache(config, setup.policies)
        auth = token_auth(config.ui, "the page")
        self._application = Application(config.hub, frames, explanations, auth, hosts)
        self._turned_s = time.monotonic()
        self._web = WebServer(self._application.asgi, ConnectionLimits(), self._note_alive)
        self._link = link
        self._serving = threading.Thread(target=self._web.run, args=(listens,), daemon=True)

    def run(self) -> None:
        """Serve until the hub ends, or the server does."""
        self._serving.start()
        try:
            while self._serving.is_alive():
                if time.monotonic() - self._turned_s < _TURN_BOUND_S:
                    self._ask()
                time.sleep(_ASK_EVERY_S)
        except (EOFError, FatalError):
            pass  # the hub has ended
        finally:
            self._application.closing = True
            self._web.close()
            self._serving.join(_ENDS_S)

    def _ask(self) -> None:
        seen = self._received.seen
        self._link.ask(-1 if seen is None else seen.number)
        found = self._link.receive()
        if isinstance(found, Snapshot):
            self._received.seen = found

    def _note_alive(self) -> None:
        self._turned_s = time.monotonic()


def main() -> None:
    """Serve the page; the arguments are descriptors: of the link, and of the socket that listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the hub, too, and the hub ends this process
    logging.getLogger().addHandler(logging.NullHandler())
    link, listens = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    end = PageLink(link, timeout_s=_TIMEOUT_S)
    setup = end.receive()
    assert isinstance(setup, Setup)
    PageProcess(setup, end, listens).run()
