"""This module finds out whether a cluster's addresses accept connections, because librdkafka retries without saying so.

Invariant: bounded in time. Nothing is sent. An unclear answer does not count as a refusal.
"""

import errno
import os
import socket
from functools import partial

from aggregator.kafka.client.address import Address
from aggregator.threads import run_in_thread


def why_not_listening(bootstrap_servers: str, *, timeout_s: float) -> str:
    """Why none of the addresses takes a connection now; empty where one does, or does not say.

    Args:
        bootstrap_servers: As librdkafka takes them.
        timeout_s: For each address, at most.
    """
    why = ""
    for text in bootstrap_servers.split(","):
        try:
            why = run_in_thread(partial(_attempt, Address.parse(text), timeout_s), "connection").result(timeout_s)
        except (OSError, ValueError):  # a time-out is an OSError
            return ""
        if not why:
            return ""
    return why


def _attempt(address: Address, timeout_s: float) -> str:
    try:
        socket.create_connection(address, timeout=timeout_s).close()
    except ConnectionRefusedError:
        return os.strerror(errno.ECONNREFUSED)
    except socket.gaierror as unknown:
        if unknown.errno == socket.EAI_NONAME:
            return f"the name {address.host} is unknown"
        raise
    return ""
