"""The fail-closed matrix: one cell per fault and place (value, key), each with a canary in what is wrong.

A cell says what must become of its record. A quality gate belongs to the lake and is not here.
"""

import json
from dataclasses import dataclass

from aggregator.errors import Reason
from aggregator.schema.wire import KEY_ID_HEADER, VALUE_ID_HEADER, frame
from tests.unit.privacy.corpus import SURVIVOR
from tests.unit.privacy.delivered import LIMIT_BYTES
from tests.unit.privacy.exposure import CANARY
from tests.unit.privacy.kernel.drawing import long_bytes
from tests.unit.privacy.scenarios import EXPIRED, TOKEN

RAW = CANARY.encode()
TEXT = long_bytes(len(RAW)) + RAW
CHAIN = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}
LIST, MAP = {"type": "array", "items": "string"}, {"type": "map", "values": "int"}
FIELDS = f"fields: {{kept: keep, token: {TOKEN}}}"
KEYS = f"key: {TOKEN}, format: avro"


def record(called="R", **fields):
    """A record schema; `kept` is kept, `token` pseudonymised."""
    shaped = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": called, "namespace": "matrix", "fields": shaped}


GOOD = record(kept="string", token="string")


def good(registry, text=SURVIVOR) -> bytes:
    """A record that passes, with a canary in what is pseudonymised."""
    return encoded(registry, GOOD, long_bytes(len(text)) + text.encode() + TEXT)


def encoded(registry, schema, body) -> bytes:
    """A framed body."""
    return frame(registry.register("edge", json.dumps(schema)), body)


@dataclass(frozen=True)
class Cell:
    """One fault in one place.

    Attributes:
        fault: What is wrong.
        place: `value` or `key`.
        content: Makes the content, with a canary in it.
        reason: Of the dead letter; None: the record is delivered without the canary.
        policy: Of the topic.
        headers: Of the record.
    """

    fault: str
    place: str
    content: object
    reason: Reason | None
    policy: str = f"{FIELDS}, {KEYS}"
    headers: tuple[tuple[str, bytes], ...] = ()

    def __str__(self):
        return f"{self.fault}, {self.place}"


def _both(fault, content, reason, **more):
    return [Cell(fault, "value", content, reason, **more), Cell(fault, "key", content, Reason.BAD_KEY, **more)]


CELLS = [
    *_both("unknown id", lambda _: frame(4_000_000, TEXT), Reason.UNKNOWN_SCHEMA),
    *_both("wrong magic", lambda _: b"\1" + RAW, Reason.WRONG_MAGIC),
    *_both("shorter than a header", lambda _: RAW[:4], Reason.WRONG_MAGIC),
    *_both("bytes cut", lambda registry: good(registry)[:-1], Reason.UNDECODABLE),
    *_both("bytes left over", lambda registry: good(registry) + RAW, Reason.UNDECODABLE),
    *_both("no UTF-8", lambda registry: encoded(registry, GOOD, long_bytes(1) + b"\xff" + TEXT), Reason.UNDECODABLE),
    *_both("deep nesting", lambda registry: encoded(registry, CHAIN, b"\2" * 5000), Reason.TOO_DEEP),
    *_both(
        "huge counts",
        lambda registry: encoded(registry, record("Counts", kept=LIST), long_bytes(2**40) + TEXT),
        Reason.UNDECODABLE,
    ),
    *_both(
        "huge sizes",
        lambda registry: encoded(registry, record("Sizes", kept=MAP), long_bytes(-(2**63)) + TEXT),
        Reason.UNDECODABLE,
    ),
    *_both(
        "no schema",
        lambda registry: frame(registry.register("edge", '{"type": "jpeg"}'), TEXT),
        Reason.SCHEMA_REFUSED,
    ),
    *_both(
        "a name is no schema",
        lambda registry: frame(registry.register("edge", json.dumps({"type": CANARY})), TEXT),
        Reason.SCHEMA_REFUSED,
    ),
    Cell("a header that names no schema", "value", good, Reason.WRONG_MAGIC, headers=((VALUE_ID_HEADER, RAW),)),
    Cell("a header that names no schema", "key", good, Reason.BAD_KEY, headers=((KEY_ID_HEADER, RAW),)),
    *(
        Cell("new field", place, lambda registry: encoded(
            registry, record(kept="string", token="string", fresh="string"), long_bytes(1) + b"k" + TEXT + TEXT), None)
        for place in ("value", "key")
    ),
    *(
        Cell("type change", place, lambda registry: encoded(
            registry, record(kept="int", token={"type": "array", "items": {"type": "map", "values": "bytes"}}),
            b"\2" + long_bytes(1) + long_bytes(1) + TEXT + TEXT + b"\0\0"), None)
        for place in ("value", "key")
    ),
    *(
        Cell("operator that raises", "value", good, Reason.OPERATOR_FAILED,
             f"fields: {{kept: keep, token: {{custom: {{name: {name}, type: string}}}}}}")
        for name in ("explode", "picky", "mute", "odd")
    ),
    Cell("oversize result", "value", lambda registry: good(registry, CANARY + "x" * LIMIT_BYTES), Reason.TOO_LARGE),
    Cell("oversize result", "key", lambda _: RAW + b"x" * LIMIT_BYTES, Reason.TOO_LARGE, f"{FIELDS}, key: keep"),
    Cell("expired keep", "value", lambda registry: good(registry, CANARY), None, f"fields: {{kept: {EXPIRED}}}"),
    Cell("expired keep", "key", lambda _: RAW, None, f"{FIELDS}, key: {EXPIRED}"),
]  # fmt: skip
