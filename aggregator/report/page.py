"""Makes the report as one HTML page. It loads nothing, runs nothing, and is readable on paper, in dark mode and without
a mouse.

Invariants: every text is escaped, because other people choose the names of fields, tags and topics. There is no script
and no address.
"""

from collections.abc import Iterable, Sequence

from aggregator.coordinates import SchemaName
from aggregator.report.html import cell, document, escaped, grid, moment, row
from aggregator.report.report import EdgeTotals, FieldReport, Report, TopicReport

_STYLE = """
.notice { border-left: 4px solid var(--warn); padding-left: .7rem; margin: 1rem 0; }
td.path { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.clear { color: var(--good); } .personal { color: var(--warn); } .lost { color: var(--bad); font-weight: 600; }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0; }
@media print { details { break-inside: avoid; } }
"""
_PERSONAL = ("pseudonymous", "reversible")


def report_page(report: Report) -> str:
    """The report as one page of HTML."""
    since = f"Fields counted since {moment(report.fields_since)}." if report.fields_since else "No field was told yet."
    parts = (_edges(report.edges), _unclassified(report), _letters(report), "".join(map(_topic, report.topics)))
    return document(
        f"{report.hub}: what was stripped",
        f'<p class="soft">Made {moment(report.made_at)}. {since}</p>\n<p class="notice">{escaped(report.notice)}</p>',
        "\n".join(parts),
        style=_STYLE,
    )


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
    head = f"{escaped(topic.edge)} / {escaped(topic.topic)}"
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
<p class="soft">{escaped(said)}</p>
{grid(names, range(7, len(names)), body)}
</details>
"""


def _field(one: FieldReport) -> str:
    mark = "clear" if one.privacy_class == "clear" else "personal" if one.privacy_class in _PERSONAL else ""
    words = [cell(_schema(one.schema_id)), cell(one.path, "path"), cell(one.type), cell(", ".join(one.tags))]
    words += [cell(one.operator), cell(one.left, mark), cell(one.rule)]
    numbers = [cell(one.seen), cell(one.null), cell(one.transformed)]
    return f"<tr>{''.join([*words, *numbers, cell(one.rejected, 'lost' if one.rejected else '')])}</tr>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """From the first number on, all columns are numbers."""
    kept = list(rows)
    words = next((at for at, one in enumerate(kept[0]) if isinstance(one, int)), len(heads)) if kept else len(heads)
    return grid(heads, range(words, len(heads)), "".join(map(row, kept)))


def _schema(schema_id: SchemaName | None) -> str:
    return "" if schema_id is None else str(schema_id)
