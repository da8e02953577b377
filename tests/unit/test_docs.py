"""What the documents say is so: commands exist with these options, included files are there, links lead somewhere."""

import json
import re
from pathlib import Path

import pytest

from aggregator.cli.leaves import leaves
from aggregator.errors import AnotherHub, ConfigError, ExitCode
from aggregator.offsets.translation import Why
from aggregator.schema.avro import parse
from tests.documented_commands import check_command, shown_commands

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "bench" / "results"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *RESULTS.glob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
ALERTS = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")
CONSUMERS = (ROOT / "docs" / "consumers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", shown_commands(README + OPERATE + CONSUMERS + ALERTS), ids=" ".join)
def test_every_command_that_is_shown_exists(words):
    """Each is a command of ours, and takes the options that it is shown with."""
    check_command(words)


def test_the_readme_shows_the_smallest_configuration_as_it_is():
    """The included file and its block are the same text."""
    included = re.findall(r"<!-- include: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert included
    for name, text in included:
        assert text == (ROOT / name).read_text(encoding="utf-8")


def test_every_alert_has_its_runbook():
    """By its own name, in the rules' order, and the alert leads there."""
    rules = (ROOT / "configs" / "alerts" / "aggregator.rules.yaml").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert re.findall(r"^## (\w+)$", ALERTS, re.MULTILINE) == alerts
    assert re.findall(r"runbook: (\S+)", rules) == [f"docs/runbooks/alerts.md#{name.lower()}" for name in alerts]


def test_every_reason_without_a_position_is_explained():
    """Each word of `reason` has its row, and no row another one."""
    table = CONSUMERS.partition("| `reason` |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(one.value for one in Why)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_the_documents_is_there(document):
    """Links and named files of the tree exist; a link is relative to its document."""
    text = document.read_text(encoding="utf-8")
    linked = [document.parent / path for path in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)]
    named = [ROOT / path for path in re.findall(r"`((?:aggregator|tests|configs|schemas|jobs)/(?!\d)[\w./-]+)`", text)]
    named += [ROOT / path for path in re.findall(r"\bpytest (tests/[\w./-]+)", text)]
    assert [str(path) for path in linked + named if not path.exists()] == []


def modules_named(text: str) -> list[str]:
    """Every Python file that a document names in code, in whichever of the ways that documents use."""
    found = []
    for word in re.findall(r"[\w/.{},]+\.py\b", " ".join(re.findall(r"`([^`\n]+)`", text))):
        before, names, after = re.fullmatch(r"([^{]*)(?:\{([\w,]+)\})?(.*)", word).groups()
        found += [f"{before}{name}{after}" for name in (names or "").split(",")]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.slow
def test_every_module_that_a_document_names_is_there(document):
    """By its name alone, or with as many of its folders as tell it apart."""
    files = [
        f"/{path.relative_to(ROOT)}" for room in ("aggregator", "tests", "jobs") for path in (ROOT / room).rglob("*.py")
    ]
    names = modules_named(document.read_text(encoding="utf-8"))
    assert [name for name in names if not any(file.endswith(f"/{name}") for file in files)] == []


def test_the_search_for_modules_finds_what_it_looks_for():
    """Alone, with folders, several of a folder, several in one piece of code."""
    text = "`a.py` and `b/c.py`, `b/{d,e}.py`; `f.py g.py`, `python -m x`, not f.py.\n| `h.py`, and who calls it |"
    assert modules_named(text) == ["a.py", "b/c.py", "b/d.py", "b/e.py", "f.py", "g.py", "h.py"]


def test_the_exit_codes_that_are_told_are_those_of_the_errors():
    """The table has every code but that of an interrupted command; 6 and 78 are those of the error tree."""
    table = [int(code) for code in re.findall(r"^\| (\d+) \|", OPERATE, re.MULTILINE)]
    assert table == sorted(set(ExitCode) - {ExitCode.INTERRUPTED})
    assert (AnotherHub.exit_code, ConfigError.exit_code) == (6, 78)


def test_the_accounts_that_the_readme_shows_add_up():
    """Produced is at central or a dead letter, the lake holds what central holds, and `all` is the sum."""
    block = README.split("<!-- demo -->")[1].split("<!-- /demo -->")[0]
    rows = {
        name: [int(number.replace(",", "")) for number in numbers.split()]
        for name, numbers in re.findall(r"^(\w{3}) +([\d, ]+)$", block, re.MULTILINE)
    }
    assert list(rows) == ["ewr", "jfk", "lga", "all"]
    for produced, central, lake, _stripped, dead in rows.values():
        assert produced == central + dead
        assert lake == central
    assert rows.pop("all") == [sum(column) for column in zip(*rows.values(), strict=True)]


def test_the_booking_that_the_readme_shows_has_the_fields_of_the_schema():
    """All of them, in their order; one that was added to the demo's schema is missing there otherwise."""
    schema = json.loads((ROOT / "schemas" / "bookings-value" / "1-2.avsc").read_text(encoding="utf-8"))
    shown = [path.replace("[0]", "[]") for path in re.findall(r"^value\.(\S+)", README, re.MULTILINE)]
    assert shown == [leaf.path for leaf in leaves(parse(json.dumps(schema)))]


SECTIONS = ["Upgrade", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_changelog_has_the_sections_of_a_changelog():
    """Each version has what an upgrade asks for first, then Keep a Changelog's sections, in their order and once."""
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = [re.findall(r"^### (.+)$", version, re.MULTILINE) for version in versions]
    assert found
    assert found == [[name for name in SECTIONS if name in names] for names in found]
