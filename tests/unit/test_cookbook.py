"""Every recipe of the cookbook, through the strip that the hub runs."""

import json
import re
from pathlib import Path

import pytest
import yaml

from aggregator.privacy.review.fixtures import Fixtures

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "tests/unit/cookbook.avsc"
TODAY = "2026-11-21"
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(yaml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes():
    """Title, rule, record before and after."""
    for title, body in _SECTION.findall((ROOT / "docs/cookbook.md").read_text(encoding="utf-8")):
        blocks = dict(_BLOCK.findall(body))
        if blocks:
            before, after = (json.loads(line) for line in blocks["json"].splitlines())
            yield pytest.param(yaml.safe_load(blocks["yaml"]), before, after, id=title)


@pytest.mark.parametrize(("rule", "before", "after"), list(recipes()))
def test_a_recipe_does_what_it_says(tmp_path, rule, before, after):
    """The whole record, to the letter."""
    policy = {"policy": "cookbook", "version": 1, "tags": {"PII": "drop"}, "topics": {"t": rule}}
    (tmp_path / "cookbook.yaml").write_text(yaml.safe_dump(policy))
    names = {field["name"] for field in json.loads(SCHEMA.read_text())["fields"]}
    expected = {"suppressed": True} if after is None else {"record": after | _left(rule, names - before.keys())}
    case = {"name": "it", "topic": "t", "schema": str(SCHEMA), "record": before, "expect": expected}
    (tmp_path / "cookbook.tests.yaml").write_text(
        yaml.safe_dump({"today": TODAY, "keys": {"customer": KEY}, "tests": [case]})
    )
    assert Fixtures(tmp_path / "cookbook.tests.yaml").run(0) == []


def _left(rule, absent):
    """What a record of the cookbook's schema has beside what a recipe shows: under `default: keep` its empty fields."""
    return dict.fromkeys(absent - {"secret"}) if rule.get("default") == "keep" else {}


def test_there_are_recipes():
    """The page is read as it is written."""
    assert len(list(recipes())) == 14
