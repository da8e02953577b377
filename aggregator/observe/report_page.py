"""The report as one HTML page: nothing to load, nothing to run, readable on paper, in the dark and without a mouse.

Invariants: every text is escaped, because names of fields, tags and topics are other people's; no script, no address.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from aggregator.observe.report import EdgeTotals, FieldReport, Report, TopicReport

_STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --soft: #5b6470; --bad: #a4262c; --warn: #8a5a00; --open: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3b424c; --soft: #9aa4b1; --bad: #ff8b8b; --warn: #f0b95a; --open: #6fd3ac; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.notice { border-left: 4px solid var(--warn); padding-left: .7rem; margin: 1rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.path { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.clear { color: var(--open); } .personal { color: var(--warn); } .lost { color: var(--bad); font-weight: 600; }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0; }
@media print { details { break-inside: avoid; } body { max-width: none; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_PERSONAL = ("pseudonymous", "reversible")


def report_page(report: Report) -> str:
    """The whole page."""
    since = f"Fields counted since {_time(report.fields_since)}." if report.fields_since else "No field was told yet."
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(report.hub)}: what was stripped</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(report.hub)}: what was stripped</h1>
<p class="soft">Made {_time(report.made_at)}. {since}</p>
<p class="notice">{escape(report.notice)}</p>
<main>
{_edges(report.edges)}
{_unclassified(report)}
{_letters(report)}
{"".join(map(_topic, report.topics))}
</main>
</body>
</html>
"""


def _time(when: datetime) -> str:
    return escape(f"{when:%Y-%m-%d %H:%M:%S} UTC")


def _edges(edges: Sequence[EdgeTotals]) -> str:
    rows = [(one.edge, one.consumed, one.delivered, one.dead, one.suppressed, one.stripped_values) for one in edges]
    heads = ("edge", "consumed", "delivered", "dead letters", "suppressed", "stripped values")
    said = "<p class='soft'>Since the hub's first start. Consumed = delivered + dead letters + suppressed.</p>"
    return f"<h2>Records by edge</h2>{said}{_table(heads, rows)}"


def _unclassified(report: Report) -> str:
    if not report.unclassified:
        return "<h2>Fields without a rule</h2><p>None: a tag or a path of the policy speaks of every field.</p>"
    rows = [
        (one.edge, one.topic, _schema(one.schema_id), one.path, one.type, one.operator) for one in report.unclassified
    ]
    said = "<p>Neither a tag nor a path of the policy speaks of these; the default decided.</p>"
    table = _table(("edge", "topic", "schema", "path", "type", "what happens"), rows)
    return f"<h2>Fields without a rule</h2>{said}{table}"


def _letters(report: Report) -> str:
    if not report.dead_letters:
        return "<h2>Dead letters</h2><p>None.</p>"
    rows = [(one.edge, one.topic, one.reason, one.count) for one in report.dead_letters]
    return f"<h2>Dead letters</h2>{_table(('edge', 'topic', 'reason', 'records'), rows)}"


def _topic(topic: TopicReport) -> str:
    keys = ", ".join(f"{name} version {version}" for name, version in sorted(topic.key_versions.items())) or "none"
    head = f"{escape(topic.edge)} / {escape(topic.topic)}"
    said = f"Policy {topic.policy} version {topic.policy_version}, hash {topic.policy_hash}. Keys: {keys}."
    names = (
        "schema",
        "path",
        "type",
        "tags",
        "operator",
        "what is left",
        "rule",
        "seen",
        "null",
        "changed",
        "rejected",
    )
    body = "".join(map(_field, topic.fields))
    return f"""<details open><summary>{head}</summary>
<p class="soft">{escape(said)}</p>
<div class="scroll"><table><thead><tr>{_heads(names, 7)}</tr></thead><tbody>{body}</tbody></table></div>
</details>
"""


def _field(one: FieldReport) -> str:
    mark = "clear" if one.privacy_class == "clear" else "personal" if one.privacy_class in _PERSONAL else ""
    words = [_cell(_schema(one.schema_id)), _cell(one.path, "path"), _cell(one.type), _cell(", ".join(one.tags))]
    words += [_cell(one.operator), _cell(one.left, mark), _cell(one.rule)]
    numbers = [_cell(one.seen), _cell(one.null), _cell(one.transformed)]
    return f"<tr>{''.join([*words, *numbers, _cell(one.rejected, 'lost' if one.rejected else '')])}</tr>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    kept = list(rows)
    words = next((at for at, cell in enumerate(kept[0]) if isinstance(cell, int)), len(heads)) if kept else len(heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in kept)
    return (
        f'<div class="scroll"><table><thead><tr>{_heads(heads, words)}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _heads(names: Sequence[str], words: int) -> str:
    """Headings; from the first number on they stand above numbers."""
    numbers = ' class="n"'
    return "".join(
        f'<th scope="col"{numbers if at >= words else ""}>{escape(name)}</th>' for at, name in enumerate(names)
    )


def _cell(content: str | int, mark: str = "") -> str:
    if isinstance(content, int):
        return f'<td class="n {mark}">{content:,}</td>' if mark else f'<td class="n">{content:,}</td>'
    return f'<td class="{mark}">{escape(content)}</td>' if mark else f"<td>{escape(content)}</td>"


def _schema(schema_id: int | None) -> str:
    return "" if schema_id is None else str(schema_id)
