"""The report: sums over slots, the contract of its JSON, the page, and the words that are never said."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

import aggregator.report.report as report_module
from aggregator.coordinates import EdgePartition
from aggregator.observe.fields import FieldFeed
from aggregator.report.page import report_page
from aggregator.report.report import compose, json_schema
from aggregator.report.writer import write_report
from aggregator.state.ledger import LedgerRecord

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>&\"'"
CLASSES = ("clear", "reversible", "pseudonymous", "irreversible", "removed")


def body(**changes):
    """One record of telemetry."""
    rows = [[7, "email", "string", ["PII"], "tag PII", "drop", "removed", 10, 2, 8, 0, False]]
    word = {"v": 1, "kind": "fields", "life": "a", "at_ms": 1000, "edge": "eu", "topic": "orders", "number": 1}
    said = {"part": 0, "parts": 1, "policy": ["retail", 3, "ab12"], "keys": {"customer": 2}, "rows": rows}
    return json.dumps(word | said | changes).encode()


def fed(*values):
    """A feed that has taken these."""
    feed = FieldFeed()
    for value in values:
        feed.ingest(value)
    return feed


def counts(feed):
    """(seen, null, transformed, rejected) of every field."""
    return {one.row.path: one[1:] for topic in feed.topics().values() for one in topic.fields}


def test_a_field_is_unclassified_by_the_policy_in_force_alone():
    """Whoever names it ends the alert with the next records, whatever a former policy left open; counts stay."""
    open_row = [7, "badge", "string", [], "default", "drop", "removed", 10, 0, 10, 0, True]
    named = [7, "badge", "string", [], "path badge", "drop", "removed", 5, 0, 5, 0, False]
    feed = fed(body(rows=[open_row]), body(rows=[named], life="b", at_ms=2000, policy=["retail", 4, "cd34"]))
    for _ in range(2):
        (topic,) = feed.topics().values()
        assert not any(one.row.unclassified for one in topic.fields)
        assert sum(one.seen for one in topic.fields) == 15
        feed.settle(500)
    later = fed(body(rows=[open_row]), body(rows=[open_row], life="b", at_ms=2000))
    assert [one.row.unclassified for topic in later.topics().values() for one in topic.fields] == [True]


def a_report(rows=None, letters=None):
    """A report of one topic with a row of every class, or with the given rows."""
    every = [
        [7, f"f-{name}", "string", ["PII"], "path x", "some", name, 10, 1, 9, 0, False] for name in CLASSES
    ]  # fmt: skip
    every.append([None, "", "long", [], "default", "drop", "removed", 3, 0, 3, 2, True])
    feed = fed(body(rows=rows or every))
    ledger = {
        EdgePartition("eu", "orders", 0): LedgerRecord(0, "id", 9, 1, 0, 7, 2, 1, 30),
        EdgePartition("eu", "orders", 1): LedgerRecord(0, "id", 9, 1, 0, 1, 0, 0, 3),
    }
    found = letters or Counter({("eu", "orders", "undecodable"): 2})
    return compose("demo", ["eu", "us"], ledger, feed.topics(), found, since=NOW, made_at=NOW)


def test_counters_of_one_life_replace_each_other_and_those_of_several_add_up():
    """A slot tells sums since its start; another slot, or the same one after a crash, begins anew."""
    row = [7, "email", "string", ["PII"], "tag PII", "drop", "removed", 30, 5, 25, 1, False]
    feed = fed(body(), body(number=2, rows=[row]), body(life="b", at_ms=500))
    assert counts(feed) == {"email": (40, 7, 33, 1)}
    assert feed.since_ms == 500


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b'{"v": 1, "slot": 0}', b'{"kind": "fields"}', b'["fields"]', body(parts=2), body(rows=[[1, 2]])],
)
def test_what_is_no_word_of_ours_changes_nothing(value):
    """Other telemetry, half of a word, another version's: the report goes on with what it has."""
    assert counts(fed(body(), value)) == {"email": (10, 2, 8, 0)}


def test_edges_add_up():
    """Consumed is delivered, dead and suppressed over all partitions; an edge without a flow has zeroes."""
    eu, us = a_report().edges
    assert (eu.consumed, eu.delivered, eu.dead, eu.suppressed, eu.stripped_values) == (11, 8, 2, 1, 33)
    assert us.consumed == 0


def test_fields_without_a_rule_have_a_list_of_their_own():
    """What neither a tag nor a path speaks of is named, with what happened to it."""
    (one,) = a_report().unclassified
    assert (one.edge, one.topic, one.path, one.operator) == ("eu", "orders", ".", "drop")


def test_the_json_is_what_its_schema_says():
    """The published schema is the models', accepts a report, and refuses a name too many or a count below 0."""
    published = (Path(report_module.__file__).parent / "report.schema.json").read_text(encoding="utf-8")
    assert published == json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"
    schema = json.loads(published)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    plain = a_report().plain()
    check.validate(plain)
    for wrong in (plain | {"more": 1}, plain | {"v": 2}, plain | {"dead_letters_read": -1}):
        assert not check.is_valid(wrong)


def test_what_is_still_personal_data_is_told_so():
    """Tokens and ciphertexts are personal data, and no output says the word that would deny it."""
    report = a_report()
    left = {one.privacy_class: one.left for one in report.topics[0].fields}
    assert [name for name in CLASSES if "still personal data" in left[name]] == ["reversible", "pseudonymous"]
    for told in (json.dumps(report.plain()), report_page(report), json.dumps(json_schema())):
        assert not re.search("anonym", told, re.IGNORECASE)
    assert "still personal data" in report_page(report)


class Page(HTMLParser):
    """Collects elements, attributes and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = Counter(), [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone_and_escapes_what_others_named():
    """No script, no address, nothing to load; a field that is called like a script is shown as text."""
    hostile = [[7, HOSTILE, HOSTILE, [HOSTILE], HOSTILE, "drop", "removed", 1, 0, 1, 0, True]]
    page = Page(report_page(a_report(hostile, Counter({("eu", HOSTILE, HOSTILE): 1}))))
    assert not {"script", "link", "img", "iframe", "a"} & page.tags.keys()
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert page.text.count(HOSTILE) == 8
    assert "://" not in report_page(a_report())
    assert "prefers-color-scheme: dark" in page.text


def test_the_page_shows_every_number_of_the_json():
    """Reader of either see the same: totals, fields, dead letters, policy and key versions."""
    text = Page(report_page(a_report())).text
    for piece in ("11", "33", "f-pseudonymous", "undecodable", "retail version 3", "ab12", "customer version 2"):
        assert piece in text
    empty = report_page(compose("h", [], {}, {}, Counter(), since=None, made_at=NOW))
    assert "No field was told yet" in empty


def test_files_are_replaced_whole(tmp_path):
    """JSON and page lie beside each other, and nothing else stays in the folder."""
    for _ in range(2):
        write_report(a_report(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    assert json.loads((tmp_path / "report.json").read_text()) == a_report().plain()
