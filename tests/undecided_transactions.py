"""A transaction that its coordinator does not know: what is left where Kafka dropped a marker.

A plain Produce request under the producer id and epoch of a transactional id, to a broker that does not verify; nobody
will ever send a marker for it but the next transaction of that id in that partition.
"""

import io
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from aggregator.kafka.readers.open_range import CentralRecord

_INIT_PRODUCER_ID, _PRODUCE = 22, 0
_TRANSACTIONAL = 0x10


@contextmanager
def without_verification(admin) -> Iterator[None]:
    """Let the cluster take a transactional record without asking the coordinator, meanwhile."""
    _verify(admin, "false")
    try:
        yield
    finally:
        _verify(admin, "true")


def _verify(admin, value: str) -> None:
    setting = "transaction.partition.verification.enable"
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(15)


def leave_undecided(
    bootstrap: str, transactional_id: str, at: tuple[str, int], records: Sequence[CentralRecord]
) -> None:
    """Append records to a partition under an id, in a transaction that nobody will decide."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=15) as line:
        answer = _ask(line, _INIT_PRODUCER_ID, 0, _text(transactional_id) + struct.pack(">i", 60_000))
        error, producer, epoch = struct.unpack(">hqh", answer[4:16])
        assert error == 0, f"InitProducerId: {error}"
        batch = _batch(records, producer, epoch)
        body = _text(transactional_id) + struct.pack(">hii", -1, 15_000, 1) + _text(at[0])
        answer = _ask(line, _PRODUCE, 7, body + struct.pack(">iii", 1, at[1], len(batch)) + batch)
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(at[0]) + 4 + 4)
        assert error == 0, f"Produce: {error}"


def _ask(line: socket.socket, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhi", key, version, 7) + _text("forger") + body
    line.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _exactly(line, 4))
    return _exactly(line, size)[4:]


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = line.recv(size - len(found))
        assert piece, "the broker hung up"
        found += piece
    return found


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def _batch(records: Sequence[CentralRecord], producer: int, epoch: int) -> bytes:
    times = [record.timestamp_ms for record in records]
    out = io.BytesIO()
    for index, record in enumerate(records):
        body = (
            b"\0" + _varint(record.timestamp_ms - times[0]) + _varint(index) + _cell(record.key) + _cell(record.value)
        )
        body += _varint(len(record.headers)) + b"".join(
            _cell(name.encode()) + _cell(cell) for name, cell in record.headers
        )
        out.write(_varint(len(body)) + body)
    head = (_TRANSACTIONAL, len(records) - 1, times[0], max(times), producer, epoch, 0, len(records))
    checked = struct.pack(">hiqqqhii", *head) + out.getvalue()
    rest = struct.pack(">ibI", -1, 2, _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def _cell(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Zigzag, as of Protocol Buffers."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
