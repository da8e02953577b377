"""The derived schema: deterministic, minimal, without a word of what was stripped."""

import json
import subprocess
import sys
from datetime import date

import fastavro
import pytest

from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import Action
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from tests.growth import cpu_s
from tests.reference.plan_text import plan_text

TODAY = date(2026, 11, 1)
TAGS = """
  DROP: drop
  NULL: nullify
  RED: redact
  TOK: {pseudonymize: {key: customer, domain: d}}
  UUID: {pseudonymize: {key: customer, domain: d, encode: uuid}}
  RAW: {pseudonymize: {key: customer, domain: d, encode: bytes}}
"""
POLICY = f"policy: retail\nversion: 3\ntags: {TAGS}\ntopics: {{orders: {{default: keep}}}}\n"


def _plan(schema, policy=POLICY):
    return compile_plan(json.dumps(schema), value_scope(parse_policy(policy), "orders"), TODAY)


def _derived(schema, policy=POLICY):
    text = _plan(schema, policy).schema
    fastavro.parse_schema(json.loads(text))
    return json.loads(text)


def _record(*fields, **more):
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def _field(name, shape, *tags, **more):
    return {"name": name, "type": shape, **({"confluent:tags": list(tags)} if tags else {}), **more}


def _type_of(shape, tag):
    """The derived type of one field with a tag, None when it left."""
    fields = _derived(_record(_field("x", shape, tag), _field("left", "int")))["fields"]
    return next((field["type"] for field in fields if field["name"] == "x"), None)


UUID = {"type": "string", "logicalType": "uuid"}
ENUM = {"type": "enum", "name": "E", "symbols": ["JANE", "JOHN"], "default": "JANE"}
CLOSED = {"type": "enum", "name": "E", "symbols": ["REDACTED"]}


@pytest.mark.parametrize(
    ("shape", "tag", "expected"),
    [
        ("string", "DROP", None),
        ("string", "NULL", ["null", "string"]),
        ("string", "RED", "string"),
        ("long", "TOK", "string"),
        ("long", "UUID", UUID),
        ("string", "RAW", "bytes"),
        (["null", "string"], "NULL", ["null", "string"]),
        (["null", "string"], "DROP", None),
        (["string", "null"], "TOK", ["string", "null"]),
        (["string", "long"], "TOK", ["string"]),
        (["null", "string", "long"], "UUID", ["null", UUID]),
        (["string", "double"], "TOK", ["null", "string"]),
        (["string", "int"], "NULL", ["null", "string", "int"]),
        ({"type": "array", "items": "string"}, "DROP", None),
        ({"type": "array", "items": "string"}, "NULL", {"type": "array", "items": ["null", "string"]}),
        ({"type": "map", "values": "long"}, "TOK", {"type": "map", "values": "string"}),
        ({"type": "map", "values": "long"}, "RAW", None),
        ({"type": "map", "values": "long"}, "RED", None),
        ({"type": "map", "values": "double"}, "TOK", None),
        (ENUM, "RED", CLOSED),
        (ENUM, "NULL", ["null", CLOSED]),
        ({**ENUM, "aliases": ["Former"]}, "RED", CLOSED),
        (ENUM, "TOK", "string"),
        ("double", "TOK", None),
        ("boolean", "TOK", None),
        ({"type": "fixed", "name": "F", "size": 3}, "TOK", "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "RED",
         {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
    ],
)  # fmt: skip
def test_types_follow_the_operator(shape, tag, expected):
    """What leaves, what becomes nullable, what becomes a token; a union that lost a branch has a null for it."""
    assert _type_of(shape, tag) == expected


def test_names_order_and_structure_stay():
    """What is kept as a whole keeps its names, order, defaults, aliases and logical types."""
    schema = _record(
        _field("a", {"type": "long", "logicalType": "timestamp-micros"}, default=5),
        _field("b", ENUM, aliases=["b_old"]),
        _field("c", {"type": "record", "name": "n.S", "aliases": ["T"], "fields": [_field("d", "E")]}),
        _field("d", ["null", "n.S"], default=None),
        namespace="m",
    )
    schema["fields"][2]["type"]["fields"][0]["type"] = "m.E"
    assert _derived(schema) == {
        "type": "record", "name": "R", "namespace": "m", "hub.policy": "retail/3", "fields": [
            {"name": "a", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 5},
            {"name": "b", "type": ENUM, "aliases": ["b_old"]},
            {"name": "c", "type": {"type": "record", "name": "S", "namespace": "n", "aliases": ["n.T"],
                                   "fields": [{"name": "d", "type": "m.E"}]}},
            {"name": "d", "type": ["null", "n.S"], "default": None},
        ],
    }  # fmt: skip


def test_a_default_that_json_does_not_have_stays_behind():
    """Some readers take `NaN` and numbers without end for JSON; what is registered at central is JSON for everybody."""
    shape = _record(_field("a", "double", default=1.5), _field("b", "double", default=float("nan")))
    text = _plan(_record(*shape["fields"], _field("c", "float", default=float("inf")))).schema
    fields = json.loads(text, parse_constant=pytest.fail)["fields"]
    assert [field["default"] for field in fields] == [1.5, 0.0, 0.0]


@pytest.mark.slow
def test_defaults_have_a_budget():
    """A default that two records may be at each of its levels is refused by name, not tried in all ways."""
    second = {"type": "record", "name": "B", "fields": [_field("c", ["A", "B"])]}
    first = {"type": "record", "name": "A", "fields": [_field("c", ["A", second])]}
    default = 1
    for _ in range(40):
        default = {"c": default}
    with pytest.raises(DeadLetterError, match="its defaults take more than") as refused:
        _plan(_record(_field("x", [first, "B"], default=default)))
    assert refused.value.reason is Reason.SCHEMA_REFUSED


def test_tags_are_replaced_by_what_was_done():
    """`hub.strip` names the operator, by path within the field where there are several leaves."""
    schema = _record(
        _field("a", "string", "TOK"),
        _field("b", {"type": "map", "values": "string"}, "TOK"),
        _field("c", {"type": "array", "items": ["null", "string", "long"]}, "NULL"),
        _field("d", "int"),
    )
    fields = {field["name"]: field.get("hub.strip") for field in _derived(schema)["fields"]}
    assert fields == {
        "a": "pseudonymize",
        "b": {"{key}": "pseudonymize", "{}": "pseudonymize"},
        "c": {"[]": "nullify"},
        "d": None,
    }
    assert "confluent:tags" not in json.dumps(_derived(schema))


def test_texts_of_the_schema_do_not_travel():
    """Docs, unknown properties, defaults and symbols of what is not clear: no canary of the text is left."""
    canary = "jane-canary"
    schema = _record(
        _field("a", {"type": "string", "example": canary}, "TOK", default=canary, doc=canary),
        _field("b", {"type": "enum", "name": "E", "symbols": ["A"], "doc": canary}, doc=canary, note=[canary]),
        _field("c", ["string", "null"], "DROP", default=canary),
        _field("d", {"type": "string", "logicalType": canary}, "RED", default=canary),
        _field("e", {"type": "record", "name": "S", "doc": canary, "fields": [_field("x", "string", "TOK")]},
               default={"x": canary}),
        _field("f", {"type": "enum", "name": "F", "symbols": ["canary"], "default": "canary"}, "RED"),
        _field("g", {"type": "enum", "name": "G", "symbols": ["canary"]}, "DROP"),
        doc=canary,
    )  # fmt: skip
    assert "canary" not in _plan(schema).schema


def test_unused_types_leave():
    """A type of which no kept field speaks is not defined; a reference becomes the definition when the first leaves."""
    named = {"type": "record", "name": "S", "fields": [_field("x", "string")]}
    derived = _derived(_record(_field("a", named, "DROP"), _field("b", "S")))
    assert derived["fields"] == [{"name": "b", "type": {"type": "record", "name": "S", "fields": [
        {"name": "x", "type": "string"}]}}]  # fmt: skip
    assert "S" not in _plan(_record(_field("a", named, "DROP"), _field("b", "int"))).schema


def test_one_type_with_two_meanings_gets_two_names():
    """Two places that are stripped differently cannot share a definition; equal ones do."""
    named = {"type": "record", "name": "n.S", "fields": [_field("x", "string"), _field("y", "int")]}
    taken = {"type": "fixed", "name": "n.S_2", "size": 1}
    derived = _derived(
        _record(_field("t", taken), _field("a", named), _field("b", "n.S", "TOK"), _field("c", "n.S"),
                _field("d", "n.S", "TOK"))
    )  # fmt: skip
    _, a, b, c, d = derived["fields"]
    assert (a["type"]["name"], b["type"]["name"], c["type"], d["type"]) == ("S", "S_3", "n.S", "n.S_3")


def test_recursive_types_stay_finite():
    """A tag reaches every level; the second level of a path rule is another type; a shell of nothing leaves."""
    node = _record(_field("v", "string", "TOK"), _field("next", ["null", "R"], default=None))
    assert [field["type"] for field in _derived(node)["fields"]] == ["string", ["null", "R"]]
    policy = "policy: p\nversion: 1\ntopics: {orders: {fields: {v: keep, next.next.v: keep}}}\n"
    plain = _record(_field("v", "string"), _field("next", ["null", "R"]))
    derived = _derived(plain, policy)
    second = derived["fields"][1]["type"][1]
    third = second["fields"][0]["type"][1]
    assert (second["name"], third["name"]) == ("R_2", "R_3")
    assert [field["name"] for field in third["fields"]] == ["v"], "nothing below is kept, so that `next` leaves"


def test_what_has_no_leaves_is_declared_too():
    """The length of a chain is data: it stays with `keep` and leaves by default."""
    chain = _record(_field("next", ["null", "R"]))
    assert [field["name"] for field in _derived(chain)["fields"]] == ["next"]
    assert _derived(chain, POLICY.replace("{default: keep}", "{}"))["fields"] == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("string", {"type": "string", "hub.policy": "retail/3"}),
        ({"type": "string", "confluent:tags": ["DROP"]}, {"type": "null", "hub.policy": "retail/3"}),
        (_record(_field("x", "int", "DROP")), {**_record(), "hub.policy": "retail/3"}),
        (["null", _record(_field("x", "int"))], ["null", {**_record(_field("x", "int")), "hub.policy": "retail/3"}]),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "int", "hub.policy": "retail/3"}),
    ],
)
def test_every_root_is_named_by_its_policy(schema, expected):
    """A value of which nothing is left is a record without fields, or null where it was none."""
    assert _derived(schema) == expected


@pytest.mark.slow
def test_the_text_is_the_same_in_every_process():
    """Byte-deterministic: hash seeds, set order and the order of the policy change nothing."""
    program = (
        "import json,sys; from datetime import date; from aggregator.privacy.plan.compile import compile_plan;"
        "from aggregator.privacy.policy.file import parse_policy;"
        "from aggregator.privacy.policy.precedence import value_scope;"
        "s, p = json.load(sys.stdin); scope = value_scope(parse_policy(p), 'orders');"
        "from tests.reference.plan_text import plan_text;"
        "print(plan_text(compile_plan(s, scope, date(2026, 11, 1))))"
    )
    schema = json.dumps(_record(*(_field(f"f{n}", ["null", "string", "long"], "TOK", "UUID") for n in range(20))))
    turned = POLICY.replace(TAGS, "\n".join(["", *reversed(TAGS.strip("\n").split("\n")), ""]))
    outputs = {
        subprocess.run(  # noqa: PLW1510 - the output decides
            [sys.executable, "-c", program], input=json.dumps([schema, policy]), capture_output=True, text=True,
            env={"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed, policy in [(1, POLICY), (2, POLICY), (3, turned)]
    }  # fmt: skip
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["schema"]


def test_a_wide_schema_compiles_quickly():
    """300 leaves, each with a path rule and a tag, in under a tenth of a second."""
    schema = json.dumps(_record(*(_field(f"f{n}", ["null", "string"], "TOK") for n in range(300))))
    fields = "\n".join(f"      f{n}: redact" for n in range(0, 300, 2))
    policy = parse_policy(f"policy: p\nversion: 1\ntags: {TAGS}\ntopics:\n  orders:\n    fields:\n{fields}\n")
    scope = value_scope(policy, "orders")
    assert len(compile_plan(schema, scope, TODAY).rows) == 300
    assert cpu_s(lambda: compile_plan(schema, scope, TODAY), enough_s=0.1) < 0.1


@pytest.mark.slow
def test_a_schema_that_multiplies_stays_small():
    """Each record holds the next one twice: 2**60 places share their nodes instead of filling the memory."""
    inner = "string"
    for n in range(40):
        again = f"R{n - 1}" if n else "int"
        inner = {"type": "record", "name": f"R{n}", "fields": [_field("a", inner), _field("b", again)]}
    plan = _plan(inner)
    assert plan.nodes[plan.root].action is Action.KEEP
    assert len(plan.nodes) < 25_000


def test_plans_hold_no_key(lab):
    """A plan is stored and shown; it holds the name of a key at most."""
    text = plan_text(_plan(_record(_field("a", "string", "TOK"))))
    assert "customer" in text
    assert lab.keys["customer"].material("customer").hex() not in text
    assert "file:" not in text
