"""The pages about backfills: their commands exist, their links lead somewhere, their reasons are the real ones."""

import re
from pathlib import Path

import pytest

from aggregator.errors import Reason
from tests.documented_commands import check_command, shown_commands

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [DOCS / "backfill.md", *sorted((DOCS / "runbooks").glob("*.md"))]


@pytest.mark.parametrize("words", shown_commands("\n".join(page.read_text() for page in PAGES)), ids=" ".join)
def test_every_command_of_the_pages_exists(words):
    """Each is a command of ours, and takes the options that it is shown with."""
    check_command(words)


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
