"""The document about the page: its commands exist, its links lead somewhere, its settings can be used."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from aggregator.config.model import UiConfig
from tests.documented_commands import check_command, shown_commands

PAGE = Path(__file__).resolve().parents[3] / "docs" / "page.md"
PICTURE_BYTES = 150_000


@pytest.mark.parametrize("words", shown_commands(PAGE.read_text()), ids=" ".join)
def test_every_command_of_the_document_exists(words):
    """Each is a command of ours, and takes the options that it is shown with."""
    check_command(words)


def test_every_link_leads_somewhere():
    """Relative links name files of the tree."""
    targets = re.findall(r"\]\(([^)#:]+)\)", PAGE.read_text())
    assert targets
    assert [target for target in targets if not (PAGE.parent / target).exists()] == []


def test_the_settings_can_be_used():
    """The block is a `ui:` section as the configuration takes it."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert UiConfig.model_validate(dict(YAML(typ="safe").load(block)["ui"])).token is not None


def test_the_pictures_are_small():
    """A README that shows them loads quickly."""
    pictures = list((PAGE.parent / "images").glob("*.png"))
    assert pictures
    assert [path.name for path in pictures if path.stat().st_size > PICTURE_BYTES] == []
