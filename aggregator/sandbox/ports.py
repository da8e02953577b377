"""Finds free ports on the loopback address.

Invariant: a port that is given out was bindable a moment ago. No other process of this user gets it for as long as a
broker needs to start. The port lies below the range from which the kernel draws the ports of outgoing connections. It
therefore stays free while its cluster is down.
"""

import itertools
import json
import random
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from aggregator.code_cache import own_folder
from aggregator.sandbox.lock import exclusive

LOOPBACK = "127.0.0.1"
_RANGE = range(20_000, 32_000)
# A broker on a busy machine listens after a minute at most.
_RESERVED_S = 120.0


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as probe:
        # Set as a JVM does it: connections of a broker that has just stopped do not block its own port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int, *, taken: Collection[int] = (), draw: random.Random | None = None) -> list[int]:
    """Draw `count` free ports at random; two sandboxes that start together get different ones."""
    candidates = (draw or random.SystemRandom()).sample(_RANGE, len(_RANGE))
    with _reserved() as reserved:
        free = (port for port in candidates if port not in taken and str(port) not in reserved and is_free(port))
        found = list(itertools.islice(free, count))
        reserved.update(dict.fromkeys(map(str, found), time.time() + _RESERVED_S))
    return found


@contextmanager
def _reserved() -> Iterator[dict[str, float]]:
    """Ports that somebody is about to use, each with the time until which; kept for all processes of this user."""
    folder = own_folder("ports")
    if folder is None:
        yield {}
        return
    with exclusive(folder / "lock"):
        file = folder / "reserved.json"
        try:
            known = {port: until for port, until in json.loads(file.read_text()).items() if until > time.time()}
        except (OSError, ValueError, AttributeError, TypeError):
            known = {}
        yield known
        file.write_text(json.dumps(known))


def answers(port: int, timeout_s: float = 0.2) -> bool:
    """Whether somebody accepts connections on this port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
