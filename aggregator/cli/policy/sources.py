"""Reads the inputs of the `policy` commands: schema files, record files, and samples of an edge's topic.

Invariant: a file that cannot be read is reported with its name and line, and without a value from it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from aggregator.config.match import rule_for
from aggregator.config.model import EdgeConfig, HubConfig
from aggregator.errors import ConfigError, DeadLetterError
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.readers.sample import Record, newest_records
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.replicate.discovery.edge_topic import is_internal
from aggregator.schema.avro import parse
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.plain_json import Misfit, encoded
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry
from aggregator.schema.wire import frame

FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class TopicSample:
    """Records of one topic, as their edge has them, and the registry that knows their schemas."""

    topic: str
    registry: Registry
    records: tuple[Record, ...]


def schema_text(path: Path) -> str:
    """The text of an Avro schema file.

    Raises:
        ConfigError: it cannot be read, or is no Avro schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
        parse(text)
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path}: cannot be read", hint="name a schema file in UTF-8") from None
    except DeadLetterError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None
    return text


def file_sample(
    path: Path, schema: Path | None, topic: str, value_format: ValueFormat = ValueFormat.JSON
) -> TopicSample:
    """The records of a file, without keys and headers.

    Args:
        path: One JSON value a line, or one for the whole file; `null` is a tombstone. Of text and bytes each line is a
            value as it is.
        schema: The writer's schema; None: values are JSON without a schema, as they are written.
        topic: The topic of the records.
        value_format: The format of the values.

    Raises:
        ConfigError: a file, or a line of it, cannot be used.
    """
    registry = MemoryRegistry()
    values: list[bytes | None]
    if not value_format.has_fields:
        values = [line.encode() for line in _lines(_file_text(path))]
    elif schema is None:
        values = [None if value is None else json.dumps(value).encode() for _, value in _json_values(path)]
    else:
        text = schema_text(schema)
        values = _framed(path, text, registry.register(f"{topic}-value", text))
    return TopicSample(topic, registry, tuple((None, value, None) for value in values))


def _framed(path: Path, schema: str, schema_id: int) -> list[bytes | None]:
    """Encode the records of a file as framed Avro values.

    Raises:
        ConfigError: the file, or a line of it, is not what the schema says.
    """
    values: list[bytes | None] = []
    for line, record in _json_values(path):
        try:
            values.append(None if record is None else frame(schema_id, encoded(schema, record)))
        except Misfit as misfit:
            raise ConfigError(f"{path}:{line}: {misfit}", hint="correct the record, or name its schema") from None
    return values


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="name a file with one record a line") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8", hint="save the file as UTF-8") from None


def _lines(text: str) -> list[str]:
    """The lines between ends of lines alone: values hold what Unicode calls one, too, such as U+2028 and form feeds."""
    return text.removesuffix("\n").split("\n") if text else []


def _json_values(path: Path) -> list[tuple[int, Any]]:
    text = _file_text(path)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return [(number, _line(path, number, line)) for number, line in enumerate(_lines(text), 1) if line.strip()]
    return [(1, record) for record in (whole if isinstance(whole, list) else [whole])]


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{path}:{number}: is not JSON, or nested too deep", hint="one JSON value a line, in one line each"
        ) from None


def ruled_topics(config: HubConfig, edge: str) -> list[str]:
    """The topics of an edge that a rule reads, in their order.

    Raises:
        UsageError: the configuration has no such edge.
        Unreachable: the edge does not answer.
    """
    names = topic_names(_cluster(config, edge))
    return sorted(one for one in names if not is_internal(one) and rule_for(config, edge, one) is not None)


def _cluster(config: HubConfig, edge: str) -> EdgeConfig:
    cluster = config.edges.get(edge)
    if cluster is None:
        raise click.UsageError(f"no edge is called {edge}; there are {', '.join(sorted(config.edges))}")
    return cluster


def edge_sample(config: HubConfig, edge: str, topic: str, count: int) -> TopicSample:
    """The newest records of an edge's topic.

    Raises:
        UsageError: the configuration has no such edge, or the edge no registry.
        FatalError: the edge has no such topic.
        Unreachable: the edge does not answer.
    """
    cluster = _cluster(config, edge)
    return TopicSample(
        topic, edge_registry(cluster, edge), tuple(one.record for one in newest_records(cluster, topic, count))
    )


def edge_registry(cluster: EdgeConfig, edge: str) -> Registry:
    """Open the schema registry of an edge.

    Raises:
        UsageError: it has none.
    """
    if cluster.schemas is None:
        raise click.UsageError(f"edge {edge} has no registry: add `schemas:` to it")
    return open_registry(cluster.schemas, cluster.schemas_client)


def policy_of(config: HubConfig, edge: str, topic: str) -> Path:
    """The policy of the rule that speaks of an edge topic.

    Raises:
        UsageError: no rule does.
    """
    rule = rule_for(config, edge, topic)
    if rule is None:
        raise click.UsageError(f"no rule of the configuration matches {topic} on edge {edge}: name a policy file")
    return rule.policy


def required(options: Mapping[str, object | None], instead: str) -> None:
    """Refuse a call that leaves out one of these.

    Raises:
        UsageError: names what is missing.
    """
    missing = [name for name, value in options.items() if value is None]
    if missing:
        raise click.UsageError(f"{', '.join(missing)} is missing; {instead}")
