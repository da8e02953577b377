"""This probe tests one address step by step: name, route, port, TLS, Kafka's greeting, and mechanisms to sign in.

Invariant: bounded in time and in bytes. The probe does not sign in and changes nothing. Both of its requests
(ApiVersions, SaslHandshake) are answered before a client has signed in. librdkafka reports a failure at any of these
steps with one code; this probe distinguishes the steps.

Source: https://kafka.apache.org/protocol
"""

import errno
import os
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from aggregator.config.secrets import SecretRef
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.listener import Certificate, Listener, Obstacle
from aggregator.kafka.probes.tls import blind_context, certificates, has_certificate
from aggregator.threads import run_in_thread

_METADATA, _SASL_HANDSHAKE, _API_VERSIONS = 3, 17, 18
_ILLEGAL_SASL_STATE = 34
_CLIENT = b"aggregator-doctor"
_LENGTH = struct.Struct(">i")
# Kafka 4 lists some ninety requests with six bytes each, which is far below this bound.
_MAX_BYTES = 64 * 1024
_DER = 2
# A name may have many addresses, and each of them may be silent.
_MAX_PLACES = 4
# OpenSSL's error numbers for certificates (x509_vfy.h).
_BY_NUMBER = {9: Obstacle.NOT_YET_VALID, 10: Obstacle.EXPIRED, 62: Obstacle.OTHER_HOST, 64: Obstacle.OTHER_HOST}
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EACCES, errno.EPERM)


class _Stopped(Exception):
    """The connection comes no further."""

    def __init__(self, obstacle: Obstacle, detail: str = "") -> None:
        super().__init__(detail)
        self.obstacle = obstacle
        self.detail = detail


class _Refusal(NamedTuple):
    obstacle: Obstacle
    detail: str


def probe(
    address: Address,
    client: Mapping[str, str | SecretRef],
    encryption: ssl.SSLContext | None,
    *,
    timeout_s: float,
) -> Listener:
    """Connect to an address step by step, and return how far the connection comes.

    Args:
        address: The address to connect to.
        client: The cluster's `client:` block.
        encryption: What a handshake needs; None: the block asks for no TLS.
        timeout_s: Longest time for each step, in seconds.
    """
    found, socket_addresses = Listener(address), list[Any]()
    try:
        socket_addresses = _resolved(address, timeout_s)
        with _connected(socket_addresses, timeout_s) as plain:
            if encryption is None:
                return _greeted(plain, found)
            with encryption.wrap_socket(plain, server_hostname=address.host) as line:
                found = replace(found, chain=_chain(line))
                return _greeted(line, found)
    except ssl.SSLCertVerificationError as error:
        obstacle = _BY_NUMBER.get(error.verify_code, Obstacle.UNTRUSTED)
        return replace(
            found, obstacle=obstacle, detail=error.verify_message, chain=_shown(socket_addresses, address, timeout_s)
        )
    except TimeoutError:
        return replace(found, obstacle=Obstacle.SILENT)
    except OSError as error:
        stopped = _by_peer(error, shows_certificate=has_certificate(client))
    except _Stopped as error:
        stopped = error
    if encryption is not None and found.chain and stopped.obstacle in (Obstacle.NOT_KAFKA, Obstacle.TLS_FAILED):
        alert = _last_word(socket_addresses, encryption, address, timeout_s)
        stopped = stopped if alert is None else _by_peer(alert, shows_certificate=has_certificate(client))
    obstacle, detail = stopped.obstacle, stopped.detail
    if encryption is not None and obstacle is Obstacle.TLS_FAILED and _speaks_plain(socket_addresses, timeout_s):
        obstacle, detail = Obstacle.SPEAKS_PLAIN, ""
    if encryption is None and obstacle is Obstacle.NOT_KAFKA and _speaks_tls(socket_addresses, timeout_s):
        obstacle, detail = Obstacle.SPEAKS_TLS, ""
    return replace(found, obstacle=obstacle, detail=detail)


def _greeted(line: socket.socket, found: Listener) -> Listener:
    versions = _api_versions(line)
    if _METADATA not in versions:
        raise _Stopped(Obstacle.CONTROLLER)
    return replace(found, versions=versions, mechanisms=_mechanisms(line))


def _resolved(address: Address, timeout_s: float) -> list[Any]:
    """What the name stands for; the system's own look-up knows no time limit, so it runs behind our back."""
    future = run_in_thread(
        lambda: socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM), "name look-up"
    )
    try:
        return future.result(timeout_s)
    except TimeoutError:
        raise _Stopped(Obstacle.NAME_SILENT) from None
    except UnicodeError:
        raise _Stopped(Obstacle.UNKNOWN_NAME, "no host can have this name") from None
    except socket.gaierror as error:
        obstacle = Obstacle.NAME_SILENT if error.errno == socket.EAI_AGAIN else Obstacle.UNKNOWN_NAME
        raise _Stopped(obstacle, error.strerror or "") from None
    except OSError as error:
        raise _Stopped(Obstacle.UNKNOWN_NAME, error.strerror or "") from None


def _connected(socket_addresses: list[Any], timeout_s: float) -> socket.socket:
    """A connection to the first of the places that takes one; why none does otherwise."""
    refusals: list[_Refusal] = []
    for family, kind, protocol, _, place in socket_addresses[:_MAX_PLACES]:
        line = socket.socket(family, kind, protocol)
        line.settimeout(timeout_s)
        try:
            line.connect(place)
        except TimeoutError:
            line.close()
            refusals.append(_Refusal(Obstacle.SILENT_ROUTE, ""))
        except OSError as error:
            line.close()
            code = error.errno or 0
            obstacle = Obstacle.NO_ROUTE if code in _NO_ROUTE else Obstacle.REFUSED
            refusals.append(_Refusal(obstacle, os.strerror(code) if code else ""))
        else:
            return line
    # A host may have addresses of a family that this machine cannot reach at all, so other refusals say more.
    order = (Obstacle.REFUSED, Obstacle.SILENT_ROUTE, Obstacle.NO_ROUTE)
    refusal = min(refusals, key=lambda one: order.index(one.obstacle), default=_Refusal(Obstacle.UNKNOWN_NAME, ""))
    raise _Stopped(refusal.obstacle, refusal.detail)


def _by_peer(error: OSError, *, shows_certificate: bool) -> _Stopped:
    """What the other side says about a handshake, or that it says nothing."""
    reason = (getattr(error, "reason", None) or "").upper()
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        obstacle = Obstacle.REFUSES_CERTIFICATE if shows_certificate else Obstacle.WANTS_CERTIFICATE
        return _Stopped(obstacle, reason.replace("_", " ").lower())
    return _Stopped(Obstacle.TLS_FAILED, reason.replace("_", " ").lower() or "the connection was closed")


def _shown(socket_addresses: list[Any], address: Address, timeout_s: float) -> tuple[Certificate, ...]:
    """The certificates of a handshake that was not believed; over a line of its own, which is closed again."""
    try:
        with _connected(socket_addresses, timeout_s) as plain:
            encryption = blind_context()
            with encryption.wrap_socket(plain, server_hostname=address.host) as line:
                return _chain(line)
    except (_Stopped, OSError):
        return ()


def _chain(line: ssl.SSLSocket) -> tuple[Certificate, ...]:
    # Public as `SSLSocket.get_unverified_chain` from Python 3.13 on.
    shown = line._sslobj.get_unverified_chain() or ()  # type: ignore[attr-defined]  # noqa: SLF001 - as said
    return certificates(one.public_bytes(_DER) for one in shown)


def _last_word(
    socket_addresses: list[Any], encryption: ssl.SSLContext, address: Address, timeout_s: float
) -> ssl.SSLError | None:
    """What the other side says right after a handshake to whoever sends nothing.

    With TLS 1.3 it looks at the client's certificate only then, and closes a line on which data arrive without a word.
    """
    try:
        with (
            _connected(socket_addresses, timeout_s) as plain,
            encryption.wrap_socket(plain, server_hostname=address.host) as line,
        ):
            line.recv(1)
    except ssl.SSLError as error:
        return error
    except (_Stopped, OSError):
        pass
    return None


def _speaks_tls(socket_addresses: list[Any], timeout_s: float) -> bool:
    try:
        with _connected(socket_addresses, timeout_s) as plain, blind_context().wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # it speaks TLS, and wants a certificate or a name
    except (_Stopped, OSError):
        return False


def _speaks_plain(socket_addresses: list[Any], timeout_s: float) -> bool:
    try:
        with _connected(socket_addresses, timeout_s) as line:
            return bool(_api_versions(line))
    except (_Stopped, OSError):
        return False


def _api_versions(line: socket.socket) -> dict[int, int]:
    """Ask for the supported API versions, and return the highest version by request."""
    body = _asked(line, _API_VERSIONS, 0, b"")
    if len(body) < 6:  # noqa: PLR2004 - an error's code and a count
        raise _Stopped(Obstacle.NOT_KAFKA, "its answer is no answer of Kafka")
    _, count = struct.unpack_from(">hi", body)
    if not 0 < count <= (len(body) - 6) // 6:
        raise _Stopped(Obstacle.NOT_KAFKA, "its answer is no answer of Kafka")
    rows = (struct.unpack_from(">hhh", body, 6 + 6 * place) for place in range(count))
    return {request: highest for request, _, highest in rows}


def _mechanisms(line: socket.socket) -> tuple[str, ...] | None:
    """How one may sign in, which a broker tells whoever names a way that it does not know; None: nobody signs in.

    Empty where it does not tell.
    """
    try:
        body = _asked(line, _SASL_HANDSHAKE, 1, struct.pack(">h", 1) + b"?")
    except (_Stopped, OSError):
        return ()
    if len(body) < 6:  # noqa: PLR2004 - an error's code and a count
        return ()
    if struct.unpack_from(">h", body)[0] == _ILLEGAL_SASL_STATE:
        return None
    (count,) = struct.unpack_from(">i", body, 2)
    found, at = [], 6
    for _ in range(count):
        if at + 2 > len(body):
            break
        (length,) = struct.unpack_from(">h", body, at)
        found.append(body[at + 2 : at + 2 + max(0, length)].decode("ascii", "replace"))
        at += 2 + max(0, length)
    return tuple(sorted(found))


def _asked(line: socket.socket, request: int, version: int, body: bytes) -> bytes:
    """Send one request, and return the body of its response."""
    head = struct.pack(">hhih", request, version, 1, len(_CLIENT)) + _CLIENT
    try:
        line.sendall(_LENGTH.pack(len(head) + len(body)) + head + body)
        (length,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
        if not _LENGTH.size <= length <= _MAX_BYTES:
            raise _Stopped(Obstacle.NOT_KAFKA, "its answer is no answer of Kafka")
        return _exactly(line, length)[_LENGTH.size :]
    except TimeoutError:
        raise _Stopped(Obstacle.SILENT) from None
    except ssl.SSLError:
        raise
    except OSError as error:
        raise _Stopped(Obstacle.NOT_KAFKA, error.strerror or "the connection was closed") from None


def _exactly(line: socket.socket, length: int) -> bytes:
    """Receive exactly so many bytes, all of them within the time-out of one read."""
    deadline = time.monotonic() + (line.gettimeout() or 0.0)
    found = b""
    while len(found) < length:
        if time.monotonic() > deadline:
            raise TimeoutError
        part = line.recv(length - len(found))
        if not part:
            raise _Stopped(Obstacle.NOT_KAFKA, "the connection was closed")
        found += part
    return found
