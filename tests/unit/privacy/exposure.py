"""The corpus through the strip interface, and the search for its canary in all that comes out.

What comes out is every list of the result, its reasons and counts, and the schemas that were registered.
"""

import json
import time
from dataclasses import dataclass

from aggregator.privacy.batch.strip import Batch, Stripped
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.wire import frame
from tests.canary import recognised, traces
from tests.unit.privacy.corpus import SURVIVOR, body_of, plain_shapes, schema_of, shapes
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import TODAY, MemoryRegistry

CANARY = "canary_q7Zx3"
TRACES = traces(CANARY)
SHAPES = shapes(CANARY)
PLAIN_SHAPES = plain_shapes(CANARY)
PLAIN = {"type": "record", "name": "Plain", "fields": [{"name": "kept", "type": "string"}]}


@dataclass(frozen=True)
class Framed:
    """Records in wire format, each with the name of its shape, and the registry that knows their schemas."""

    names: tuple[str, ...]
    records: tuple[bytes, ...]
    registry: MemoryRegistry


def framed(*, tagged: bool = True, shared: bool = True) -> Framed:
    """Every shape of the corpus as one record.

    Args:
        tagged: With its tags.
        shared: With a canary in the type that lies beside it and has no tag.
    """
    registry, records = MemoryRegistry(), []
    for index, shape in enumerate(SHAPES.values()):
        text = json.dumps(schema_of(shape, CANARY, name=f"R{index}"))
        text = text if tagged else text.replace("confluent:tags", "other")
        records.append(frame(registry.register("edge", text), body_of(shape, CANARY, shared=shared)))
    return Framed(tuple(SHAPES), tuple(records), registry)


TAGGED, UNTAGGED = framed(), framed(tagged=False)


@dataclass(frozen=True)
class Exposed:
    """What came out of one strip."""

    names: tuple[str, ...]
    out: Stripped
    registered: tuple[str, ...]

    def found(self) -> list[str]:
        """Where the canary is, and in which encoding: one line each."""
        out, lines = self.out, []
        for name, key, value, headers in zip(self.names, out.keys, out.values, out.headers, strict=True):
            for place, data in (("key", key or b""), ("value", value or b""), ("headers", repr(headers).encode())):
                lines += [f"{name}: {place}: {told}" for told in recognised(data, TRACES)]
        told_beside = (repr(out.rejected), repr(out.counts), repr(out.suppressed), *self.registered)
        for text in told_beside:
            lines += [f"beside the records: {told} in {text[:80]}" for told in recognised(text.encode(), TRACES)]
        return lines


def expose_plain(more: str, **options) -> Exposed:
    """Strip the values without parts, each under a topic of its format.

    Args:
        more: What else the topics' policy says.
        options: Of `topic`.
    """
    keys, values, headers, lines = [], [], [], []
    for shape in PLAIN_SHAPES.values():
        policy = f"policy: p\nversion: 1\ntopics: {{orders: {{value_format: {shape.form}, {more}}}}}\n"
        out = topic(policy, **options).strip(Batch([shape.value], [shape.value], [[("secret", shape.value)]]))
        keys, values, headers = [*keys, out.keys[0]], [*values, out.values[0]], [*headers, out.headers[0]]
        lines += [repr(out.rejected), repr(out.counts)]
    left = Stripped(keys, values, headers)
    return Exposed(tuple(PLAIN_SHAPES), left, tuple(lines))


def topic(policy, registry=TAGGED.registry, central=None, *, made=topic_strip, today=TODAY, now_s=time.monotonic):
    """The strip of the topic `orders`."""
    return made(
        policy=parse_policy(policy),
        edge_topic="orders",
        central_topic="eu.orders",
        edge_registry=registry,
        central_registry=central or MemoryRegistry(),
        key_rings=KEYS,
        now_s=now_s,
        today=today if callable(today) else lambda: today,
    )


def expose(policy: str, place: str = "value", source: Framed = TAGGED, **options) -> Exposed:
    """Strip the corpus as values, as keys of tombstones, or as headers of plain records."""
    central, count = MemoryRegistry(), len(source.records)
    match place:
        case "value":
            batch = Batch([None] * count, source.records, [None] * count)
        case "key":
            batch = Batch(source.records, [None] * count, [None] * count)
        case _:
            plain = frame(source.registry.register("plain", json.dumps(PLAIN)), b"\x10" + SURVIVOR.encode())
            headers = [[("secret", record), (CANARY, b"1"), ("traceparent", b"t")] for record in source.records]
            batch = Batch([None] * count, [plain] * count, headers)
    out = topic(policy, source.registry, central, **options).strip(batch)
    return Exposed(source.names, out, tuple(central.texts))
