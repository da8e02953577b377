"""The pages about backfills: their commands exist, their links lead somewhere, their reasons are the real ones."""

import re
import shlex
from pathlib import Path

import click
import pytest

from aggregator.cli.main import main
from aggregator.errors import Reason

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [DOCS / "backfill.md", *sorted((DOCS / "runbooks").glob("*.md"))]


def commands() -> list[list[str]]:
    """Every `aggregator …` line of a shell block, without its comment."""
    blocks = [block for page in PAGES for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)]
    blocks = [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]
    lines = [shlex.split(line.partition(">")[0], comments=True) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["aggregator"]]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_of_the_pages_exists(words):
    """Each is a command of ours, and takes the options that it is shown with."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.split("=")[0] for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    """Relative links name files of the tree."""
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_runbook_knows_every_reason():
    """Whoever finds a letter finds its reason; heartbeats are the hub's own and have no producer to mend."""
    page = (DOCS / "runbooks" / "poisoned-producer.md").read_text()
    told = {code for row in re.findall(r"^   \| (`.*?) \|", page, re.MULTILINE) for code in re.findall(r"`(\w+)`", row)}
    assert told == {reason.value for reason in Reason} - {Reason.BAD_HEARTBEAT.value}
