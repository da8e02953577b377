"""`plan`, `explain` and `report` without a cluster: what they say of a hub that cannot be reached, and usage."""

import json

import jsonschema
import pytest

from aggregator.plan.run_plan import HubPlan
from aggregator.replicate.discovery.topic_settings import Drift, DriftAction

HUB = """\
hub: demo
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu: {bootstrap_servers: "127.0.0.1:2", schemas: "directory:schemas"}
  us: {bootstrap_servers: "127.0.0.1:3", schemas: "directory:nowhere"}
schemas: "directory:central"
topics:
  - {match: other, policy: p.yaml}
  - {match: "orders|pay", policy: p.yaml, lake: "{topic}", central: "all.{topic}"}
  - {match: "only", policy: p.yaml, edges: [us]}
lake: {path: lake}
"""
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "note", "type": "string"}],
}


@pytest.fixture
def hub(tmp_path):
    """A configuration whose clusters are not there."""
    (tmp_path / "p.yaml").write_text("policy: p\nversion: 2\ntopics: {orders: {headers: [a], fields: {id: keep}}}\n")
    (tmp_path / "schemas" / "orders-value").mkdir(parents=True)
    (tmp_path / "schemas" / "orders-value" / "1-1.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "hub.yaml").write_text(HUB)
    return tmp_path / "hub.yaml"


def explained(aggregator, hub, topic, *more):
    """The answer by edge."""
    result = aggregator("explain", topic, "--config", hub, "-o", "json", *more)
    assert result.exit_code == 0, result.output
    return {one["edge"]: one for one in json.loads(result.stdout)["edges"]}


@pytest.mark.slow
def test_a_topic_is_explained_even_while_its_edge_is_away(aggregator, hub):
    """Rule, destination, table, policy and the fate of each field; what is not known is told as such."""
    found = explained(aggregator, hub, "orders")
    eu = found["eu"]
    assert (eu["exists"], eu["replicated"], eu["rule"]) == (None, False, "2: orders|pay")
    assert (eu["central"], eu["lake"], eu["key"], eu["headers"]) == ("all.orders", "orders", "drop", ["a"])
    assert "the edge does not answer" in eu["why"]
    assert [(one["path"], one["operator"]) for one in eu["fields"]] == [("id", "keep"), ("note", "drop")]
    assert "registry" in found["us"]["trouble"]
    (hub.parent / "p.yaml").write_text(
        "policy: p\nversion: 2\ntopics: {pay: {value_format: json, fields: {id: keep}}}\n"
    )
    assert [one["path"] for one in explained(aggregator, hub, "pay")["eu"]["fields"]] == ["id"]
    (hub.parent / "p.yaml").write_text("policy: p\nversion: 2\ntopics: {pay: {value_format: text, value: redact}}\n")
    (whole,) = explained(aggregator, hub, "pay")["eu"]["fields"]
    assert (whole["path"], whole["type"], whole["operator"]) == (".", "text", "redact")
    text = aggregator("explain", "orders", "--config", hub, "--edge", "eu").stdout
    assert "eu/orders: would be replicated: the rule is the first" in text
    assert "eu/none: not replicated" in aggregator("explain", "none", "--config", hub, "--edge", "eu").stdout
    assert "us/" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("__consumer_offsets", "internal topics are never replicated"),
        ("orders2", "no rule's `match` is its whole name"),
        ("only", "one does on us"),
        ("heartbeats", "heartbeats are checked and replicated without a rule"),
    ],
)
def test_a_topic_that_no_rule_wants_is_told_why(aggregator, hub, topic, why):
    """Internal, unmatched, of another edge, or the heartbeats."""
    assert why in explained(aggregator, hub, topic, "--edge", "eu")["eu"]["why"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("explain", "no topic"), 2, "no topic can have this name"),
        (("explain", "orders", "--edge", "xx"), 2, "there are eu, us"),
        (("explain", "orders", "--config", "{}/no.yaml"), 78, "no.yaml: cannot be read"),
        (("plan", "--config", "{}/no.yaml"), 78, "no.yaml: cannot be read"),
        (("report", "--config", "{}/no.yaml"), 78, "no.yaml: cannot be read"),
        (("plan", "--confirm", "unbounded"), 2, "--confirm says what --apply may carry over"),
        (("plan", "--apply", "--confirm", "all"), 2, "unbounded"),
        (("run", "--only", "lake", "--report", "{}/r"), 2, "the lake strips nothing"),
        (("run", "--report", "{}/hub.yaml"), 2, "is a file"),
    ],
)
def test_wrong_calls_are_refused(aggregator, hub, arguments, code, told):
    """Usage ends with 2, a configuration that is not there with 78."""
    more = () if "--config" in arguments else ("--config", hub)
    result = aggregator(*(one.format(hub.parent) for one in arguments), *more)
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr


def test_what_apply_carried_over_is_pending_no_more():
    """Only a setting differs: pending before, nothing left to make after; what keeps for ever is not pending."""

    def planned(action, edge="9"):
        drift = Drift("orders", "retention.ms", "5", edge, ("eu",), action, "why")
        return HubPlan("h", {}, (), (), (), (), (), (drift,))

    assert (planned(DriftAction.CHANGE).pending, planned(DriftAction.CHANGE).makes) == (True, False)
    unbounded = planned(DriftAction.UNBOUNDED, "-1")
    assert (unbounded.pending, unbounded.changes()) == (False, {})
    assert unbounded.changes(unbounded=True) == {"orders": {"retention.ms": "-1"}}


@pytest.mark.parametrize("command", ["plan", "report"])
@pytest.mark.slow
def test_without_central_there_is_nothing_to_say(aggregator, hub, command):
    """Exit 1 with a sentence, within the time-out."""
    result = aggregator(command, "--config", hub)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no broker answers at 127.0.0.1:1" in result.stderr


def test_a_plan_refuses_every_fault_of_the_configuration_at_once(aggregator, hub):
    """As `config lint` does, and before anybody is asked."""
    hub.write_text(f"{HUB}keys: {{a: file:a.key, b: file:b.key}}\n")
    result = aggregator("plan", "--config", hub)
    assert result.exit_code == 78
    for key in "ab":
        assert f"keys.{key}: there is no file" in result.stderr


def test_the_schema_of_the_report_needs_no_hub(aggregator):
    """`report --json-schema` prints a JSON Schema and reads no configuration."""
    result = aggregator("report", "--json-schema", "--config", "nowhere.yaml")
    assert result.exit_code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(result.stdout))
