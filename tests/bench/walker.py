"""The leak corpus through confluent-kafka's tag walker, beside ours: `python -m tests.bench.walker > docs/leaks.md`.

Theirs is the library's Avro serialiser with a registry in memory and a domain rule over the tag, as its documentation
has it. The rule itself is as careful as one can be: it replaces every value that it is shown, and raises for what it
does not know. What is left in clear was never shown to it.
"""

import io
import json
import logging
from collections import Counter
from importlib.metadata import version

import fastavro
from confluent_kafka.schema_registry import Rule, RuleKind, RuleMode, RuleSet, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import FieldRuleExecutor, FieldType
from confluent_kafka.serialization import MessageField, SerializationContext

from aggregator.privacy.batch.strip import Batch
from aggregator.schema.wire import frame, split
from tests.canary import recognised
from tests.unit.privacy.corpus import SURVIVOR, body_of, schema_of, unwrapped
from tests.unit.privacy.exposure import CANARY, SHAPES, TRACES, topic
from tests.unit.privacy.kernel.drawing import MemoryRegistry

POLICY = "policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {orders: {default: keep}}\n"
# What an undeclared tag means is a rule of this hub's policy.
OURS_ALONE = {"tag that nobody declared"}
REPLACEMENTS = {
    FieldType.STRING: lambda _: "[REDACTED]",
    FieldType.ENUM: lambda _: "other",
    FieldType.BYTES: lambda _: b"",
    FieldType.FIXED: lambda value: bytes(len(value)),
    FieldType.INT: lambda _: 0,
    FieldType.LONG: lambda _: 0,
    FieldType.FLOAT: lambda _: 0.0,
    FieldType.DOUBLE: lambda _: 0.0,
    FieldType.BOOLEAN: lambda _: False,
}


class Redact(FieldRuleExecutor):
    """Replaces what the walker shows it."""

    def type(self):
        """The name of the rule's type."""
        return "REDACT"

    def new_transform(self, _context):
        """What happens to one value."""

        def replaced(_rule, field, value):
            return None if value is None else REPLACEMENTS[field.field_type](value)

        return replaced


def theirs(number, shape) -> str:
    """What the library makes of a shape: `clear`, `stripped`, or `error`."""
    schema = unwrapped(schema_of(shape, CANARY, name=f"R{number}"))
    body = body_of(shape, CANARY, shared=False)
    value = shape.value
    if shape.wire is not None:
        value = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)["x"]
    client = SchemaRegistryClient.new_client({"url": f"mock://walker-{number}"})
    rule = Rule("redact", None, RuleKind.TRANSFORM, RuleMode.WRITE, "REDACT", ["PII"], None, None, None, "ERROR", False)
    client.register_schema("orders-value", Schema(json.dumps(schema), "AVRO", rule_set=RuleSet(None, [rule])))
    rules = RuleRegistry()
    rules.register_executor(Redact())
    serialise = AvroSerializer(
        client, conf={"auto.register.schemas": False, "use.latest.version": True}, rule_registry=rules
    )
    try:
        out = serialise(
            {"kept": SURVIVOR, "shared": None, "x": value}, SerializationContext("orders", MessageField.VALUE)
        )
    except Exception:  # noqa: BLE001 - whatever it raises, nothing was produced
        return "error"
    return _outcome(split(out)[1], json.dumps(schema))


def ours(number, shape) -> str:
    """What the strip makes of it, under a policy that drops the tag and keeps everything else."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    schema_id = edge.register("edge", json.dumps(schema_of(shape, CANARY, name=f"R{number}")))
    value = frame(schema_id, body_of(shape, CANARY, shared=False))
    out = topic(POLICY, edge, central).strip(Batch([None], [value], [None]))
    return "error" if out.rejected else _outcome(split(out.values[0])[1], central.texts[0])


def _outcome(body, text):
    """Whether the canary is in the bytes, or in what a reader makes of them."""
    plain = fastavro.parse_schema(json.loads(text.replace("logicalType", "was")))
    read = repr(fastavro.schemaless_reader(io.BytesIO(body), plain, None))
    return "clear" if recognised(body, TRACES) or recognised(read.encode(), TRACES) else "stripped"


def page() -> str:
    """The document."""
    shapes = [(name, shape) for name, shape in SHAPES.items() if name not in OURS_ALONE]
    rows = [(name, ours(number, shape), theirs(number, shape)) for number, (name, shape) in enumerate(shapes)]
    mine, other = (Counter(row[place] for row in rows) for place in (1, 2))
    table = "\n".join(f"| {name} | {_shown(left)} | {_shown(right)} |" for name, left, right in rows)
    return HEAD.format(version=version("confluent-kafka"), count=len(rows), ours=_sum(mine), theirs=_sum(other)) + table


def _shown(outcome):
    return "**clear**" if outcome == "clear" else outcome


def _sum(counts):
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("stripped", "clear", "error"))


HEAD = """# Shapes that leak

Made by `python -m tests.bench.walker`; a test holds that this page is what it makes.

Each row is a record with one tagged field, or a tag inside of the field's type, and a mark in every leaf of what is
tagged. It goes through this hub's strip, under a policy that drops the tag and keeps everything else, and through the
Avro serialiser of confluent-kafka {version} with a rule over the same tag. That rule replaces every value that it is
shown and raises for what it does not know. Then the bytes, and what a reader makes of them, are searched for the mark
in all its encodings.

* **clear**: the mark is there, and nobody was told.
* stripped: it is not.
* error: an exception; nothing was produced, and the record is lost to the one who wrote it.

Not counted: the schema's own text. The serialiser leaves docs, defaults and symbols in the registry as they are; the
hub registers a derived schema without them.

| | this hub | confluent-kafka {version} |
|---|---|---|
| {count} shapes | {ours} | {theirs} |

| shape | this hub | confluent-kafka {version} |
|---|---|---|
"""

if __name__ == "__main__":
    logging.getLogger("confluent_kafka").setLevel(logging.ERROR)
    print(page())
