"""Connections to a server of this process, as a socket sees them."""

import contextlib
import socket

import psutil

_ENOUGH = 5


def asked(one: socket.socket, request: bytes) -> bytes:
    """The head of an answer and five bytes of its body; less where the connection was ended."""
    said = b""
    with contextlib.suppress(OSError):
        one.sendall(request)
        while len(said.partition(b"\r\n\r\n")[2]) < _ENOUGH and (piece := one.recv(4096)):
            said += piece
    return said


def is_over(one: socket.socket, within_s=5.0) -> bool:
    """Whether the other end has gone."""
    one.settimeout(within_s)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def held(port: int) -> int:
    """Connections that the server holds open."""
    found = psutil.Process().net_connections("tcp")
    return sum(one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED for one in found)
