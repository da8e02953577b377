"""What must hold of the strip, as named checks: each returns what it finds, and nothing where all is well.

The search for the canary over scenarios, corpus, keys and dead letters; and what the search cannot see: that hostile
bytes are rejected, that a registry that is away decides nothing, that counts are right. Needs the package of
`foreign` on the path.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from uuid import uuid4

from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError, Reason, Unreachable
from aggregator.privacy.batch.strip import Batch, FoundSchema
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.replicate.flow.schema_fingerprints import checked_fingerprints
from aggregator.schema.registry import SchemaOrigin, SchemaVersion
from aggregator.schema.wire import frame
from tests.canary import recognised
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.corpus import SURVIVOR
from tests.unit.privacy.delivered import LIMIT_BYTES, deliver
from tests.unit.privacy.exposure import CANARY, PLAIN, TRACES, Exposed, Framed, expose, expose_plain, framed, topic
from tests.unit.privacy.kernel.drawing import MemoryRegistry, long_bytes
from tests.unit.privacy.scenarios import SCENARIOS, TOKEN
from tests.unit.schema.former_fields import APART, STAYS, closed

RAW = CANARY.encode()
ORDERS = "policy: p\nversion: 1\ntags: {{PII: {tag}}}\ntopics: {{orders: {{headers: [traceparent], {more}}}}}\n"
CHAIN = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
HOSTILE = {
    "nesting": (CHAIN, b"\2" * 5000, Reason.TOO_DEEP),
    "items without bytes": ({"type": "array", "items": "null"}, long_bytes(10**6) + b"\0", Reason.UNDECODABLE),
    "more items than bytes": ({"type": "array", "items": "int"}, long_bytes(2**40) + b"\0", Reason.UNDECODABLE),
    "bytes left over": ("string", long_bytes(len(RAW)) + RAW + RAW, Reason.UNDECODABLE),
    "a block longer than its items": (
        {"type": "array", "items": "string"},
        long_bytes(-1) + long_bytes(99) + long_bytes(len(RAW)) + RAW + b"\0",
        Reason.UNDECODABLE,
    ),
    "a text beyond the end": ("string", long_bytes(99) + RAW, Reason.UNDECODABLE),
    "a number too long": ("int", b"\xff\xff\xff\xff\x7f", Reason.UNDECODABLE),
    "no UTF-8": ("string", long_bytes(len(RAW) + 1) + b"\xff" + RAW, Reason.UNDECODABLE),
    "a branch that there is not": (["null", "string"], long_bytes(2) + long_bytes(len(RAW)) + RAW, Reason.UNDECODABLE),
    "a branch before the first": (["null", "string"], long_bytes(-1) + long_bytes(len(RAW)) + RAW, Reason.UNDECODABLE),
    "a truth that is neither": ("boolean", b"\2", Reason.UNDECODABLE),
}


class Away(MemoryRegistry):
    """A registry that does not answer."""

    def schema(self, schema_id, **_):
        raise Unreachable("the registry does not answer")


class Versioned(MemoryRegistry):
    """A registry with one subject, in which tags lie in the second version, behind aliases, and beside the last one."""

    SUBJECT = "orders-value"

    def __init__(self):
        super().__init__()
        unlike = uuid4().hex  # no history that was read before begins so
        tags = {"confluent:tags": ["PII"]}
        fields = [("elder", {"aliases": ["mail"]}), ("mail", tags), ("mail", {}), ("who", {"aliases": ["mail"]})]
        for name, more in [*fields, ("who", {"type": ["null", "string"]}), ("elder", {}), ("ssn", {})]:
            shapes = [{"name": name, "type": "string", **more}, {"name": "kept", "type": "string"}]
            shape = {"type": "record", "name": "R", "fields": shapes, "doc": f"of {unlike}"}
            self.register(self.SUBJECT, json.dumps(shape))

    def origin(self, schema_id):
        beside = (("**.ssn", frozenset(["PII"])),) if schema_id == len(self.texts) else ()
        return SchemaOrigin({self.SUBJECT: schema_id}, beside, str(schema_id))

    def history(self, subject, version):
        return [SchemaVersion(subject, n, n, text) for n, text in enumerate(self.texts[:version], 1)]


class Foreign(Versioned):
    """The same, and none of it is the topic's."""

    SUBJECT = "customers-value"


class Strict(MemoryRegistry):
    """A central registry that refuses every derived schema."""

    def register_compatible(self, subject, text):
        raise HoldError(f"{subject}: refused")


def plain_value(registry, text=SURVIVOR) -> bytes:
    """A record with one field, that is kept."""
    return frame(registry.register("plain", json.dumps(PLAIN)), long_bytes(len(text)) + text.encode())


@cache
def _sources() -> tuple[Framed, Framed, Framed]:
    return framed(), framed(shared=False), framed(tagged=False, shared=False)


def _scenarios(made) -> Iterator[str]:
    for scenario in SCENARIOS:
        yield from (f"{scenario.rule}: {line}" for line in scenario.findings(made=made))


def _corpus(tag: str, more: str, place: str, source: int) -> list[str]:
    exposed = expose(ORDERS.format(tag=tag, more=more), place, _sources()[source])
    rejected = [f"{exposed.names[n]}: {rejection}" for n, rejection in exposed.out.rejected.items()]
    return exposed.found() + rejected


def _hostile(made) -> Iterator[str]:
    for name, (schema, body, reason) in HOSTILE.items():
        registry = MemoryRegistry()
        value = frame(registry.register("v", json.dumps(schema)), body)
        strip = topic("policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n", registry, made=made)
        out = strip.strip(Batch([None], [value], [None]))
        found = out.rejected[0].reason if out.rejected else None
        if found is not reason or out.values != [None]:
            yield f"{name}: {found}"


def _dead_records() -> Iterator[str]:
    """Whole records that are lost: nothing of them leaves, in no form, and each is a letter and is counted."""
    registry = MemoryRegistry()
    good, kept = plain_value(registry), plain_value(registry, CANARY)
    huge = plain_value(registry, CANARY + "x" * LIMIT_BYTES)
    values = [kept[:-1], frame(99, RAW), RAW, b"", huge, kept, good]
    keys = [*[RAW] * 5, b"\xff" + RAW, b"k"]
    policy = ORDERS.format(tag="drop", more="key: keep, fields: {kept: keep}")
    done = deliver(topic(policy, registry), values, keys, [[("traceparent", RAW)]] * 6 + [None])
    digests = [hashlib.sha256(value).hexdigest().encode() for value in values]
    yield from recognised(done.raw(), TRACES)
    yield from (f"keyless digest of record {n}" for n, digest in enumerate(digests) if digest in done.raw())
    if done.counts != (1, 6, 0) or len(done.central) != 1 or len(done.letters) != 6:
        yield f"counted {done.counts}, {len(done.central)} delivered, {len(done.letters)} dead"


def _away() -> list[str]:
    strip = topic("policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n", Away())
    try:
        deliver(strip, [frame(7, RAW)])
    except Unreachable:
        return []
    return ["a record was decided while the registry was away"]


def _refused() -> list[str]:
    registry = MemoryRegistry()
    value = plain_value(registry)
    try:
        done = deliver(topic("policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n", registry, Strict()), [value])
    except HoldError:
        return []
    return [f"delivered under a schema that central refuses: {done.counts}"]


def _inherited_tags() -> Iterator[str]:
    """What no text tags, but another version does, or the registry beside it."""
    registry = Versioned()
    text = long_bytes(len(RAW)) + RAW
    values = [frame(number, (b"\2" if number == 5 else b"") + text + b"\2k") for number in range(2, 8)]
    done = deliver(
        topic("policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {orders: {default: keep}}\n", registry), values
    )
    yield from recognised(done.raw(), TRACES)
    if len(done.central) != len(values):
        yield f"counted {done.counts}"


def _weak_wildcard() -> Iterator[str]:
    """A wildcard that takes less than the tag is void, and closes as the tag does beside a path that opens."""
    registry = MemoryRegistry()
    field = {"name": "x", "type": "string", "confluent:tags": ["PII"]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field, {"name": "kept", "type": "string"}]})
    body = long_bytes(len(RAW)) + RAW + b"\2k"
    kept = "{keep: {reason: r, owner: o, expires: 2100-01-01}}"
    policy = f"policy: p\nversion: 1\ntags: {{PII: drop}}\ntopics: {{orders: {{fields: {{'*': redact, x: {kept}}}}}}}\n"
    done = deliver(topic(policy, registry), [frame(registry.register("v", schema), body)])
    yield from recognised(done.raw(), TRACES)


ENDED = "{keep: {reason: r, owner: o, expires: 2020-01-01}}"
OPEN = "{truncate: {length: 500, reason: r, owner: o, expires: 2090-01-01}}"
TEXT, WORDS = "value_format: text, value:", f"'{{}}': {OPEN}, '{{key}}': keep"
# What has ended, beside what would open its place; the tag of the last one takes enough.
_ENDS = {
    "a key": f"topics: {{orders: {{key: {ENDED}}}, 'order.': {{key: {TOKEN}}}}}",
    "a text": f"topics: {{orders: {{{TEXT} {ENDED}}}, 'order.': {{{TEXT} {OPEN}}}}}",
    "a default": f"topics: {{orders: {{default: {ENDED}}}, 'order.': {{default: keep}}}}",
    "a path below a tag": f"tags: {{PII: {OPEN}}}\ntopics: {{orders: {{fields: {{kept: {ENDED}}}}}}}",
    "a tag": "tags: {PII: {mask: {keep_last: 4, reason: r, owner: o, expires: 2020-01-01}}}\ntopics: {orders: {}}",
    "a list": f"topics: {{orders: {{value_format: json, fields: {{{WORDS}, 'a[].b': {ENDED}}}}}}}",
}


def _ended() -> Iterator[str]:
    """Nothing is left by a rule of another pattern, by a tag's, or by what the ended one leads into."""
    tagged = {"type": "record", "name": "R", "fields": [
        {"name": "kept", "type": {"type": "string", "confluent:tags": ["PII"]}}]}  # fmt: skip
    for name, more in _ENDS.items():
        registry = MemoryRegistry()
        schema_id = registry.register("orders-value", json.dumps(tagged if "tags" in more else PLAIN))
        of_kind = {"a text": RAW, "a list": json.dumps({"a": [CANARY]}).encode()}
        value = of_kind.get(name) or frame(schema_id, long_bytes(len(RAW)) + RAW)
        policy = f"policy: p\nversion: 1\n{more}\n"
        out = topic(policy, registry).strip(Batch([RAW], [value], [None]))
        left = b"".join(filter(None, (*out.keys, *out.values)))
        if out.rejected or (name == "a key" and out.keys != [None]) or RAW[-4:] in left:
            yield f"{name} that has ended: {left!r} {out.rejected}"


def _drop_in_json() -> list[str]:
    """A name that only a `drop` writes is data, so that rules for any name open nothing below it."""
    policy = "topics: {orders: {value_format: json, fields: {'a.{}.d': keep, 'a.b.c': drop}}}"
    value = json.dumps({"a": {"b": {"c": 1, "d": CANARY}}}).encode()
    out = topic(f"policy: p\nversion: 1\n{policy}\n", MemoryRegistry()).strip(Batch([None], [value], [None]))
    return ["below a name that a drop writes"] if RAW in (next(iter(out.values)) or b"") else []


def _former_fields() -> Iterator[str]:
    """What an earlier version tagged, in a record that had another name."""
    for shape, (versions, leaf) in STAYS.items():
        if leaf not in closed(versions)[0]:
            yield shape
    for shape, (versions, leaf) in APART.items():
        if leaf in closed(versions)[0]:
            yield shape


def _foreign_subject() -> list[str]:
    strip = topic("policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n", Foreign())
    try:
        done = deliver(strip, [frame(2, long_bytes(len(RAW)) + RAW + b"\2k")])
    except HoldError:
        return []
    return [f"delivered under a schema of another topic: {done.counts}"]


def _another_meaning() -> list[str]:
    try:
        checked_fingerprints(
            (("value/7", "a"),), {"value/7": FoundSchema("b", "s", accepted=False)}, EdgePartition("eu", "orders", 0)
        )
    except HoldError:
        return []
    return ["delivered under an id that means another schema than before"]


def _failing_operators() -> Iterator[str]:
    """Foreign code that raises, answers too little, or something else: its own record is dead, the next one arrives."""
    for name in ("picky", "mute", "odd"):
        registry = MemoryRegistry()
        values = [plain_value(registry, CANARY), plain_value(registry)]
        more = f"fields: {{kept: {{custom: {{name: {name}, type: string}}}}}}"
        done = deliver(topic(ORDERS.format(tag="drop", more=more), registry), values)
        yield from (f"{name}: {line}" for line in recognised(done.raw(), TRACES))
        if len(done.letters) != (1 if name == "picky" else 2):
            yield f"{name}: counted {done.counts}"


def _rejected_lists() -> list[str]:
    """At the strip interface itself: the lists hold nothing of a rejected record."""
    registry = MemoryRegistry()
    policy = ORDERS.format(tag="drop", more="key: keep, fields: {kept: keep}")
    batch = Batch([RAW, b"\xff"], [b"\1", plain_value(registry, CANARY)], [[("traceparent", RAW)]] * 2)
    return Exposed(("bad value", "bad key"), topic(policy, registry).strip(batch), ()).found()


CHECKS: dict[str, Callable[[], Iterable[str]]] = {
    "rejected lists": _rejected_lists,
    "dead records": _dead_records,
    "failing operators": _failing_operators,
    "registry away": _away,
    "refused by central": _refused,
    "inherited tags": _inherited_tags,
    "fields of renamed records": _former_fields,
    "a wildcard below a tag": _weak_wildcard,
    "rules that have ended": _ended,
    "a drop in JSON": _drop_in_json,
    "a schema of another subject": _foreign_subject,
    "an id that means another schema": _another_meaning,
    "hostile bytes, reference": lambda: _hostile(ReferenceStrip),
    "hostile bytes, kernel": lambda: _hostile(KernelStrip),
    "scenarios": lambda: _scenarios(KernelStrip),
    "corpus: tags drop": lambda: _corpus("drop", "default: keep", "value", 1),
    "corpus: tags make tokens": lambda: _corpus(TOKEN, "default: keep", "value", 1),
    "corpus: tags redact": lambda: _corpus("redact", "default: keep", "value", 1),
    "corpus: a path drops": lambda: _corpus("drop", "default: keep, fields: {x: drop}", "value", 2),
    "corpus: undeclared": lambda: _corpus("drop", "fields: {kept: keep}", "value", 2),
    "corpus: values without parts": lambda: expose_plain("").found(),
    "corpus: values without parts make tokens": lambda: expose_plain(f"value: {TOKEN}").found(),
    "corpus: keys": lambda: _corpus("drop", "key: keep, fields: {kept: keep}", "key", 1),
    "corpus: headers": lambda: _corpus("drop", "fields: {kept: keep}", "header", 0),
    "scenarios, reference": lambda: _scenarios(ReferenceStrip),
}


def first_finding() -> tuple[str, str] | None:
    """The first check that finds something, and what; None if all is well. A strip that raises stops a slot."""
    for name, check in CHECKS.items():
        try:
            for finding in check():
                return name, finding
        except Exception as error:  # noqa: BLE001 - whatever it is, no check may meet it
            return name, f"raised {type(error).__name__}"
    return None
