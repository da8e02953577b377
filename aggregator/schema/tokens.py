"""Bearer tokens for a registry: a fixed token, or OAuth's client credentials, which are renewed before they end.

Invariants: a token and the client's secret are in no error. A refusal of the token server is reported by its code
alone, and only by a code of the standard. Responses have the same budgets as a registry's.
Source: https://datatracker.ietf.org/doc/html/rfc6749#section-4.4
"""

import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client

from aggregator.errors import Unreachable
from aggregator.schema.bounded_responses import Exchange, limit_responses

# The used share of a token's lifetime; the rest is a reserve for a token server that is slow or away for a while.
_USED = 0.8
# The lifetime of a token whose server states none, and the bounds of what is believed. They keep the client from asking
# the token server with every question to the registry, and from using one token for ever.
_USUAL_S, _LEAST_S, _LONGEST_S = 3600.0, 1.0, 86_400.0
# The most digits of a lifetime that the server sends as text.
_DIGITS = 20
# The error codes of RFC 6749, section 5.2.
_CODES = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)
# Headers that Confluent's cloud requires beside a token, by the client's own names.
_BESIDE = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}
Resolved = Mapping[str, str]


class TokenRefused(Unreachable):
    """The token server answers, and gives no token."""


class Bearer(httpx2.Auth):
    """Puts a token on every request.

    Args:
        token: Gives one that is valid now.
        beside: Further headers.
    """

    def __init__(self, token: Callable[[], str], beside: Mapping[str, str]) -> None:
        self._token, self._beside = token, beside

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Put the headers on the request, and attempt it only once."""
        request.headers["Authorization"] = f"Bearer {self._token()}"
        request.headers.update(self._beside)
        yield request


class ClientCredentials:
    """Tokens of a token server; the one at hand is used until four fifths of its lifetime are over.

    Args:
        where: The registry, as errors name it.
        options: The registry's settings, resolved.
        exchange: Notes what goes to and fro.
        timeout_s: Of one HTTP operation.
        now_s: Seconds on a clock that only goes forward.
    """

    def __init__(
        self,
        where: str,
        options: Resolved,
        exchange: Exchange,
        *,
        timeout_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = options["bearer.auth.issuer.endpoint.url"]
        self._where, self._now_s = where, now_s
        authority = options.get("https.ca.location")
        trusted = ssl.create_default_context(cafile=authority) if authority else httpx2.create_ssl_context()
        self.client = OAuth2Client(
            client_id=options["bearer.auth.client.id"],
            client_secret=options["bearer.auth.client.secret"],
            scope=options.get("bearer.auth.scope"),
            verify=trusted,
            timeout=timeout_s,
        )
        limit_responses(self.client, exchange)
        self._token, self._until_s = "", 0.0
        self._lock = threading.Lock()

    def token(self) -> str:
        """A token that is valid now, fetching a new one if needed.

        Raises:
            TokenRefused: the token server gives none.
            Unreachable: it does not answer as one.
        """
        with self._lock:  # questions are asked by several threads
            if not self._token or self._now_s() >= self._until_s:
                asked_s = self._now_s()
                answer = self._fetched()
                self._token = _checked(answer.get("access_token"), self._host)
                self._until_s = asked_s + _USED * _lifetime_s(answer.get("expires_in"))
            return self._token

    @property
    def _host(self) -> str:
        parts = urlsplit(self._endpoint)
        return f"the token server {parts.netloc.rpartition('@')[2]} of registry {self._where}"

    def _fetched(self) -> Mapping[str, Any]:
        try:
            return dict(self.client.fetch_token(self._endpoint, grant_type="client_credentials"))
        except AuthlibBaseError as error:
            code = error.error if error.error in _CODES else "no code of the standard"
            raise TokenRefused(
                f"{self._host} gives the hub no token ({code})",
                hint="check `bearer.auth.client.id`, `.client.secret` and `.scope` under `schemas_client`",
            ) from None
        except Exception as error:  # noqa: BLE001 - the HTTP library's and the parser's: their text may hold a secret
            raise Unreachable(
                f"{self._host} cannot be reached, or answers as none ({type(error).__name__})",
                hint="check `bearer.auth.issuer.endpoint.url`, the network and `https.ca.location`",
            ) from None


def _lifetime_s(seconds: object) -> float:
    """Seconds that a token lives, by the `expires_in` of its answer; some servers tell a number as a text."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < _DIGITS:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return _USUAL_S
    return float(min(max(seconds, _LEAST_S), _LONGEST_S))


def bearer(token: Callable[[], str], options: Resolved) -> Bearer:
    """The authentication of a client, with the token and further headers."""
    return Bearer(token, {header: options[name] for name, header in _BESIDE.items() if name in options})


def _checked(token: object, host: str) -> str:
    if isinstance(token, str) and token and token.isascii() and token.isprintable():
        return token
    raise Unreachable(f"{host} answers without a token", hint="is `bearer.auth.issuer.endpoint.url` the right address?")
