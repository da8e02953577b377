"""Sets up the HTTP client of a registry from a configuration: certificates, credentials and time-outs.

Invariant: secrets are resolved here and are in no error. Every response has a budget, also a token server's. Settings
that cannot be read, or do not fit together, are refused.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import SchemaRegistryClient

from aggregator.config.secrets import SecretRef
from aggregator.config.transport import CREDENTIALS, properties
from aggregator.errors import ConfigError
from aggregator.schema.bounded_responses import Exchange, limit_responses
from aggregator.schema.tokens import ClientCredentials, bearer

# The time-out of one HTTP operation; the client tries twice.
_TIMEOUT_S = 5.0
RETRIES = {"max.retries": 1, "retries.wait.ms": 100, "retries.max.wait.ms": 200}
# Settings that are passed to the client. It gets tokens from `tokens.py`, because its own token client supports neither
# a private certificate authority nor a bound on a response.
_CLIENTS_OWN = ("basic.auth.user.info", "ssl.")


class RegistryConnection:
    """A client, and what it waits for.

    Args:
        client: The client of the registry.
        exchange: When something last went to and fro.
        close: Ends every question that is under way.
    """

    def __init__(self, client: SchemaRegistryClient, exchange: Exchange, close: Callable[[], None]) -> None:
        self.client, self.exchange, self.close = client, exchange, close
        self._requests, self._is_left = 0, False
        self._lock = threading.Lock()

    @contextmanager
    def request(self) -> Iterator[Any]:
        """Lend the client that sends one request."""
        with self._lock:
            self._requests += 1
        try:
            yield self.client._rest_client  # noqa: SLF001 - see `entries`
        finally:
            with self._lock:
                self._requests -= 1
                is_last = self._is_left and not self._requests
            if is_last:
                self.close()

    def leave(self) -> None:
        """No question begins on it any more: close it behind the last one."""
        with self._lock:
            self._is_left = True
            is_last = not self._requests
        if is_last:
            self.close()


def connect(address: str, where: str, options: Mapping[str, str | SecretRef]) -> RegistryConnection:
    """Set up a client; nothing is asked yet.

    Args:
        address: Or several, with commas.
        where: The address as errors name it.
        options: Options as configured.

    Raises:
        ConfigError: a secret, a certificate or a setting cannot be used.
    """
    given = properties(options)
    resolved = {name: value.resolve() if isinstance(value, SecretRef) else value for name, value in given.items()}
    try:
        return _connected(address, where, resolved)
    except Exception as error:  # noqa: BLE001 - files, certificates, the form of credentials: the text may quote them
        raise ConfigError(
            f"registry {where}: its client cannot be set up ({type(error).__name__})",
            hint="check the settings under `schemas_client`: files that can be read, credentials as user:password",
        ) from None


def _connected(address: str, where: str, resolved: Mapping[str, str]) -> RegistryConnection:
    own = {name: value for name, value in resolved.items() if name.startswith(_CLIENTS_OWN)}
    client, exchange = SchemaRegistryClient({**own, **RETRIES, "url": address, "timeout": _TIMEOUT_S}), Exchange()
    session = client._rest_client.session  # noqa: SLF001 - the client has no setting for it
    limit_responses(session, exchange)
    if "bearer.auth.token" in resolved:
        token = resolved["bearer.auth.token"]
        session.auth = bearer(lambda: token, resolved)
    elif "bearer.auth.client.id" in resolved:
        tokens = ClientCredentials(where, resolved, exchange, timeout_s=_TIMEOUT_S)
        session.auth = bearer(tokens.token, resolved)
        return RegistryConnection(client, exchange, lambda: (client.close(), tokens.client.close())[0])
    return RegistryConnection(client, exchange, client.close)


def shown(address: str) -> str:
    """Addresses without credentials; the configuration refuses them, code may hold them."""
    parts = [urlsplit(part.strip()) for part in address.split(",")]
    return ",".join(
        part._replace(netloc=part.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
        for part in parts
    )


def signs_in_by(options: Mapping[str, str | SecretRef]) -> str:
    """The setting that a registry knows the hub by, as a hint names it."""
    name = next((name for name in CREDENTIALS if name in options), None)
    return f"`{name}` under `schemas_client`" if name else "that `schemas_client` has credentials, if it asks for some"
