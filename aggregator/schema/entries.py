"""Parses the JSON that Confluent's REST API returns for one schema.

Invariant: only values of the expected type are accepted. Any other value raises `ValueError`, which does not quote it.
Confluent-kafka's own parser cannot read a schema with `metadata.tags`, because it hashes lists.
Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggregator.schema.guids import FIRST
from aggregator.schema.registry import TagPaths

# Some registries count from 0.
_NO_ID = -1


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """Holds one answer about a schema.

    Attributes:
        subject: The subject of the version; empty where the answer is about an id.
        text: The text of the schema.
        kind: `AVRO`, or another type, in capitals.
        references: Subject and version of each schema that it names.
        tags: `metadata.tags`; a rule set's tags choose among these, and give none.
        version: The version of its subject; 0 where the answer is about an id.
        schema_id: The schema's id; -1 where the answer does not say it.
        guid: The schema's GUID; empty where the answer does not say it.
    """

    subject: str
    text: str
    kind: str
    references: tuple[tuple[str, int], ...]
    tags: TagPaths
    version: int
    schema_id: int
    guid: str


def entry(answer: Any) -> SchemaAnswer:
    """Read an answer about a schema.

    Raises:
        ValueError: it is none about a schema.
    """
    found = _of(dict, answer)
    references = [_of(dict, one) for one in _if_any(list, found.get("references"))]
    beside = _if_any(dict, _if_any(dict, found.get("metadata")).get("tags"))
    return SchemaAnswer(
        _if_any(str, found.get("subject")),
        _of(str, found.get("schema")),
        _if_any(str, found.get("schemaType")).upper() or "AVRO",
        tuple((_of(str, one.get("subject")), _of(int, one.get("version"))) for one in references),
        tuple(sorted((_of(str, path), _names(tags)) for path, tags in beside.items())),
        _if_any(int, found.get("version")),
        _NO_ID if found.get("id") is None else _of(int, found["id"]),
        _if_any(str, found.get("guid")),
    )


def identifier(answer: Any) -> int:
    """Read the id that the registry gave to a text.

    Raises:
        ValueError: it is none that records can name, or no answer about one.
    """
    found: int = _of(int, _of(dict, answer).get("id"))
    if not 0 < found < FIRST:
        raise ValueError("no id")
    return found


def is_compatible(answer: Any) -> bool:
    """Read whether a text may follow the versions of a subject.

    Raises:
        ValueError: it is no answer to that.
    """
    found = _of(dict, answer).get("is_compatible")
    if not isinstance(found, bool):
        raise ValueError("neither yes nor no")  # noqa: TRY004 - of an answer, and not of an argument
    return found


def homes(answer: Any) -> Mapping[str, int]:
    """Subject to its newest version, of the versions that have an id.

    Raises:
        ValueError: it is no answer about versions.
    """
    newest: dict[str, int] = {}
    for one in _of(list, answer):
        subject, version = _of(str, _of(dict, one).get("subject")), _of(int, one.get("version"))
        newest[subject] = max(version, newest.get(subject, 0))
    return newest


def names(answer: Any) -> list[str]:
    """Read a list of names.

    Raises:
        ValueError: it is something else.
    """
    return [_of(str, one) for one in _of(list, answer)]


def numbers(answer: Any) -> list[int]:
    """Read a list of numbers.

    Raises:
        ValueError: it is something else.
    """
    return [_of(int, one) for one in _of(list, answer)]


def ids_by_context(answer: Any) -> list[tuple[str, int]]:
    """Read the contexts of one schema with its id in each.

    Raises:
        ValueError: it is something else.
    """
    entries = [_of(dict, one) for one in _of(list, answer)]
    return [(_if_any(str, one.get("context")), _of(int, one.get("id"))) for one in entries]


def _names(tags: Any) -> frozenset[str]:
    return frozenset(names(tags))


def _if_any(kind: type, value: Any) -> Any:
    """What may be left out, or null; any other false value is none of it."""
    return kind() if value is None else _of(kind, value)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"no {kind.__name__}")  # noqa: TRY004 - of an answer, and not of an argument
    return value
