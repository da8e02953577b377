"""A group at a broker that is none of consumers, as Connect's workers and Schema Registry's have one."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_JOIN_GROUP, _VERSION, _SESSION_MS = 11, 3, 60_000


@contextmanager
def other_group(bootstrap: str, group: str, kind: str) -> Iterator[None]:
    """A member of a group of another kind, for as long as the block lasts; its cluster has one broker."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=15) as line:
        body = _text(group) + struct.pack(">ii", _SESSION_MS, _SESSION_MS) + _text("") + _text(kind)
        request = struct.pack(">hhi", _JOIN_GROUP, _VERSION, 7) + _text("worker") + body
        request += struct.pack(">i", 1) + _text("v") + struct.pack(">i", 0)
        line.sendall(struct.pack(">i", len(request)) + request)
        answer = line.recv(18, socket.MSG_WAITALL)  # size, correlation id, throttle time, error, generation
        assert struct.unpack_from(">h", answer, 12) == (0,), "JoinGroup"
        yield


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()
