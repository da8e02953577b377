"""Makes the HTML document that all report pages share. It loads nothing, runs nothing, and is readable on paper and in
dark mode.

Invariants: every text of a cell or a heading is escaped. There is no script and no address.
"""

from collections.abc import Container, Sequence
from datetime import UTC, datetime
from html import escape

from aggregator.escapes import visible

_STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --soft: #5b6470; --bad: #a4262c; --warn: #8a5a00; --good: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3b424c; --soft: #9aa4b1; --bad: #ff8b8b; --warn: #f0b95a; --good: #6fd3ac; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media print { body { max-width: none; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, said: str, main: str, *, style: str) -> str:
    """A whole page of HTML.

    Args:
        title: Text of the heading and of the window's title.
        said: HTML between the heading and the rest.
        main: HTML of the page's main part.
        style: CSS rules beyond those of every page.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(title)}</title>
<style>{_STYLE}{style}</style>
</head>
<body>
<h1>{escaped(title)}</h1>
{said}
<main>
{main}
</main>
</body>
</html>
"""


def moment(when: datetime) -> str:
    """Format a time as UTC, to the second."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def grid(names: Sequence[str], numbers: Container[int], body: str) -> str:
    """A table that scrolls by itself; the headings of the columns `numbers` stand above numbers."""
    mark = ' class="n"'
    heads = "".join(
        f'<th scope="col"{mark if at in numbers else ""}>{escaped(name)}</th>' for at, name in enumerate(names)
    )
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def row(cells: Sequence[str | int | None]) -> str:
    """A row of an HTML table."""
    return f"<tr>{''.join(map(cell, cells))}</tr>"


def escaped(text: str) -> str:
    """Text as HTML shows it, in signs where a terminal that prints the file would obey it."""
    return escape(visible(text))


def cell(content: str | int | None, mark: str = "") -> str:
    """A word, a number, or a number that nobody knows; `mark` is a class of the page's style."""
    if isinstance(content, str):
        return f'<td class="{mark}">{escaped(content)}</td>' if mark else f"<td>{escaped(content)}</td>"
    shown = "-" if content is None else f"{content:,}"
    return f'<td class="n {mark}">{shown}</td>' if mark else f'<td class="n">{shown}</td>'
