"""One version, by a release's tag: package, chart and changelog agree, and after a release the next one is named."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.release.versions import departures

ROOT = Path(__file__).parents[2]


def tags(*where: str) -> list[str]:
    """Tags of releases; a checkout without its history has none."""
    asked = subprocess.run(  # noqa: PLW1510 - a checkout without git has no tags
        ["git", "tag", *where, "--list", "v[0-9]*"], cwd=ROOT, capture_output=True, text=True
    )
    return asked.stdout.split()


def test_this_commit_is_what_its_tag_says():
    """Or, without one, it names a version that nobody has released."""
    chart = YAML(typ="safe").load((ROOT / "configs" / "helm" / "aggregator" / "Chart.yaml").read_text(encoding="utf-8"))
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    said = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "Chart.yaml, version": chart["version"],
        "Chart.yaml, appVersion": chart["appVersion"],
        "CHANGELOG.md": heading[1],
    }
    here = tags("--points-at", "HEAD")
    assert list(departures(said, here, set(tags("--merged", "HEAD")) - set(here))) == []


SAID = {"pyproject.toml": "1.2.0", "Chart.yaml": "1.2.0", "CHANGELOG.md": "1.2.0"}


@pytest.mark.parametrize(
    ("said", "here", "earlier", "told"),
    [
        ({}, ["v1.2.0"], ["v1.1.0"], []),
        ({"CHANGELOG.md": "1.2.0 (not released yet)"}, [], ["v1.1.0", "v1.1.9"], []),
        ({"Chart.yaml": "1.1.0"}, [], [], ["Chart.yaml says 1.1.0, pyproject.toml 1.2.0"]),
        ({}, ["v1.3.0"], [], ["the tag is v1.3.0, the version 1.2.0"]),
        (
            {"CHANGELOG.md": "1.2.0 (not released yet)"},
            ["v1.2.0"],
            [],
            ["CHANGELOG.md says `1.2.0 (not released yet)`, and v1.2.0 is released"],
        ),
        ({}, [], ["v1.2.0"], ["v1.2.0 is released: give pyproject.toml the next version"]),
        ({}, [], ["v1.10.0"], ["v1.10.0 is released: give pyproject.toml the next version"]),
    ],
)
def test_what_departs_is_named(said, here, earlier, told):
    """A forgotten chart, a tag of another version, a changelog that says otherwise, a release that was not followed."""
    assert list(departures(SAID | said, here, earlier)) == told
