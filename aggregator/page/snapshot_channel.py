"""The messages between the hub and the page's process, over one pair of sockets.

    the page  ─ number of the snapshot that it has ─▶  the hub        eight bytes, several times a second
    the page  ◀─ a newer one, or nothing ───────────  the hub        its length, and the snapshot

Invariant: the hub accepts only numbers from the page's process. An attacker who takes over that process therefore
cannot reach the hub this way. Each wait is bounded: a page that hangs never stops the hub.
"""

import pickle
import socket
import struct

from aggregator.errors import FatalError

_NUMBER, _LENGTH = struct.Struct("<q"), struct.Struct("<I")
_HINT = "it is begun again; the hub goes on without it"


class PageLink:
    """One end of the connection between a hub and its page.

    Args:
        end: A connected socket, which this closes.
        timeout_s: Longest time for a message that has begun, either way.
    """

    def __init__(self, end: socket.socket, *, timeout_s: float) -> None:
        self._end, self._timeout_s = end, timeout_s

    def close(self) -> None:
        """Close this end; the other end reads that as the end of the page."""
        self._end.close()

    def ask(self, number: int) -> None:
        """Tell the hub, from the page's process, which snapshot the page has."""
        self._send(_NUMBER.pack(number))

    def asked(self, timeout_s: float) -> int | None:
        """In the hub which snapshot the page has; None where the page said nothing in this time.

        Raises:
            FatalError: the page's process has ended.
        """
        self._end.settimeout(timeout_s)
        try:
            found = self._end.recv(_NUMBER.size, socket.MSG_WAITALL)
        except TimeoutError:
            return None
        except OSError:
            found = b""
        if len(found) < _NUMBER.size:
            raise FatalError("the page's process has ended", hint=_HINT)
        return int(_NUMBER.unpack(found)[0])

    def send(self, content: object) -> None:
        """Send the page a newer snapshot from the hub; None says that there is none."""
        body = b"" if content is None else pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        self._send(_LENGTH.pack(len(body)) + body)

    def receive(self) -> object:
        """Receive in the page's process what the hub has sent.

        Raises:
            EOFError: the hub has ended.
        """
        (length,) = _LENGTH.unpack(self._whole(_LENGTH.size))
        return pickle.loads(self._whole(length)) if length else None  # noqa: S301 - of the hub, which started this process

    def _whole(self, length: int) -> bytes:
        body = bytearray()
        self._end.settimeout(None)
        while len(body) < length:
            piece = self._end.recv(length - len(body))
            if not piece:
                raise EOFError
            body += piece
        return bytes(body)

    def _send(self, message: bytes) -> None:
        self._end.settimeout(self._timeout_s)
        try:
            self._end.sendall(message)
        except OSError:
            raise FatalError("the page's process does not listen", hint=_HINT) from None
