"""Says in a table's own metadata what the strip did to its columns, and by which schemas and policies it is filled.

Invariant: pure but for `newest_schemas`. Names, types and operators are said, never a value. A `doc` of an edge's
schema is not said: it may name people, and does not leave the edge. What somebody else wrote to a column stays.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from aggregator.config.model import HubConfig
from aggregator.lake.columns.columns import column_name
from aggregator.lake.tables.port import Description
from aggregator.privacy.plan.traced_columns import traced_columns
from aggregator.schema.compatibility import policy_label
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import SchemaVersion

_MOST_CHARACTERS = 1_000


def description(hub: str, newest: Mapping[str, SchemaVersion]) -> Description:
    """What to say of a table.

    Args:
        hub: Who fills it.
        newest: The newest central schema of each topic that feeds it.
    """
    begins = f"stripped by hub {hub}: "
    said: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for topic, version in sorted(newest.items()):
        for column in traced_columns(version.text):
            if column.stripped and column.path:
                said[column.path][column.stripped].add(topic)
    comments: dict[str, list[str]] = defaultdict(list)
    for path, by_operator in said.items():
        top, inside = _top(path)
        comments[column_name(top)] += [
            f"{inside} {operator}".lstrip() + ("" if len(topics) == len(newest) else f" ({', '.join(sorted(topics))})")
            for operator, topics in by_operator.items()
        ]
    ids: dict[str, str | None] = {topic: str(one.schema_id) for topic, one in newest.items()}
    labels = {topic: policy_label(one.text) for topic, one in newest.items()}
    properties = {f"hub.{hub}.schema-ids": _listed(ids), f"hub.{hub}.policies": _listed(labels)}
    return Description({name: _cut(begins + "; ".join(texts)) for name, texts in comments.items()}, properties, begins)


def newest_schemas(config: HubConfig, topics: Iterable[str]) -> dict[str, SchemaVersion]:
    """The newest value schema of each central topic that has one.

    Raises:
        Unreachable: the registry does not answer.
    """
    registry = open_registry(config.schemas, config.schemas_client) if config.schemas else None
    found = {topic: registry.versions(f"{topic}-value") for topic in topics} if registry else {}
    return {topic: versions[-1] for topic, versions in found.items() if versions}


def _listed(said: Mapping[str, str | None]) -> str:
    return _cut(" ".join(f"{topic}={one}" for topic, one in sorted(said.items()) if one))


def _top(path: str) -> tuple[str, str]:
    """The column of a path, and where in it the field lies."""
    ends = [at for at in (path.find("."), path.find("["), path.find("{")) if at > 0]
    end = min(ends, default=len(path))
    return path[:end], path[end:].lstrip(".")


def _cut(text: str) -> str:
    """Text that a terminal and a catalogue can show, in a line."""
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 2]} …"
