"""The collector that a hub tells: its address, its resource, and what is said in the log when it takes nothing.

Invariant: nothing waits for a collector. What it does not take is lost. The log says so once an hour, and nothing of
what was sent.
"""

import logging
import os
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypedDict

from opentelemetry.sdk.resources import Resource

from aggregator.bounded_session import BoundedSession
from aggregator.config.model import OtlpConfig
from aggregator.repeated_warnings import RepeatedWarnings

log = logging.getLogger(__name__)
# The library logs each attempt that fails, which would be a line every few seconds.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
_TIMEOUT_S = 5.0


class Connection(TypedDict):
    """Arguments that every exporter of the library takes."""

    endpoint: str
    headers: dict[str, str]
    timeout: float
    session: BoundedSession


@dataclass(frozen=True)
class Collector:
    """Where to, and as whom.

    Args:
        hub: The hub's name.
        settings: Where the collector is, and what lets the hub in.
    """

    hub: str
    settings: OtlpConfig
    _said: RepeatedWarnings = field(default_factory=RepeatedWarnings)

    @property
    def resource(self) -> Resource:
        """What every point and span comes from."""
        names = {"service.name": "aggregator", "service.namespace": self.hub, "service.version": version("aggregator")}
        return Resource(names)

    def connection(self, signal: str) -> Connection:
        """How the library's exporter of a signal, `metrics` or `traces`, reaches it.

        Raises:
            ConfigError: a secret is not there.
        """
        return {
            "endpoint": f"{self.settings.url.rstrip('/')}/v1/{signal}",
            "headers": {name: secret.resolve(os.environ) for name, secret in self.settings.headers.items()},
            "timeout": _TIMEOUT_S,
            "session": BoundedSession(_TIMEOUT_S),
        }

    def told(self, signal: str, *, taken: bool) -> None:
        """Say that a collector takes nothing, once and then each hour."""
        trouble = {} if taken else {signal: f"{self.settings.url} takes no {signal}"}
        for sentence in self._said.due(trouble, time.monotonic()).values():
            log.warning("OpenTelemetry: %s", sentence)
