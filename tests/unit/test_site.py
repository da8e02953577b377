"""The documentation's site: it builds strictly, and its made pages hold what they are made of."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from mkdocs.utils.yaml import yaml_load

from aggregator.cli.main import main
from aggregator.errors import ExitCode, Reason
from configs.site.hooks import PAGES, commands, configuration, linked, tree

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "site" / "mkdocs.yml"


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    """No page is left out of the index, and no link leads nowhere."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", str(CONFIG), "-d", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "commands.html", "runbooks/edge-not-up.html"} <= made
    assert "hub.origin" in (tmp_path / "index.html").read_text()


def test_every_page_of_the_project_is_listed():
    """Those of `docs/` and those that are made, each once."""

    def listed(entries):
        for entry in entries:
            (place,) = entry.values()
            yield from listed(place) if isinstance(place, list) else [place]

    pages = list(listed(yaml_load(CONFIG.read_text())["nav"]))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages) == sorted({*there, *PAGES.values(), "commands.md", "configuration.md", "errors.md", "log.md"})


def test_made_pages_hold_what_they_are_made_of():
    """Every command, every exit code and reason, and the full configuration."""
    text = commands()
    for name in main.list_commands(click.Context(main)):
        assert f"## `aggregator {name}`" in text
    assert (ROOT / "configs" / "hub.full.yaml").read_text().rstrip() in configuration()
    assert all(f"* {code.value}: " in tree() for code in ExitCode)
    assert all(f"* `{reason.value}`" in tree() for reason in Reason)


@pytest.mark.parametrize(
    ("link", "source", "page", "made"),
    [
        ("[a](docs/lake.md#x)", "README.md", "index.md", "[a](lake.md#x)"),
        ("[a](../ARCHITECTURE.md#measured)", "docs/speed.md", "speed.md", "[a](architecture.md#measured)"),
        ("[a](../scale.md)", "docs/runbooks/late-edge.md", "runbooks/late-edge.md", "[a](../scale.md)"),
        ("[a](../configs/x.yaml)", "docs/page.md", "page.md", "a (`configs/x.yaml`)"),
        ("[`docs/a.md`](docs/a.md)", "README.md", "index.md", "[`docs/a.md`](a.md)"),
        ("[a](https://b.example/c)", "README.md", "index.md", "[a](https://b.example/c)"),
    ],
)
def test_links_lead_to_pages_of_the_site(link, source, page, made):
    """From wherever the file stands; what is not on the site is named."""
    assert linked(link, source, page) == made
