"""This module sends the state of a service of the type `notify` to systemd: sd_notify(3).

Invariant: without a socket nothing is sent. A receiver that does not listen never makes the hub wait.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress


def notify(environ: Mapping[str, str], *assignments: str) -> None:
    """Send assignments, as `READY=1`, to the socket that systemd names."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        line.sendto("\n".join(assignments).encode(), address)
