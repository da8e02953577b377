"""Pages of the site that no file of `docs/` holds: made of the project's own files, of its commands and its errors.

Invariant: nothing is written into the tree. A link to a file that is not on the site becomes the file's name.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator import errors
from aggregator.cli.main import main
from aggregator.cli.terminal.log_codes import CODES
from aggregator.observe.warnings import CODES as STANDING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# By the file's place in the tree: its page on the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'(src|srcset)="docs/')


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages that are made."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests read the rest without it

    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    made |= {"commands.md": commands(), "configuration.md": configuration(), "errors.md": tree(), "log.md": log_lines()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """The page with links that lead to pages of the site."""
    own = page.file.src_uri
    source = next((name for name, made in PAGES.items() if made == own), f"docs/{own}")
    return linked(_IMAGE.sub(r'\1="', markdown), source, own)


def linked(markdown: str, source: str, page: str) -> str:
    """Markdown whose links lead to pages of the site.

    Args:
        markdown: As the file has it.
        source: The file's place in the tree.
        page: Its place on the site.
    """

    def anew(link: re.Match[str]) -> str:
        words, path, anchor = link[1], link[2], link[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in PAGES or target.startswith("docs/"):
            there = PAGES.get(target, target.removeprefix("docs/"))
            return f"[{words}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"
        return words if target in words else f"{words} (`{target}`)"

    return _LINK.sub(anew, markdown)


def commands() -> str:
    """Every command with its help."""
    return "\n".join(["# Commands", "", *_below(main, click.Context(main, info_name="aggregator"))]) + "\n"


def _below(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (f"## `{context.command_path}`", "", "```text", command.get_help(context), "```", "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _below(found, click.Context(found, parent=context, info_name=name))


def configuration() -> str:
    """Both shipped configurations, each key with its comment."""
    parts = ["# Configuration", ""]
    for title, name in (("The smallest one", "hub.smallest.yaml"), ("Every key", "hub.full.yaml")):
        text = (ROOT / "configs" / name).read_text(encoding="utf-8")
        parts += [f"## {title}", "", "```yaml", text.rstrip(), "```", ""]
    return "\n".join(parts)


def tree() -> str:
    """Errors, exit codes and the reasons of dead letters."""
    codes = "\n".join(f"* {one.value}: {one.name.lower().replace('_', ' ')}" for one in errors.ExitCode)
    reasons = "\n".join(f"* `{one.value}`" for one in errors.Reason)
    return (
        f"# Errors\n\n```text\n{errors.__doc__}```\n\n## Exit codes\n\n{codes}\n\n"
        f"[What to do](operate.md)\n\n## Reasons of dead letters\n\n{reasons}\n"
    )


def log_lines() -> str:
    """Every code of the log, with the templates of its lines."""
    lines: dict[str, list[str]] = {}
    for templates in CODES.values():
        for template, code in templates.items():
            lines.setdefault(code, []).append(f"`{template}`" if template != "%s" else "")
    for subject, code in STANDING.items():
        lines.setdefault(code, []).append(f"about a {subject}")
    rows = "\n".join(f"| `{code}` | {'<br>'.join(sorted(filter(None, lines[code])))} |" for code in sorted(lines))
    return f"# Lines of the log\n\n[The log](operate.md#the-log)\n\n| code | says |\n|---|---|\n{rows}\n"
