"""A crowd: many connections to one server, made as fast as its queue of new ones is emptied."""

import socket
import time
from contextlib import ExitStack

# Fewer than any of our servers lets wait (`web.server._BACKLOG`): of more, the kernel has each next one wait a second.
_AT_ONCE = 32
_PAUSE_S = 0.01


def crowd(stack: ExitStack, address: tuple[str, int], count: int) -> list[socket.socket]:
    """Connections that the stack closes.

    Args:
        stack: Of the test.
        address: Of the server.
        count: How many.
    """
    made = []
    for number in range(1, count + 1):
        made.append(stack.enter_context(socket.create_connection(address, timeout=10)))
        if number % _AT_ONCE == 0:
            time.sleep(_PAUSE_S)
    return made
