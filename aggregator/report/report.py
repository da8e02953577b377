"""Defines and composes the report of a run: what was found in every field, which rule decided, and the result.

Invariants: the report holds names, tags, rules and numbers, never a value. Pseudonymised and encrypted data is reported
as still personal data, whatever the operator is called. The models are the contract of the JSON; `report.schema.json`
is made from them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from aggregator.coordinates import EdgePartition, SchemaName
from aggregator.observe.fields import FieldSum, TopicFields
from aggregator.state.ledger import LedgerRecord, totals

NOTICE = "Pseudonymised and encrypted data is still personal data."
_LEFT = {
    "clear": "in clear",
    "reversible": "reversible: still personal data",
    "pseudonymous": "pseudonymous: still personal data",
    "irreversible": "irreversible",
    "removed": "removed",
}
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EdgeTotals(_Part):
    """What became of an edge's records since the hub's first start; consumed = delivered + dead + suppressed."""

    edge: str
    consumed: Count
    delivered: Count
    dead: Count
    suppressed: Count
    stripped_values: Count


class FieldReport(_Part):
    """One leaf of one writer schema: its rule, and what it has met."""

    schema_id: SchemaName | None
    path: str
    type: str
    tags: tuple[str, ...]
    rule: str
    operator: str
    privacy_class: str
    left: str
    seen: Count
    null: Count
    transformed: Count
    rejected: Count
    unclassified: bool


class TopicReport(_Part):
    """One topic of one edge, under one policy."""

    edge: str
    topic: str
    policy: str
    policy_version: Count
    policy_hash: str
    key_versions: dict[str, int]
    fields: tuple[FieldReport, ...]


class DeadLetters(_Part):
    """Records that could not be delivered, by reason."""

    edge: str
    topic: str
    reason: str
    count: Count


class Unclassified(_Part):
    """A field of which neither a tag nor a path of the policy speaks."""

    edge: str
    topic: str
    schema_id: SchemaName | None
    path: str
    type: str
    operator: str


class Report(_Part):
    """The whole report.

    Attributes:
        v: Version of this form.
        hub: The hub.
        made_at: When.
        fields_since: Since when fields are counted; None where no slot has told anything.
        notice: For whoever reads only the first line.
        edges: Totals since the hub's first start.
        topics: Fields by topic, counted by the slots; records of an aborted transaction are in there twice.
        unclassified: Fields that nobody has decided on.
        dead_letters: By reason, of the newest dead letters.
        dead_letters_read: How many those are.
    """

    v: Literal[1] = 1
    hub: str
    made_at: datetime
    fields_since: datetime | None
    notice: str = NOTICE
    edges: tuple[EdgeTotals, ...]
    topics: tuple[TopicReport, ...]
    unclassified: tuple[Unclassified, ...]
    dead_letters: tuple[DeadLetters, ...]
    dead_letters_read: Count

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a report."""
        return self.model_dump(mode="json")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    schema = Report.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def compose(
    hub: str,
    edges: Iterable[str],
    ledger: Mapping[EdgePartition, LedgerRecord],
    fields: Mapping[tuple[str, str], TopicFields],
    letters: Counter[tuple[str, str, str]],
    *,
    since: datetime | None,
    made_at: datetime,
) -> Report:
    """Compose a report from what was gathered.

    Args:
        hub: The hub's name.
        edges: Its edges, in the configuration's order.
        ledger: Winning records of every flow.
        fields: By edge and topic, what the slots have told.
        letters: (edge, topic, reason) to dead letters.
        since: When the first slot told something.
        made_at: The present.
    """
    topics = tuple(_topic(edge, topic, counted) for (edge, topic), counted in sorted(fields.items()))
    return Report(
        hub=hub,
        made_at=made_at,
        fields_since=since,
        edges=tuple(_totals(edge, ledger) for edge in edges),
        topics=topics,
        unclassified=tuple(
            Unclassified(edge=topic.edge, topic=topic.topic, **one.model_dump(include=_NAMES))
            for topic in topics
            for one in topic.fields
            if one.unclassified
        ),
        dead_letters=tuple(
            DeadLetters(edge=edge, topic=topic, reason=reason, count=count)
            for (edge, topic, reason), count in sorted(letters.items())
        ),
        dead_letters_read=letters.total(),
    )


_NAMES = {"schema_id", "path", "type", "operator"}


def _totals(edge: str, ledger: Mapping[EdgePartition, LedgerRecord]) -> EdgeTotals:
    sums = totals(ledger, edge)
    return EdgeTotals(
        edge=edge,
        consumed=sums.delivered + sums.dead + sums.suppressed,
        delivered=sums.delivered,
        dead=sums.dead,
        suppressed=sums.suppressed,
        stripped_values=sums.stripped,
    )


def _topic(edge: str, topic: str, fields: TopicFields) -> TopicReport:
    return TopicReport(
        edge=edge,
        topic=topic,
        policy=fields.policy.name,
        policy_version=fields.policy.version,
        policy_hash=fields.policy.hash,
        key_versions=dict(fields.key_versions),
        fields=tuple(map(_field, fields.fields)),
    )


def _field(one: FieldSum) -> FieldReport:
    row = one.row
    return FieldReport(
        schema_id=row.schema_id,
        path=row.path or ".",
        type=row.type,
        tags=row.tags,
        rule=row.because,
        operator=row.operator,
        privacy_class=row.privacy_class,
        left=_LEFT.get(row.privacy_class, row.privacy_class),
        seen=one.seen,
        null=one.null,
        transformed=one.transformed,
        rejected=one.rejected,
        unclassified=row.unclassified,
    )
