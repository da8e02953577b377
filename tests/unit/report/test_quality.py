"""The report on the quality gate: sums of the history, as JSON, as text and as a page."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from aggregator.cli.lake.lake import lake
from aggregator.lake.quality.verdict_log import CommitAudit, RuleCount, append_audit, append_commit
from aggregator.lake.quality.verdicts import Verdict
from aggregator.lake.storage.folder import Folder
from aggregator.report.quality import QualityReport, table_quality
from aggregator.report.quality_page import quality_page

NAME = "s/<b>cabins & seats</b>"


def audit(number, verdict, *, unexpected=0, raised=False):
    """One audit of ten records."""
    passed = not unexpected and not raised
    rule = RuleCount(NAME, "expect_column_values_to_be_in_set", "cabin", "", "divert", passed, raised, 10, unexpected)
    return CommitAudit(
        f"id{number}", number * 1000, "orders", verdict, 10, unexpected, (("t", 0, 0, 10),), {"s": "f"}, (rule,), 0.5
    )


@pytest.fixture
def config(tmp_path):
    """A hub whose lake has a history."""
    (tmp_path / "p.yaml").touch()
    (tmp_path / "hub.yaml").write_text(
        json.dumps(
            {
                "hub": "h",
                "central": {"bootstrap_servers": "127.0.0.1:1"},
                "edges": {},
                "schemas": "directory:s",
                "topics": [{"match": "orders", "policy": "p.yaml", "lake": "orders"}],
                "lake": {"path": "lake"},
            }
        )
    )
    first = audit(1, Verdict.DIVERT, unexpected=3)
    append_audit(Folder(str(tmp_path / "lake")), first)
    append_commit(Folder(str(tmp_path / "lake")), replace(first, version=4, commit_s=0.25))
    append_audit(Folder(str(tmp_path / "lake")), audit(2, Verdict.HOLD, raised=True))
    return tmp_path / "hub.yaml"


def test_rules_are_summed_over_audits():
    """How often a rule saw a commit, failed, raised, and how many values."""
    audits = [audit(1, Verdict.PUBLISH), audit(2, Verdict.DIVERT, unexpected=3), audit(3, Verdict.HOLD, raised=True)]
    found = table_quality("orders", audits)
    (rule,) = found.rules
    assert (rule.audits, rule.failed, rule.raised, rule.evaluated, rule.unexpected) == (3, 2, 1, 30, 3)
    assert [one.id for one in found.audits] == ["id3", "id2", "id1"]


@pytest.mark.slow
def test_the_command_tells_json_text_and_a_page(config):
    """Without a broker: only the history is read. Names of others are escaped in the page."""
    page = config.parent / "page.html"
    done = CliRunner().invoke(lake, ["quality", "--config", str(config), "-o", "json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(done.stdout)["tables"]
    assert (table["table"], table["verdicts"], table["diverted"]) == ("orders", {"divert": 1, "hold": 1}, 3)
    assert [one["verdict"] for one in table["audits"]] == ["hold", "divert"]
    assert [one["version"] for one in table["audits"]] == [None, 4]
    text = page.read_text()
    assert "&lt;b&gt;cabins &amp; seats&lt;/b&gt;" in text
    assert "<b>" not in text
    assert "<script" not in text
    shown = CliRunner().invoke(lake, ["quality", "orders", "--config", str(config)])
    assert "orders: divert 1, hold 1; diverted 3; gate 1.0 s, commits 0.2 s" in shown.stdout
    none = CliRunner().invoke(lake, ["quality", "others", "--config", str(config)])
    assert "no table has a suite" in none.stdout


def test_a_page_without_tables_says_so():
    """An empty report is no empty page."""
    assert "No table has been audited" in quality_page(QualityReport("h", datetime(2026, 1, 1, tzinfo=UTC), 7, ()))
