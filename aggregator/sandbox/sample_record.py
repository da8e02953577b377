"""Shows one booking before and after: as the edge has it and as central has it, each decoded with its own registry.

Invariant: both are the same record, found by its `hub.origin`. The values are generated, never a user's.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import ORIGIN_HEADER, Origin
from aggregator.errors import DeadLetterError, FatalError
from aggregator.header_columns import Headers
from aggregator.kafka.native.chunk import Chunk
from aggregator.sandbox.readback import read_topic
from aggregator.schema.plain_json import compare_leaves, decoded, leaves
from aggregator.schema.registry import Registry
from aggregator.schema.wire import split

_CHOICE = 500


@dataclass(frozen=True, slots=True)
class SamplePlace:
    """Describes where one side of a record lies."""

    cluster: ClusterConfig
    topic: str
    registry: Registry


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One record on both sides, as plain JSON values.

    Attributes:
        origin: Its `hub.origin`.
        before: Key, headers and value at the edge.
        after: Key, headers and value at central.
    """

    origin: str
    before: dict[str, Any]
    after: dict[str, Any]

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Path, value before and value after, for every leaf of either side."""
        yield from compare_leaves(self.before, self.after)


def find_sample_record(edge: str, source: SamplePlace, target: SamplePlace) -> SampleRecord:
    """A booking with something of everything in it, and what became of it.

    Raises:
        FatalError: central does not have it.
        Unreachable: a cluster does not answer.
    """
    found = max(_readable(source), key=lambda pair: _richness(pair[1]), default=None)
    if found is None:
        raise FatalError(f"edge {edge} has no readable record in {source.topic}", hint="produce some traffic first")
    (partition, offset), before = found
    for chunk in read_topic(target.cluster, target.topic):
        for index, headers in enumerate(chunk.headers):
            origin = _origin(headers)
            if origin is not None and origin[1:5] == (edge, source.topic, partition, offset):
                return SampleRecord(origin.encode().decode(), before, _record(chunk, index, target.registry))
    raise FatalError(
        f"{target.topic} at central has no copy of {edge}/{source.topic}/{partition}/{offset}",
        hint="run the hub until it is drained",
    )


def _readable(source: SamplePlace) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Partition and offset to the record, of the first chunk that the edge hands out: plenty to choose from."""
    with closing(read_topic(source.cluster, source.topic)) as chunks:
        chunk = next(chunks, None)
    if chunk is None:
        return
    for index in range(min(len(chunk), _CHOICE)):
        try:
            record = _record(chunk, index, source.registry)
        except (DeadLetterError, ValueError, IndexError, EOFError, MemoryError):
            continue  # poison
        if record["value"] is not None:
            yield (chunk.partition, chunk.offsets[index]), record


def _origin(headers: Headers | None) -> Origin | None:
    value = dict(headers or []).get(ORIGIN_HEADER)
    return None if value is None else Origin.decode(value)


def _richness(record: dict[str, Any]) -> int:
    return sum(value is not None for _, value in leaves(record))


def _record(chunk: Chunk, index: int, registry: Registry) -> dict[str, Any]:
    key, value = chunk.keys[index], chunk.values[index]
    headers = {name: str(text or b"", "utf-8", "replace") for name, text in chunk.headers[index] or []}
    return {
        "key": None if key is None else str(key, "utf-8", "replace"),
        "headers": headers,
        "value": None if value is None else _decoded(value, registry),
    }


def _decoded(value: bytes, registry: Registry) -> Any:
    schema_id, body = split(value)
    return decoded(registry.schema(schema_id), body)
