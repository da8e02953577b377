"""Small schemas that stand for very much: types that name each other twice, paths of tags, types that move inwards."""

import json
import time
from datetime import date

import pytest

from aggregator.errors import DeadLetterError, HoldError, Reason
from aggregator.lake.columns.arrow_types import read_shape
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.schema.avro import parse
from aggregator.schema.compatibility import differences, may_follow, reads
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import SchemaVersion

pytestmark = pytest.mark.slow

TODAY, BUDGET_S = date(2026, 1, 1), 2.0
OF_A_DIAMOND_S = 10.0  # by the text it takes one or two; by the paths, two to the twentieth at the least, hours


def diamond(levels: int, leaf: str) -> str:
    """Each record has the next one twice: as many places as 2 to the number of levels, in some kilobytes."""
    kind = {"type": "record", "name": f"R{levels}", "fields": [{"name": "x", "type": leaf}]}
    for level in range(levels - 1, 0, -1):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level + 1}"}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    return json.dumps(kind)


def keeping():
    policy = parse_policy("policy: p\nversion: 1\ntopics: {t: {default: keep}}\n")
    return value_scope(policy, "t")


def union(count: int, extra: str) -> str:
    """A union of so many records."""
    fields = [{"name": "x", "type": "long"}]
    branches = [{"type": "record", "name": f"B{at}", "fields": fields} for at in range(count)]
    return json.dumps([*branches, {"type": "record", "name": extra, "fields": []}])


def wide(count: int, *, step: int) -> str:
    """A record of so many fields, forwards or backwards, each with an alias."""
    fields = [{"name": f"f{at}", "type": "int", "aliases": [f"g{at}"]} for at in range(count)][::step]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.mark.parametrize("levels", [20, 60])
def test_a_diamond_costs_what_its_text_does(levels):
    """Deriving, comparing and telling what differs visit a type once; a table has so many columns at most."""
    began = time.process_time()
    old, new = (compile_plan(diamond(levels, leaf), keeping(), TODAY).schema for leaf in ("string", "long"))
    assert not may_follow(new, old)
    assert any("string" in line and "long" in line for line in differences(parse(old), parse(new)))
    assert differences(parse(old), parse(old)) == []
    with pytest.raises(HoldError, match="more than 10,000 columns"):
        read_shape(new)
    assert time.process_time() - began < OF_A_DIAMOND_S


@pytest.mark.parametrize(
    ("old", "new"), [(union(4000, "Y"), union(4000, "Z")), (wide(8000, step=1), wide(8000, step=-1))]
)
def test_comparing_costs_time_in_proportion(old, new):
    """Unions of thousands of records, and records of thousands of fields in another order."""
    old, new = parse(old), parse(new)
    began = time.process_time()
    reads(new, old)
    differences(old, new)
    assert time.process_time() - began < BUDGET_S


def test_many_aliases_that_many_fields_use_are_one_name():
    """Looked at once, instead of minutes of sorting names."""
    aliases = [f"n{at}" for at in range(2000)]
    tagged = {"name": "x", "type": "string", "confluent:tags": ["PII"]}
    record = {"type": "record", "name": "A", "aliases": aliases, "fields": [tagged]}
    fields = [{"name": "f", "type": record}, *({"name": f"f{at}", "type": "A"} for at in range(2000))]
    first, second = (
        json.dumps({"type": "record", "name": "R", "fields": [*fields, *more]})
        for more in ((), ({"name": "z", "type": "int"},))
    )
    began = time.process_time()
    schema = with_inherited_tags(second, (), [SchemaVersion("t-value", 1, 1, first)])
    assert [item.tags for node in schema.nodes for item in node.fields if item.name == "x"] == [{"PII"}]
    assert time.process_time() - began < BUDGET_S


@pytest.mark.parametrize("path", ["\ud800", "?" * 90_000, "a" * 1001])
def test_a_path_of_tags_that_cannot_be_read_is_refused_with_its_schema(path):
    """It comes from the registry, where a producer may have put it."""
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]})
    with pytest.raises(DeadLetterError) as caught:
        with_inherited_tags(text, ((path, frozenset({"PII"})),), ())
    assert caught.value.reason is Reason.SCHEMA_REFUSED


@pytest.mark.parametrize("levels", [90, 110, 400])
def test_what_is_left_of_a_schema_can_be_read_like_any_other(levels):
    """A flat list of types whose definitions move into each other, because the fields that held them are dropped."""
    fields = [{"name": "end", "type": {"type": "record", "name": "T0", "fields": [{"name": "x", "type": "int"}]}}]
    for level in range(1, levels):
        inner = {"type": "record", "name": f"T{level}", "fields": [{"name": "down", "type": f"T{level - 1}"}]}
        fields.append({"name": f"d{level}", "type": inner})
    fields.append({"name": "kept", "type": f"T{levels - 1}"})
    policy = parse_policy('policy: p\nversion: 1\ntopics: {t: {fields: {"kept.**": keep}}}\n')
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    if levels < 100:
        assert parse(compile_plan(text, value_scope(policy, "t"), TODAY).schema)
    else:
        with pytest.raises(DeadLetterError) as caught:
            compile_plan(text, value_scope(policy, "t"), TODAY)
        assert caught.value.reason is Reason.SCHEMA_REFUSED
