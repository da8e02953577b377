"""The collector that a hub tells: its address, its resource, and what is said in the log when it takes nothing.

Invariant: nothing waits for a collector. What it does not take is lost. The log says so once an hour, and nothing of
what was sent.
"""

import logging
import os
import time
from dataclasses import dataclass, field
from importlib.metadata import version

from opentelemetry.sdk.resources import Resource

from aggregator.config.model import OtlpConfig
from aggregator.repeated_warnings import RepeatedWarnings

log = logging.getLogger(__name__)
# The library logs each attempt that fails, which would be a line every few seconds.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
TIMEOUT_S = 5.0


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

    def endpoint(self, signal: str) -> str:
        """The address of a signal, `metrics` or `traces`."""
        return f"{self.settings.url.rstrip('/')}/v1/{signal}"

    def headers(self) -> dict[str, str]:
        """What lets the hub in.

        Raises:
            ConfigError: a secret is not there.
        """
        return {name: secret.resolve(os.environ) for name, secret in self.settings.headers.items()}

    def told(self, signal: str, *, taken: bool) -> None:
        """Say that a collector takes nothing, once and then each hour."""
        trouble = {} if taken else {signal: f"{self.settings.url} takes no {signal}"}
        for sentence in self._said.due(trouble, time.monotonic()).values():
            log.warning("OpenTelemetry: %s", sentence)
