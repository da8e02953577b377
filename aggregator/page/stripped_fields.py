"""Summarises what is stripped, by topic: how many values each operator changed, and the fields that nobody classified.

Invariant: pure. Names of fields are those of schemas, and there is never a value among them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aggregator.observe.fields import FieldSum, TopicFields

_KEPT = "keep"


class StrippedTopic(NamedTuple):
    """One topic, summed over the edges that were asked for.

    Attributes:
        topic: Its name.
        operators: Name, fields and values of each operator that changes something, the busiest first.
        values: Values that were removed or changed.
        unclassified: Paths of which neither a tag nor a path of the policy speaks; they are dropped.
        policies: Name and version of every policy that was applied.
    """

    topic: str
    operators: tuple[tuple[str, int, int], ...]
    values: int
    unclassified: tuple[str, ...]
    policies: tuple[str, ...]


def stripped(fields: Mapping[tuple[str, str], TopicFields], edges: Iterable[str]) -> tuple[StrippedTopic, ...]:
    """Every topic, those with unclassified fields first, then the busiest.

    Args:
        fields: By edge and topic.
        edges: Whose.
    """
    asked, by_topic = frozenset(edges), defaultdict(list)
    for (edge, topic), known in fields.items():
        if edge in asked:
            by_topic[topic].append(known)
    rows = [_topic(topic, known) for topic, known in by_topic.items()]
    return tuple(sorted(rows, key=lambda row: (not row.unclassified, -row.values, row.topic)))


def _topic(topic: str, known: list[TopicFields]) -> StrippedTopic:
    values: Counter[str] = Counter()
    paths: dict[str, set[str]] = defaultdict(set)
    unclassified: set[str] = set()
    for one in (one for each in known for one in each.fields):
        if one.row.operator != _KEPT:
            values[one.row.operator] += one.transformed
            paths[one.row.operator].add(one.row.path)
        if one.row.unclassified:
            unclassified.add(one.row.path)
    operators = sorted(((name, len(paths[name]), values[name]) for name in paths), key=lambda row: (-row[2], row[0]))
    policies = sorted({f"{one.policy.name} version {one.policy.version}" for one in known})
    return StrippedTopic(topic, tuple(operators), values.total(), tuple(sorted(unclassified)), tuple(policies))


class SchemaFields(NamedTuple):
    """The fields of one writer schema of a topic, with their counts."""

    name: str
    fields: tuple[FieldSum, ...]


def by_schema(known: TopicFields | None) -> tuple[SchemaFields, ...]:
    """The fields of a topic under a heading for each schema id, the newest first; what has no schema comes last."""
    found: dict[object, list[FieldSum]] = {}
    for one in known.fields if known else ():
        found.setdefault(one.row.schema_id, []).append(one)
    order = sorted(
        found, key=lambda name: (name is not None, isinstance(name, int), name if isinstance(name, int) else 0)
    )
    return tuple(
        SchemaFields("Without a schema" if name is None else f"Schema id {name}", tuple(found[name]))
        for name in reversed(order)
    )
