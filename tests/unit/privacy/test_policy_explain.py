"""`policy explain`."""

import json

import pytest
from click.testing import CliRunner

from aggregator.cli.policy import policy
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
    with pytest.raises(ConfigError, match="can not be read"):
        CliRunner().invoke(policy, ["explain", *files], catch_exceptions=False)
