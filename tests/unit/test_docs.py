"""What the documents say is so: commands exist with these options, included files are there, links lead somewhere."""

import re
from pathlib import Path

import pytest

from aggregator.errors import AnotherHub, ConfigError
from tests.shown import check_command, shown_commands

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", shown_commands(README + OPERATE), ids=" ".join)
def test_every_command_that_is_shown_exists(words):
    """Each is a command of ours, and takes the options that it is shown with."""
    check_command(words)


def test_the_readme_shows_the_smallest_configuration_as_it_is():
    """The included file and its block are the same text."""
    included = re.findall(r"<!-- include: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert included
    for name, text in included:
        assert text == (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_the_documents_is_there(document):
    """Links and named files of the tree exist; a link is relative to its document."""
    text = document.read_text(encoding="utf-8")
    linked = [document.parent / path for path in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)]
    named = [ROOT / path for path in re.findall(r"`((?:aggregator|tests|configs|schemas|jobs)/(?!\d)[\w./-]+)`", text)]
    assert [str(path) for path in linked + named if not path.exists()] == []


def test_the_exit_codes_that_are_told_are_those_of_the_errors():
    """6 and 78 in the table are the codes of the error tree."""
    table = re.findall(r"^\| (\d+) \|", OPERATE, re.MULTILINE)
    assert {str(AnotherHub.exit_code), str(ConfigError.exit_code), "0", "1", "3", "4", "5"} == set(table)
