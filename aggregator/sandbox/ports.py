"""Ports on loopback.

Invariant: a port that is handed out was bindable a moment ago and lies below the range from which the kernel draws
the ports of outgoing connections, so that it stays free while its cluster is down.
"""

import random
import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as probe:
        # As a JVM binds: connections of a broker that just stopped do not block its own port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int, *, taken: Collection[int] = (), draw: random.Random | None = None) -> list[int]:
    """Draw `count` free ports at random, so that two sandboxes that start together do not meet."""
    candidates = (draw or random.SystemRandom()).sample(_RANGE, len(_RANGE))
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            break
        if port not in taken and is_free(port):
            found.append(port)
    return found


def answers(port: int, timeout_s: float = 0.2) -> bool:
    """Whether somebody accepts connections on this port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
