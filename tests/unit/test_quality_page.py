"""`docs/quality.md` tells the gate as it is: what can divert, what the shipped files are, and its example loads."""

import json
import re
from pathlib import Path

from aggregator.config.suites import DIVERTIBLE, load_suite
from aggregator.lake.quality.conditions import DETECTORS
from aggregator.lake.quality.split import RULES, TOPIC_ID

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")


def test_the_list_of_what_can_divert_is_the_list():
    """A short form like `…_to_equal` stands for the name before it with another ending."""
    section = PAGE.partition("## What can divert")[2].partition("\nAny other")[0]
    told = set()
    for row in re.findall(r"^\| (`expect.*?) \|", section, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        stem = first[: first.index("_to_")]
        told |= {first, *(other.replace("…", stem) for other in others)}
    assert told == DIVERTIBLE


def test_the_example_is_a_suite(tmp_path):
    """Whoever copies it gets what the page says."""
    text, *_ = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "s.json").write_text(text)
    suite = load_suite(tmp_path / "s.json", "divert")
    assert [(rule.name, rule.view, rule.action) for rule in suite.rules] == [
        ("orders/quantities are positive", "line", "divert"),
        ("orders/expect_column_values_to_be_in_set(label.key)", "label", "warn"),
    ]
    assert json.loads(text)["meta"]["aggregator"]["views"] == suite.views


def test_names_that_the_page_tells_are_there():
    """Files, columns and detectors."""
    for path in re.findall(r"`(configs/[\w./-]+)`", PAGE):
        assert (ROOT / path).is_file()
    assert {RULES, TOPIC_ID} <= set(re.findall(r"`(_\w+)`", PAGE))
    assert all(f"`{name}`" in PAGE for name in DETECTORS)
