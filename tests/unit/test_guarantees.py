"""The table of who tells when a guarantee is broken: a row for each sentence, and each cell names what exists."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from aggregator.lake.status import TableStatus
from aggregator.observe.hub_status import EdgeStatus, FlowStatus, HubStatus
from aggregator.replicate.identity.clusters import Identity

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
HEADS = ("sentence", "`status`", "page", "alert", "`audit`")
# Lists of a status, and what each of their rows has.
ROWS = {"edges": EdgeStatus, "flows": FlowStatus, "lake": TableStatus, "clusters": Identity}
AUDITED = {"missing", "doubled", "unexplained", "held", "restated"}
PAGE = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "aggregator" / "page").rglob("*.html"))


def sentences() -> list[str]:
    """The words in bold with which each guarantee begins."""
    return re.findall(r"^\* \*\*([^*]+?)[.:]?\*\*", TEXT.partition("\n## ")[0], re.MULTILINE)


def table() -> dict[str, dict[str, str]]:
    """The table, by sentence and by column."""
    lines = [line for line in TEXT.partition("## Who tells")[2].split("\n") if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert tuple(head) == HEADS
    return {row[0]: dict(zip(HEADS, row, strict=True)) for row in rows}


def names(cell: str) -> list[str]:
    """What a cell names."""
    return re.findall(r"`([^`]+)`", cell)


def alerts() -> dict[str, str]:
    """The expression of each alert."""
    rules = YAML(typ="safe").load((ROOT / "configs" / "alerts" / "aggregator.rules.yaml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}


def test_each_sentence_has_a_row():
    """A guarantee that is added says who tells when it is broken."""
    assert sentences()
    assert list(table()) == sentences()


@pytest.mark.parametrize("row", table().values(), ids=lambda row: row["sentence"])
def test_each_cell_names_what_exists(row):
    """Keys of `status -o json`, headings of the page, alerts, words of the audit; or it is said that nobody tells."""
    for name in names(row["`status`"]):
        outer, _, inner = name.partition(".")
        assert outer in {one.name for one in fields(HubStatus)}, name
        inside = ROWS.get(outer)
        own = set(getattr(inside, "_fields", ())) or {one.name for one in fields(inside)} if inside else set()
        assert not inner or inner in own, name
    for name in names(row["page"]):
        assert re.search(rf"<h2[^>]*>{name}\b", PAGE), name
    for name in names(row["alert"]):
        assert name in alerts(), name
    assert set(names(row["`audit`"])) <= AUDITED
    assert names(row["alert"]) or names(row["`audit`"]) or row["`audit`"].startswith("nobody: ")


def test_the_words_of_the_audit_are_its_own():
    """What the table may say of it is what its code says."""
    said = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "aggregator" / "audit").glob("*.py"))
    assert {word for word in AUDITED if f'"{word}"' not in said} == set()
