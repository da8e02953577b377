"""What a plan says of fields and keys, from registries in folders; no cluster is asked."""

import json
from datetime import date

import pytest

from aggregator.budgets import SUBJECT_VERSIONS
from aggregator.config.load import load_config
from aggregator.plan.explanation import explanation
from aggregator.plan.schemas import fields_of, keys_of, newest_schemas, schema_steps
from aggregator.privacy.policy.file import load_policy
from tests.unit.schema.double import RegistryDouble

HUB = """\
hub: demo
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu: {bootstrap_servers: "127.0.0.1:1", schemas: "directory:schemas"}
schemas: "directory:central"
topics: [{match: orders, policy: p.yaml}]
"""
POLICY = """\
policy: p
version: 1
tags: {PII: drop}
topics: {orders: {key: {keep: {reason: r, owner: o, expires: 2026-12-01}}, fields: {id: keep}}}
"""
TODAY, ENDED = date(2026, 11, 1), date(2026, 12, 1)


def test_a_schema_that_cannot_follow_is_told_with_what_differs_and_what_to_do(tmp_path):
    """Before a run as in it: each field by path and type, and the way to a new generation of the topic."""
    (tmp_path / "hub.yaml").write_text(HUB)
    (tmp_path / "p.yaml").write_text("policy: p\nversion: 2\ntopics: {orders: {default: keep}}\n")
    both = [{"name": "id", "type": "long"}, {"name": "mail", "type": "string"}]
    for folder, fields in (("schemas/orders-value", both), ("central/eu.orders-value", both[:1])):
        (tmp_path / folder).mkdir(parents=True)
        text = json.dumps({"type": "record", "name": "R", "fields": fields})
        (tmp_path / folder / "1-1.avsc").write_text(text)
    config = load_config(tmp_path / "hub.yaml", {})
    found, _ = newest_schemas(
        config, {config.topics[0].policy: load_policy(tmp_path / "p.yaml")}, {"eu": {"orders": None}}
    )
    (step,) = schema_steps(config, found, set(), TODAY)
    assert step.action == "refused"
    assert "+ mail: string, without a default\n  next: undo that part of the policy, drop the field, or" in step.detail
    assert 'central: "{edge}.{topic}.v2"' in step.detail


@pytest.fixture
def double():
    """A registry behind an address."""
    made = RegistryDouble()
    yield made
    made.close()


@pytest.mark.slow
def test_a_subject_that_nobody_can_read_hides_no_other(tmp_path, double):
    """Too many versions, too many references, a reference that is no schema: each is a step of its topic."""
    (tmp_path / "hub.yaml").write_text(HUB.replace("directory:schemas", double.address).replace("orders", "o.*"))
    (tmp_path / "p.yaml").write_text("policy: p\nversion: 1\ntopics: {o.*: {default: keep}}\n")
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    good = double.add("orders-value", text)
    double.add("broken", "{")
    double.contexts["."].subjects["often-value"] = [good] * (SUBJECT_VERSIONS.limit + 1)
    for number in range(201):
        double.add(f"s{number}", text)
    many = [{"name": f"n{number}", "subject": f"s{number}", "version": 1} for number in range(201)]
    double.add("outward-value", text, references=many)
    double.add("odd-value", text, references=[{"name": "b", "subject": "broken", "version": 1}])
    config = load_config(tmp_path / "hub.yaml", {})
    policies = {rule.policy: load_policy(rule.policy) for rule in config.topics}
    found, trouble = newest_schemas(config, policies, {"eu": dict.fromkeys(("odd", "often", "orders", "outward"))})
    assert not trouble
    steps = {step.writer: step for step in schema_steps(config, found, set(), TODAY)}
    assert {name: step.action for name, step in steps.items()} == {
        "odd-value": "dead letters", "often-value": "refused", "orders-value version 1": "none",
        "outward-value": "dead letters",
    }  # fmt: skip
    assert "more than 1,000 versions" in steps["often-value"].detail
    assert "refers to more than 200 others" in steps["outward-value"].detail
    assert [one.path for one in fields_of(found, TODAY)] == ["id"]
    assert "outward-value: " in explanation(config, policies, "eu", "outward", TODAY).trouble


def test_fields_and_keys_are_told(tmp_path):
    """Values by path, parts of an Avro key under `@key`, the key as a whole; once its `keep` has ended both close."""
    (tmp_path / "hub.yaml").write_text(HUB)
    (tmp_path / "p.yaml").write_text(POLICY)
    fields = [{"name": "id", "type": "long"}, {"name": "mail", "type": "string", "confluent:tags": ["PII"]}]
    for part in ("value", "key"):
        folder = tmp_path / "schemas" / f"orders-{part}"
        folder.mkdir(parents=True)
        number = 1 + (part == "key")
        (folder / f"1-{number}.avsc").write_text(json.dumps({"type": "record", "name": part, "fields": fields}))
    config = load_config(tmp_path / "hub.yaml", {})
    policies = {rule.policy: load_policy(rule.policy) for rule in config.topics}
    found, trouble = newest_schemas(config, policies, {"eu": {"orders": None}})
    assert not trouble
    assert [(one.central, one.path, one.operator) for one in fields_of(found, TODAY)] == [
        ("eu.orders", "id", "keep"),
        ("eu.orders", "mail", "drop"),
        ("eu.orders", "@key.id", "keep"),
        ("eu.orders", "@key.mail", "keep"),
    ]
    assert [one.operator for one in fields_of(found, ENDED) if one.path.startswith("@key")] == ["drop", "drop"]
    (kept,) = keys_of(config, policies, "eu", ["orders", "heartbeats", "other"], TODAY)
    assert (kept.path, kept.type, kept.operator, kept.because) == ("@key", "any", "keep", "key")
    (ended,) = keys_of(config, policies, "eu", ["orders"], ENDED)
    assert (ended.operator, ended.privacy_class) == ("drop", "removed")
