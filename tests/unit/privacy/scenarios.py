"""One small situation per rule of the policy: a record whose canary must not come out, because that rule closes it.

Each is a policy, the fields of a record, and what else the record carries. The canary stands where the rule applies;
without the rule it would pass.
"""

import io
import json
from dataclasses import dataclass, field
from datetime import date

import fastavro

from aggregator.privacy.batch.strip import Batch
from aggregator.schema.wire import VALUE_ID_HEADER, frame
from tests.canary import number
from tests.unit.privacy.corpus import SURVIVOR, unwrapped
from tests.unit.privacy.exposure import CANARY, Exposed, topic
from tests.unit.privacy.kernel.drawing import MemoryRegistry

WHY = "reason: r, owner: o, expires: 2030-01-01"
KEEP = "{keep: {reason: r, owner: o, expires: 2030-01-01}}"
EXPIRED = "{keep: {reason: r, owner: o, expires: 2026-10-31}}"
TOKEN = "{pseudonymize: {key: customer, domain: d}}"
PERSON = {"type": "record", "name": "P", "fields": [{"name": "name", "type": "string"}]}
NESTED = {"type": "record", "name": "A", "fields": [{"name": "p", "type": PERSON}]}
CHAIN = {
    "type": "record",
    "name": "L",
    "fields": [{"name": "v", "type": "string"}, {"name": "next", "type": ["null", "L"]}],
}


@dataclass(frozen=True)
class Scenario:
    """A situation.

    Attributes:
        rule: What closes the canary.
        policy: Everything below `version:`.
        type: Of the field `x`.
        value: Of the field `x`.
        tags: On the field `x`.
        key: Of the record.
        headers: Of the record.
        text: The value, for topics without a schema; a lone surrogate is a byte that is no UTF-8.
        rejected: Whether the record must become a dead letter.
        suppressed: Whether the record must be left out.
        days: Days on which the batch is stripped, by one and the same strip; only the last day's result counts.
    """

    rule: str
    policy: str
    type: object = "string"
    value: object = CANARY
    tags: tuple[str, ...] = ()
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    text: str | None = None
    rejected: bool = False
    suppressed: bool = False
    days: tuple[date, ...] = field(default=(date(2026, 11, 1),))

    def findings(self, **options) -> list[str]:
        """What the search finds, and whether the record was treated as it must be; nothing, if the rule holds."""
        registry, central, days = MemoryRegistry(), MemoryRegistry(), iter(self.days)
        tags = {"confluent:tags": list(self.tags)} if self.tags else {}
        fields = [{"name": "kept", "type": "string"}, {"name": "x", "type": self.type, **tags}]
        text = json.dumps({"type": "record", "name": "R", "namespace": "corpus", "fields": fields})
        out = io.BytesIO()
        schema = fastavro.parse_schema(unwrapped(json.loads(text)))
        fastavro.schemaless_writer(out, schema, {"kept": SURVIVOR, "x": self.value})
        value = (
            frame(registry.register("edge", text), out.getvalue())
            if self.text is None
            else self.text.encode("utf-8", "surrogateescape")
        )
        strip = topic(f"policy: p\nversion: 1\n{self.policy}\n", registry, central, today=lambda: next(days), **options)
        for _ in self.days:
            stripped = strip.strip(Batch([self.key], [value], [list(self.headers) or None]))
        lines = Exposed(("the record",), stripped, tuple(central.texts)).found()
        if bool(stripped.rejected) is not self.rejected:
            lines.append(f"rejected: {sorted(stripped.rejected.values())}")
        if bool(stripped.suppressed) is not self.suppressed:
            lines.append("suppressed" if stripped.suppressed else "not suppressed")
        return lines


def _orders(fields="kept: keep", **more):
    parts = "".join(f"{name}: {value}, " for name, value in more.items())
    return f"topics: {{orders: {{{parts}fields: {{{fields}}}}}}}"


def _json(fields):
    return _orders(fields, value_format="json")


def _whole(form, value=None):
    return _orders("").replace("fields: {}", f"value_format: {form}" + (f", value: {value}" if value else ""))


def _two(first, second):
    """Two patterns that both match the topic."""
    return f"topics: {{orders: {{fields: {{kept: keep}}, {first}}}, 'ord.*': {{fields: {{kept: keep}}, {second}}}}}"


_ANYTHING = {"type": "map", "values": "string"}
_KEY = CANARY.encode()

SCENARIOS = [
    Scenario("default: what nobody declared is dropped", _orders()),
    Scenario("a path goes before a tag", f"tags: {{OPEN: {KEEP}}}\n" + _orders("kept: keep, x: drop"), tags=("OPEN",)),
    Scenario("a path goes before the default", _orders("x: drop", default="keep")),
    Scenario("a tag goes before the default", "tags: {PII: drop}\n" + _orders(default="keep"), tags=("PII",)),
    Scenario("paths: the most restrictive", _orders(f"kept: keep, x: {KEEP}, '**': drop", default="keep")),
    Scenario("tags: the most restrictive", f"tags: {{A: {KEEP}, B: drop}}\n" + _orders(), tags=("A", "B")),
    Scenario("patterns: the most restrictive default", _two("default: keep", "default: drop")),
    Scenario("patterns: the most restrictive key", _two("key: keep", "headers: []"), value="", key=_KEY),
    Scenario(
        "patterns: headers of all", _two("headers: [secret]", "headers: [other]"), value="", headers=(("secret", _KEY),)
    ),
    Scenario("expiry: a path", "tags: {PII: drop}\n" + _orders(f"kept: keep, x: {EXPIRED}"), tags=("PII",)),
    Scenario("expiry: a path to a field without tag", _orders(f"kept: keep, x: {EXPIRED}")),
    Scenario("expiry: below a path of one step", _orders(f"'x.*': {EXPIRED}, '**': keep"), NESTED,
             {"p": {"name": CANARY}}),
    Scenario("expiry: a tag", f"tags: {{PII: {EXPIRED}}}\n" + _orders(), tags=("PII",)),
    Scenario("expiry: the key", _orders(key=EXPIRED), value="", key=_KEY),
    Scenario(
        "expiry: overnight",
        _orders(f"kept: keep, x: {KEEP}"),
        days=(date(2029, 12, 31), date(2030, 1, 1)),
    ),
    Scenario(
        "expiry: the key, overnight", _orders(key=KEEP), value="", key=_KEY, days=(date(2029, 12, 31), date(2030, 1, 1))
    ),
    Scenario("a tag is kept only with a reason", "tags: {PII: drop}\n" + _orders("'**': keep"), tags=("PII",)),
    Scenario("an undeclared tag closes", _orders(default="keep"), tags=("NOBODY",)),
    Scenario("a tag on a type is inherited", "tags: {PII: drop}\n" + _orders(default="keep"),
             type={"type": "array", "items": "string", "confluent:tags": ["PII"]}, value=[CANARY]),
    Scenario("a tag on a field is inherited", "tags: {PII: drop}\n" + _orders(default="keep"),
             type=PERSON, value={"name": CANARY}, tags=("PII",)),
    Scenario("`*` opens one level", _orders("kept: keep, '*': keep"), type=PERSON, value={"name": CANARY}),
    Scenario("a path covers what lies below", _orders("x: drop", default="keep"), type=PERSON, value={"name": CANARY}),
    Scenario("map keys are leaves: under the default", _orders("kept: keep, 'x.{}': keep"), _ANYTHING, {CANARY: "v"}),
    Scenario("map keys are leaves: under a tag", "tags: {PII: drop}\n" + _orders("kept: keep", default="keep"),
             _ANYTHING, {CANARY: "v"}, tags=("PII",)),
    Scenario("map keys are leaves: under a path", _orders("kept: keep, 'x.{key}': drop", default="keep"),
             _ANYTHING, {CANARY: "v"}),
    Scenario("map keys take few operators",
             f"tags: {{PII: {{truncate: {{length: 100, {WHY}}}}}}}\n" + _orders(default="keep"),
             _ANYTHING, {CANARY: ""}, tags=("PII",)),
    Scenario("beyond the first level of a recursive type", _orders("kept: keep, x.v: keep"),
             CHAIN, {"v": "open", "next": {"v": CANARY, "next": None}}),
    Scenario("an operator that does not take the type drops", "tags: {PII: mask_email}\n" + _orders(default="keep"),
             "bytes", _KEY, tags=("PII",)),
    Scenario("mask: what would show all shows nothing",
             f"tags: {{PII: {{mask: {{keep_first: {len(CANARY)}, {WHY}}}}}}}\n"
             + _orders(), tags=("PII",)),
    Scenario("no e-mail address: redacted", "tags: {PII: mask_email}\n" + _orders(), tags=("PII",)),
    Scenario("no entry in the table: redacted", "tags: {PII: {lookup: {table: {a: b}}}}\n" + _orders(), tags=("PII",)),
    Scenario("no match of the pattern: redacted",
             f"tags: {{PII: {{regex_replace: {{pattern: '[0-9]{{40}}', replacement: x, {WHY}}}}}}}\n" + _orders(),
             tags=("PII",)),
    Scenario("tokens have a key", f"tags: {{PII: {TOKEN}}}\n" + _orders(), tags=("PII",)),
    Scenario("a key without a rule is dropped", _orders(), value="", key=_KEY),
    Scenario("a key gets its token", _orders(key=TOKEN), value="", key=_KEY),
    Scenario("a key that is not what its format says is rejected", _orders(key="keep", format="avro"),
             value="", key=_KEY, rejected=True),
    Scenario("a key that is no text is rejected", _orders(key="keep"), value="", key=b"\xff" + _KEY, rejected=True),
    Scenario("a key of an unknown schema is no text", _orders(key="keep", format="avro"), value="",
             key=b"\0\0\0\0\x63" + _KEY, rejected=True),
    Scenario("a key in another registry's frame is no text", _orders(key="keep"), value="",
             key=b"\3\0" + b"a schema's GUID." + _KEY, rejected=True),
    Scenario("headers: an allow-list", _orders(headers="[traceparent]"), value="", headers=(("secret", _KEY),)),
    Scenario("headers: an edge's schema id stays there", _orders(headers=f"[{VALUE_ID_HEADER}]"),
             value="", headers=((VALUE_ID_HEADER, _KEY),), rejected=True),
    Scenario("a condition leaves the record out",
             _orders("'**': keep", drop_record=f"[{{field: x, equals: {CANARY}}}]"), suppressed=True),
    Scenario("a condition that cannot be decided", _orders("'**': keep", drop_record="[{field: absent, equals: a}]"),
             rejected=True),
    Scenario("headers: a bare key that is Avro", _orders(key="keep"), value="", key=_KEY,
             headers=(("apicurio.key.globalId", b"\0" * 8),), rejected=True),
    Scenario("a condition on a header that is not there", _orders("'**': keep", drop_record="[{header: h, equals: a}]"),
             rejected=True),
    Scenario("a path that has ended below an open wildcard", _orders(f"'**': keep, x: {EXPIRED}")),
    Scenario("a path that has ended below an open default", _orders(f"x: {EXPIRED}", default="keep")),
    Scenario("a wildcard takes no less than a tag", "tags: {PII: drop}\n" +
             _orders("'**': {lookup: {table: {" + CANARY + ": a" + CANARY + "}}}"), tags=("PII",)),
    Scenario("truncate can leave a value whole", "tags: {PII: drop}\n" + _orders("x: {truncate: {length: 100}}"),
             tags=("PII",)),
    Scenario("a table can name itself",
             "tags: {PII: drop}\n" + _orders(f"x: {{lookup: {{table: {{{CANARY}: {CANARY}}}}}}}"), tags=("PII",)),
    Scenario("a mask can show nearly all",
             "tags: {PII: drop}\n" + _orders("x: {mask: {keep_first: 14}}"), tags=("PII",), value=CANARY + "*****"),
    Scenario("a mask can show who it is", "tags: {PII: drop}\n" + _orders("x: {mask_email: {parts: [domain]}}"),
             tags=("PII",), value=f"{CANARY}@example.com"),
    Scenario("a mask can show the path", "tags: {PII: drop}\n" + _orders("x: {mask_url: {parts: [host]}}"),
             tags=("PII",), value=f"https://example.com/{CANARY}"),
    Scenario("JSON: what no path names", _json("kept: keep"), text=f'{{"kept": "a", "x": "{CANARY}"}}'),
    Scenario("JSON: what lies below", _json("kept: keep"), text=f'{{"kept": {{"x": "{CANARY}"}}}}'),
    Scenario("JSON: what lies in an array", _json("kept: keep"), text=f'{{"kept": ["{CANARY}"]}}'),
    Scenario("JSON: names are data", _json("'{}': keep"), text=f'{{"{CANARY}": "a"}}'),
    Scenario("JSON: a path closes", _json("'**': keep, x: drop"), text=f'{{"x": {{"y": ["{CANARY}"]}}}}'),
    Scenario("JSON: tokens", _json(f"x: {TOKEN}"), text=f'{{"x": "{CANARY}"}}'),
    Scenario("JSON: a number under a rule for texts", _json("x: mask_email"), text=f'{{"x": {number(CANARY, 64)}}}'),
    Scenario("JSON: a name that comes twice", _json("x: keep"), text=f'{{"x": "{CANARY}", "x": "a"}}', rejected=True),
    Scenario("JSON: something behind it", _json("x: keep"), text=f'{{"x": "a"}} "{CANARY}"', rejected=True),
    Scenario("text: without a rule", _whole("text"), text=CANARY),
    Scenario("text: nobody said that it is text", _orders("", default="keep"), text=CANARY, rejected=True),
    Scenario("text: a path opens no text", "topics: {orders: {value_format: text}, 'ord.*': {fields: {'**': keep}}}",
             text=CANARY),
    Scenario("text: a default opens no text", "topics: {orders: {value_format: text}, 'ord.*': {default: keep}}",
             text=CANARY),
    Scenario("text: a path that closes everything", f"topics: {{orders: {{value_format: text, value: {KEEP}}}, "
             "'ord.*': {fields: {'**': drop}}}", text=CANARY),
    Scenario("text: the most restrictive", f"topics: {{orders: {{value_format: text, value: {KEEP}}}, "
             "'ord.*': {value_format: text}}", text=CANARY),
    Scenario("text: tokens", _whole("text", TOKEN), text=CANARY),
    Scenario("text: what the detectors find", _whole("text", f"{{scrub_text: {{{WHY}}}}}"),
             text=f"write to {CANARY}@example.com"),
    Scenario("text: expiry", _whole("text", EXPIRED), text=CANARY),
    Scenario("text: expiry overnight", _whole("text", KEEP), text=CANARY,
             days=(date(2029, 12, 31), date(2030, 1, 1))),
    Scenario("text: no UTF-8", _whole("text", KEEP), text=f"\udcff{CANARY}", rejected=True),
    Scenario("bytes: without a rule", _whole("bytes"), text=CANARY),
    Scenario("bytes: tokens", _whole("bytes", TOKEN), text=CANARY),
    Scenario("bytes: expiry", _whole("bytes", EXPIRED), text=CANARY),
    Scenario("bytes: a wire format proves nothing", _whole("bytes"), text=f"\0\0\0\0\1{CANARY}"),
]  # fmt: skip
