"""Nine topics as an edge has them: Avro with and without tags, JSON, plain text, bytes, compacted, wide, and large.

Nothing here uses the code under test: records are framed by hand.
"""

import io
import json
import struct
import time
from pathlib import Path

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.trial import settle

CANARY = "jane.canary@example.com"
LARGE = 900_000
_DAY_MS = 86_400_000
_COMPACT = {"cleanup.policy": "compact"}
TAGGED = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "email", "type": "string", "confluent:tags": ["PII"]},
    {"name": "note", "type": ["null", "string"], "default": None},
]}  # fmt: skip
UNTAGGED = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"},
                                                          {"name": "page", "type": "string"}]}  # fmt: skip
# Name to how its values are written.
FORMS = {
    "orders": "avro",
    "clicks": "avro",
    "profiles": "avro",
    "sensors": "avro",
    "events": "json",
    "flags": "json",
    "access-log": "text",
    "documents": "text",
    "thumbnails": "bytes",
}
COMPACTED = frozenset({"profiles", "flags"})
PARTITIONS = {"sensors": 12}
RECORDS = {"documents": 3}
MANY = 24


def register(folder: Path, prefix: str = "") -> dict[str, int]:
    """A folder as a registry: topic to the id of its values' schema."""
    ids = {}
    for number, name in enumerate((name for name, form in FORMS.items() if form == "avro"), 1):
        subject = folder / f"{prefix}{name}-value"
        subject.mkdir(parents=True)
        schema = UNTAGGED if name == "clicks" else TAGGED
        (subject / f"1-{number}.avsc").write_text(json.dumps(schema))
        ids[name] = number
    return ids


def create(bootstrap: str, prefix: str = "") -> None:
    """The topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    topics = [
        NewTopic(prefix + name, PARTITIONS.get(name, 1), 1, config=_COMPACT if name in COMPACTED else {})
        for name in FORMS
    ]
    settle(admin.create_topics(topics))


def fill(bootstrap: str, ids: dict[str, int], prefix: str = "") -> dict[str, int]:
    """Records into each of them; topic to how many. Compacted ones have one that is older than any retention."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 3})
    counts = {}
    for name in FORMS:
        counts[name] = RECORDS.get(name, MANY)
        for number in range(counts[name]):
            old = {"timestamp": int(time.time() * 1000) - 60 * _DAY_MS} if name in COMPACTED and number == 0 else {}
            producer.produce(
                prefix + name,
                value(name, number, ids),
                f"{CANARY}-{number}",
                partition=number % PARTITIONS.get(name, 1),
                headers=[("x-user", CANARY.encode())],
                **old,
            )
            producer.flush(10)
    return counts


def value(name: str, number: int, ids: dict[str, int]) -> bytes:
    """One value, with the canary in it."""
    form = FORMS[name]
    if form == "avro":
        out = io.BytesIO()
        record = {"id": number, "email": CANARY, "note": f"of {CANARY}", "page": f"/{CANARY}"}
        schema = fastavro.parse_schema(json.loads(json.dumps(UNTAGGED if name == "clicks" else TAGGED)))
        fastavro.schemaless_writer(out, schema, {one["name"]: record[one["name"]] for one in schema["fields"]})
        return b"\0" + struct.pack(">I", ids[name]) + out.getvalue()
    if form == "json":
        return json.dumps({"id": number, "mail": CANARY, "at": {"lat": 52.5, "who": [CANARY]}}).encode()
    if form == "bytes":
        return b"\x89PNG\r\n\x1a\n\xff" + CANARY.encode() + bytes([number])
    line = f"2026-11-01T00:00:{number:02d}Z GET /{CANARY} 200"
    return (line * (LARGE // len(line)) if name == "documents" else line).encode()
