"""Lineage says names, types and operators: which field comes from where, what was stripped, and never a value."""

import json
from datetime import UTC, date, datetime

import pytest
from openlineage.client.serde import Serde

from aggregator.lineage.events import Happening, edge_topics, table_dataset, table_event, topic_dataset, topic_event
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.traced_columns import MOST, TracedColumn, traced_columns
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope

POLICY = """
policy: retail
version: 3
default: drop
tags: {PII: drop, PII.ID: {pseudonymize: {key: customer, domain: customer}}, PII.NAME: redact}
topics: {".*": {fields: {id: keep, "lines[].sku": keep, labels: keep, city: keep}}}
"""
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "email", "type": "string", "confluent:tags": ["PII"], "default": "canary@x.example"},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [
                    {"name": "number", "type": "string", "confluent:tags": ["PII.ID"]},
                    {"name": "names", "type": {"type": "array", "items": "string"}, "confluent:tags": ["PII.NAME"]},
                ],
            },
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": ["null", "string"]}]},
            },
        },
        {"name": "labels", "type": {"type": "map", "values": "int"}},
        {"name": "city", "type": "string", "default": "Kraków-canary"},
    ],
}
CHAIN = {
    "type": "record",
    "name": "N",
    "fields": [{"name": "n", "type": ["null", "N"]}, {"name": "v", "type": ["null", "int", "string"]}],
}
COLUMNS = (
    TracedColumn("id", "timestamp-millis"),
    TracedColumn("customer.number", "string", "pseudonymize"),
    TracedColumn("customer.names[]", "string", "redact"),
    TracedColumn("lines[].sku", "string"),
    TracedColumn("labels.{}", "int"),
    TracedColumn("city", "string"),
)
WHEN = Happening("demo", "0194e6b4-0000-7000-8000-000000000000", datetime(2026, 11, 29, 9, 0, tzinfo=UTC))
EU = topic_dataset("eu-1:9092, eu-2:9092", "orders")
US = topic_dataset("us-1:9092", "orders")
CENTRAL = topic_dataset("c:9092", "eu.orders")


def sent(event) -> dict:
    """An event as the service gets it."""
    return json.loads(Serde.to_json(event))


def test_fields_of_a_derived_schema_say_what_was_done_to_them():
    """Below records, lists and maps, by the paths that policies use; what was dropped is not there any more."""
    derived = compile_plan(json.dumps(ORDER), value_scope(parse_policy(POLICY), "orders"), date(2026, 11, 29)).schema
    assert traced_columns(derived) == COLUMNS


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ('"string"', (TracedColumn("", "string"),)),
        ('{"type": "null"}', (TracedColumn("", "null"),)),
        (
            json.dumps(CHAIN),
            (TracedColumn("n", "N"), TracedColumn("v", "int"), TracedColumn("v", "string")),
        ),
        ('{"type": "record", "name": "E", "fields": []}', ()),
    ],
)
def test_odd_schemas_end(schema, found):
    """A type that holds itself is named, not followed."""
    assert traced_columns(schema) == found


SHARED = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "ship", "type": {"type": "record", "name": "Addr", "fields": [
            {"name": "email", "type": "string", "confluent:tags": ["PII.NAME"]}, {"name": "zip", "type": "int"}]}},
        {"name": "bill", "type": "Addr"},
        {"name": "either", "type": ["null", {"type": "record", "name": "A", "fields": [
            {"name": "a", "type": "string", "confluent:tags": ["PII.NAME"]}]},
            {"type": "record", "name": "B", "fields": [
            {"name": "b", "type": "string", "confluent:tags": ["PII.NAME"]}]}]},
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
OPEN = """
policy: retail
version: 3
default: drop
tags: {PII.NAME: redact}
topics: {".*": {fields: {"ship.zip": keep, "bill.zip": keep, "m.{}": keep,
  "m.{key}": {pseudonymize: {key: customer, domain: customer}}}}}
"""


def test_a_type_that_is_named_again_and_each_branch_and_key_is_followed():
    """What was stripped at a place is marked there, and nothing else is."""
    derived = compile_plan(json.dumps(SHARED), value_scope(parse_policy(OPEN), "orders"), date(2026, 11, 29)).schema
    assert {one.path: one.stripped for one in traced_columns(derived)} == {
        "ship.email": "redact",
        "ship.zip": "",
        "bill.email": "redact",
        "bill.zip": "",
        "either.a": "redact",
        "either.b": "redact",
        "m.{key}": "pseudonymize",
        "m.{}": "",
    }


def test_types_that_name_each_other_take_no_more_steps_than_they_may():
    """Two to the thirtieth, of records without a field."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for number in range(1, 30):
        inner = [{"name": one, "type": f"R{number - 1}"} for one in "ab"]
        fields.append({"name": f"f{number}", "type": {"type": "record", "name": f"R{number}", "fields": inner}})
    assert traced_columns(json.dumps({"type": "record", "name": "R", "fields": fields})) == ()


def test_a_schema_of_many_fields_is_cut():
    """The graph of a service shows no more."""
    fields = [{"name": f"f{number}", "type": "int"} for number in range(MOST + 5)]
    assert len(traced_columns(json.dumps({"type": "record", "name": "R", "fields": fields}))) == MOST


def test_a_topic_s_event_marks_what_was_stripped():
    """Each field comes from the same one of every edge; a stripped one is masked, and its operator is named."""
    edges = edge_topics([("us", "us-1:9092", "orders"), ("eu", "eu-1:9092, eu-2:9092", "orders")])
    assert edges == (EU, US)
    event = sent(topic_event(WHEN, CENTRAL, edges, COLUMNS))
    assert (event["eventType"], event["job"]["namespace"], event["job"]["name"]) == (
        "COMPLETE",
        "demo",
        "replicate.eu.orders",
    )
    assert [(one["namespace"], one["name"]) for one in event["inputs"]] == [
        ("kafka://eu-1:9092", "orders"),
        ("kafka://us-1:9092", "orders"),
    ]
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("kafka://c:9092", "eu.orders")
    lineage = output["facets"]["columnLineage"]["fields"]
    assert set(lineage) == {one.path for one in COLUMNS}
    sources = lineage["customer.number"]["inputFields"]
    assert [(one["namespace"], one["name"], one["field"]) for one in sources] == [
        ("kafka://eu-1:9092", "orders", "customer.number"),
        ("kafka://us-1:9092", "orders", "customer.number"),
    ]
    masked = {name: one["inputFields"][0]["transformations"][0] for name, one in lineage.items()}
    assert {name: (one["masking"], one["description"]) for name, one in masked.items()} == {
        one.path: (bool(one.stripped), one.stripped) for one in COLUMNS
    }
    assert "canary" not in json.dumps(event)


def test_a_table_s_event_counts_the_commit_and_masks_nothing_twice():
    """Central's fields are stripped already; a column comes from those topics that have it."""
    other = (topic_dataset("c:9092", "us.orders"), (TracedColumn("id", "long"),))
    table = table_dataset("file:///data/lake/orders")
    event = sent(table_event(WHEN, table, [(CENTRAL, COLUMNS), other], name="orders", rows=7, files=2))
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("file", "/data/lake/orders")
    counted = output["outputFacets"]["outputStatistics"]
    assert (counted["rowCount"], counted["fileCount"]) == (7, 2)
    lineage = output["facets"]["columnLineage"]["fields"]
    assert [one["name"] for one in lineage["id"]["inputFields"]] == ["eu.orders", "us.orders"]
    assert [one["name"] for one in lineage["city"]["inputFields"]] == ["eu.orders"]
    assert not any(one["transformations"][0]["masking"] for field in lineage.values() for one in field["inputFields"])


def test_an_event_without_a_schema_still_says_from_where():
    """As of JSON and plain text."""
    event = sent(topic_event(WHEN, CENTRAL, [EU], ()))
    assert event["outputs"][0]["facets"] == {}
    assert len(event["inputs"]) == 1


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("s3://bucket/lake/orders", "s3://bucket", "lake/orders"),
        ("abfss://c@a.dfs.core.windows.net/lake/o", "abfss://c@a.dfs.core.windows.net", "lake/o"),
        ("/data/lake/orders", "file", "/data/lake/orders"),
    ],
)
def test_a_table_is_named_as_openlineage_names_it(address, namespace, name):
    """Else two tools' events of one table do not meet."""
    assert table_dataset(address) == (namespace, name)
