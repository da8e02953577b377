"""Access control of the hub's HTTP servers: the accepted host names, and the token that a reader needs.

Invariants: tokens are compared in constant time. The token itself is in no cookie and in no log. A session ends with
the process, or after half a day.
"""

import hashlib
import hmac
import secrets
import socket
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie

import psutil

from aggregator.config.fields import is_loopback
from aggregator.config.model import ListeningConfig
from aggregator.errors import ConfigError

COOKIE = "aggregator-session"
SESSION_S = 12 * 3600
_LEAST = 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - what it means is decided here


class TokenAuth:
    """Authenticates readers by one token, and then by a session.

    Args:
        token: The token that a reader must know; None: every client that can connect may read.
        key: This process's key, which signs sessions.
    """

    def __init__(self, token: str | None, *, key: bytes) -> None:
        self._key = key
        self._token_digest = None if token is None else self._digest(token.encode())

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked."""
        return self._token_digest is None

    def knows(self, token: str) -> bool:
        """Whether this is the token; digests are compared, so that not even its length can be measured."""
        return self._token_digest is not None and hmac.compare_digest(self._digest(token.encode()), self._token_digest)

    def session(self, now_s: int) -> str:
        """What a reader who knows the token keeps from now on: when it ends, and that we said so."""
        end = str(now_s + SESSION_S)
        return f"{end}.{self._digest(end.encode()).hex()}"

    def admits(self, headers: Mapping[str, str], now_s: int) -> bool:
        """Whether a request may be answered: nobody is asked, or it brings the token, or a session.

        Args:
            headers: Of the request, names in small letters.
            now_s: Seconds since 1970.
        """
        kind, _, token = headers.get("authorization", "").partition(" ")
        return self.is_open or (kind.lower() == "bearer" and self.knows(token)) or self._lasts(headers, now_s)

    def _lasts(self, headers: Mapping[str, str], now_s: int) -> bool:
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        end, _, signed = kept.value.partition(".") if kept else ("", "", "")
        right = hmac.compare_digest(signed.encode(), self._digest(end.encode()).hex().encode())
        return right and end.isascii() and end.isdecimal() and now_s < int(end)

    def _digest(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, hashlib.sha256)


def token_auth(served: ListeningConfig, what: str) -> TokenAuth:
    """The gate of something that is served.

    Args:
        served: Where, and who is let in.
        what: `the page`, as errors name it.

    Raises:
        ConfigError: the token is missing, or short enough to be guessed; or none is asked of the whole network.
    """
    if served.token is None:
        if not is_loopback(str(served.listen)):
            raise ConfigError(
                f"{what} on {served.listen} can be reached by others, and asks for no token",
                hint="name one by reference, `token: env:NAME` or `token: file:…`, or listen on 127.0.0.1",
            )
        return TokenAuth(None, key=secrets.token_bytes(32))
    token = served.token.resolve()
    if len(token) < _LEAST:
        raise ConfigError(
            f"the token ({served.token}) of {what} is shorter than {_LEAST} characters",
            hint="openssl rand -base64 24",
        )
    return TokenAuth(token, key=secrets.token_bytes(32))


def allowed_hosts(served: ListeningConfig, *, name: str, addresses: Iterable[str]) -> list[str]:
    """Names by which it answers; a request for another one comes from a page that pretends to be this machine.

    Args:
        served: Where it listens, and further names.
        name: This machine's own.
        addresses: This machine's own; they count where it listens on all of them.
    """
    listens = str(served.listen).rpartition(":")[0].strip("[]")
    own = (name, *addresses) if listens in _EVERYWHERE else (listens,)
    bare = (host.partition("%")[0].strip("[]").lower() for host in (*_LOOPBACK, *own, *served.hosts))
    return sorted({f"[{host}]" if ":" in host else host for host in bare if host})


def own_addresses() -> list[str]:
    """The addresses of this machine's interfaces."""
    kinds = (socket.AF_INET, socket.AF_INET6)
    return [one.address for found in psutil.net_if_addrs().values() for one in found if one.family in kinds]
