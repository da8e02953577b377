"""`policy explain`."""

import json

import pytest
from click.testing import CliRunner

from aggregator.cli.policy.policy import policy
from aggregator.errors import ConfigError

POLICY = """\
policy: retail
version: 3
tags: {PII.ID: {pseudonymize: {key: customer, domain: customer}}}
topics: {orders: {fields: {order_id: keep}}}
"""
SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "order_id", "type": "string"},
    {"name": "customer", "type": "string", "confluent:tags": ["PII.ID"]},
    {"name": "note", "type": ["null", "string"]},
]}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "s.avsc").write_text(json.dumps(SCHEMA))
    return [str(tmp_path / "p.yaml"), "--topic", "orders", "--schema", str(tmp_path / "s.avsc")]


def test_every_field_and_its_rule(files):
    """Each leaf with tags, operator, class and the rule that fired, as JSON and as a table; no key is read."""
    result = CliRunner().invoke(policy, ["explain", *files, "-o", "json"], catch_exceptions=False)
    fields = json.loads(result.stdout)["fields"]
    assert [(field["path"], field["operator"], field["class"], field["because"]) for field in fields] == [
        ("order_id", "keep", "clear", "path order_id"),
        ("customer", "pseudonymize", "pseudonymous", "tag PII.ID"),
        ("note", "drop", "removed", "default"),
    ]
    text = CliRunner().invoke(policy, ["explain", *files], catch_exceptions=False).stdout
    assert "policy retail version 3" in text
    assert "anonymised" not in text


def test_faults_are_named(files, tmp_path):
    """A schema that is none, and a file that is not there."""
    (tmp_path / "s.avsc").write_text("{")
    with pytest.raises(ConfigError, match=r"s\.avsc: writer schema refused"):
        CliRunner().invoke(policy, ["explain", *files], catch_exceptions=False)
    (tmp_path / "s.avsc").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        CliRunner().invoke(policy, ["explain", *files], catch_exceptions=False)


def test_keys_headers_and_conditions_are_told(files, tmp_path):
    """What is no field of a value passes by the policy too, and is shown beside the fields."""
    text = POLICY.replace("fields:", "key: keep, headers: [trace], drop_record: [{edge: [eu]}], fields:")
    (tmp_path / "p.yaml").write_text(text)
    answer = json.loads(CliRunner().invoke(policy, ["explain", *files, "-o", "json"], catch_exceptions=False).stdout)
    assert answer["key"] == {"operator": "keep", "class": "clear", "because": "key"}
    assert (answer["headers"], answer["conditions"]) == (["trace"], 1)
    shown = CliRunner().invoke(policy, ["explain", *files], catch_exceptions=False).stdout
    assert all(line in shown for line in ("key: keep (key)\n", "headers: trace\n", "drop_record: 1 conditions\n"))


def test_json_values_have_no_schema_to_name(files, tmp_path):
    """Their paths are what is known; an Avro topic without `--schema` is a slip of the pen."""
    path, *topic = files[:3]
    assert CliRunner().invoke(policy, ["explain", path, *topic]).exit_code == 2
    (tmp_path / "p.yaml").write_text(POLICY.replace("fields:", "value_format: json, fields:"))
    shown = CliRunner().invoke(policy, ["explain", path, *topic, "-o", "json"], catch_exceptions=False).stdout
    assert [(one["path"], one["type"], one["operator"]) for one in json.loads(shown)["fields"]] == [
        ("order_id", "json", "keep")
    ]


@pytest.mark.parametrize(
    ("topic", "told"),
    [("value_format: text", ("text", "drop")), ("value_format: bytes, value: redact", ("bytes", "redact")),
     ("value_format: text, value: {keep: {reason: r, owner: o, expires: 2026-11-02}}", ("text", "keep"))],
)  # fmt: skip
def test_values_without_parts_are_one_line(tmp_path, topic, told):
    """What becomes of all of it; on the day on which a `keep` ends, nothing is left."""
    (tmp_path / "p.yaml").write_text(f"policy: p\nversion: 1\ntopics: {{log: {{{topic}}}}}\n")
    for day, operator in (("2026-11-01", told[1]), ("2026-11-02", told[1].replace("keep", "drop"))):
        arguments = ["explain", str(tmp_path / "p.yaml"), "--topic", "log", "--today", day, "-o", "json"]
        shown = json.loads(CliRunner().invoke(policy, arguments, catch_exceptions=False).stdout)
        (row,) = shown["fields"]
        assert (row["path"], row["type"], row["operator"]) == (".", told[0], operator)
