"""`plan`, `explain`, `policy preview|suggest` and the report on real brokers, before and after a run."""

import json

import jsonschema
import pytest

from tests.trial import Trial

pytestmark = pytest.mark.brokers

CANARY = "@x.example"


def answer(trial: Trial, *arguments: str, expect: int = 0) -> dict:
    """A command's JSON."""
    done = trial.typed(*arguments, "-o", "json")
    assert done.exit_code == expect, done.stderr
    return json.loads(done.stdout)


def test_a_plan_is_what_a_run_does_and_its_report_says_what_it_did(trial):
    """The plan names what is created, the run creates that, nothing is pending after it, and its report's fields,
    totals and dead letters are those of the records; no output holds a value.
    """
    trial.produce("eu", 300)
    trial.produce("us", 100)
    trial.produce_raw("eu", [(b"k", b"\x01poison", 0), (b"k", b"\x00\x00\x00\x27\x10x", 1)])

    plan = answer(trial, "plan", "--detailed-exitcode", expect=3)
    created = {step["topic"] for step in plan["topics"] if (step["cluster"], step["action"]) == ("central", "create")}
    assert {f"eu.{trial.topic}", f"us.{trial.topic}", f"{trial.hub}.ledger"} <= created
    assert [(step["action"], step["subject"]) for step in plan["schemas"]] == [
        ("register", f"eu.{trial.topic}-value"),
        ("register", f"us.{trial.topic}-value"),
    ]
    (table,) = plan["tables"]
    assert (table["action"], table["columns"][-3:]) == ("create", ["id", "customer", "amount"])
    assert {flow["edge"]: flow["waiting_records"] for flow in plan["flows"] if flow["topic"] == trial.topic} == {
        "eu": 302,
        "us": 100,
    }
    there = trial.admin("central").list_topics(timeout=10).topics
    assert not created & there.keys()
    assert not (trial.folder / "central-schemas").exists()
    assert not (trial.folder / "lake").exists()

    trial.drain_here("--report", str(trial.folder / "told"))
    assert created <= trial.admin("central").list_topics(timeout=10).topics.keys()
    assert answer(trial, "plan", "--detailed-exitcode")["pending"] is False

    report = json.loads((trial.folder / "told" / "report.json").read_text())
    jsonschema.validate(report, json.loads(trial.typed("report", "--json-schema").stdout))
    assert {
        one["edge"]: (one["consumed"], one["delivered"], one["dead"])
        for one in report["edges"]
        if one["edge"] in trial.sandbox.edges
    } == {"eu": totals(trial, "eu"), "us": totals(trial, "us")}
    letters = {(one["topic"], one["reason"]): one["count"] for one in report["dead_letters"]}
    assert letters == {(trial.topic, "wrong_magic"): 1, (trial.topic, "unknown_schema"): 1}
    eu, us = report["topics"]
    assert (eu["policy"], eu["policy_version"], eu["key_versions"]) == ("trial", 1, {"customer": 1})
    seen = {one["path"]: (one["operator"], one["seen"], one["transformed"]) for one in eu["fields"] if one["schema_id"]}
    assert seen == {
        "id": ("keep", 300, 0),
        "email": ("drop", 300, 300),
        "customer": ("pseudonymize", 300, 300),
        "amount": ("keep", 300, 0),
    }
    assert {one["seen"] for one in us["fields"] if one["schema_id"]} == {100}
    asked = answer(trial, "report", "--html", str(trial.folder / "page.html"))
    assert asked["topics"] == report["topics"]
    for told in ((trial.folder / "told" / "report.html").read_text(), (trial.folder / "page.html").read_text()):
        assert "still personal data" in told
        assert CANARY not in told

    shown = answer(trial, "policy", "preview", "--edge", "us", "--topic", trial.topic, "--show-values", "--count", "2")
    (email,) = [line for line in shown[0] if line["path"] == "value.email"]
    assert (CANARY in email["before"], email["after"]) == (True, "(gone)")
    found = trial.typed("policy", "suggest", "--edge", "us", "--topic", trial.topic)
    assert "email in 100% of 100 values" in found.stdout
    assert CANARY not in found.output
    everything = answer(trial, "policy", "suggest", "--edge", "us")
    assert [one["topic"] for one in everything] == [trial.topic], (
        "no topic without a rule, and none of the cluster's own"
    )
    explained = answer(trial, "explain", trial.topic)["edges"]
    assert [(one["edge"], one["replicated"]) for one in explained] == [("eu", True), ("us", True)]


def totals(trial: Trial, edge: str) -> tuple[int, int, int]:
    """What the ledger says of an edge, its heartbeats included, by the command that reads it another way."""
    flows = [flow for flow in answer(trial, "status")["flows"] if flow["edge"] == edge]
    delivered, dead = sum(flow["delivered"] for flow in flows), sum(flow["dead"] for flow in flows)
    return delivered + dead, delivered, dead


def test_an_edge_that_does_not_answer_is_shown_and_hides_no_other(trial):
    """Exit 4, the other edge's plan complete, and a topic that is not there is told as such."""
    trial.settings["edges"]["us"]["bootstrap_servers"] = "127.0.0.1:1"
    trial.write()
    plan = answer(trial, "plan", expect=4)
    assert list(plan["unreachable"]) == ["us"]
    assert [flow["edge"] for flow in plan["flows"] if flow["topic"] == trial.topic] == ["eu"]
    missing = trial.typed("policy", "suggest", "--edge", "eu", "--topic", "no-such-topic")
    assert (missing.exit_code, "has no topic no-such-topic" in missing.stderr) == (1, True)
