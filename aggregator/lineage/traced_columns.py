"""Lists the fields of a central schema, each with what the strip did to it.

Invariant: a pure function of the schema's text. It says names, types and operators: never a default, which is a value.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aggregator.privacy.fields import paths
from aggregator.privacy.plan.derived import STRIP

# A lineage service shows a graph; a schema of more fields would be cut by it.
MOST = 2_000


class TracedColumn(NamedTuple):
    """A field.

    Attributes:
        path: From the outermost record, as policies name it; items of a list are `[]`, values of a map `{}`.
        type: Its Avro type.
        stripped: The operators that changed it, joined by `|`; empty where it is as it was at the edge.
    """

    path: str
    type: str
    stripped: str = ""


def traced_columns(schema: str) -> tuple[TracedColumn, ...]:
    """The fields of a schema without parts of their own, in their order; at most `MOST`.

    Args:
        schema: The text of a central schema.
    """
    found: list[TracedColumn] = []
    for column in _below(json.loads(schema), "", ""):
        if len(found) == MOST:
            break
        found.append(column)
    return tuple(found)


def _below(shape: Any, path: str, stripped: str) -> Iterator[TracedColumn]:
    match shape:
        case {"type": "record", "fields": [*fields]}:
            for field in fields:
                yield from _below(field["type"], paths.join(path, field["name"]), _done(field.get(STRIP, "")))
        case {"type": "array", "items": inner}:
            yield from _below(inner, paths.join(path, paths.ITEMS), stripped)
        case {"type": "map", "values": inner}:
            yield from _below(inner, paths.join(path, paths.VALUES), stripped)
        case [*branches] if len(parts := [one for one in branches if one != "null"]) == 1:
            yield from _below(parts[0], path, stripped)
        case {"type": dict() | list() as inner}:
            yield from _below(inner, path, stripped)
        case _:
            yield TracedColumn(path, _name(shape), stripped)


def _done(said: str | Mapping[str, str]) -> str:
    """Every operator that a field names, of the whole or of its parts."""
    if isinstance(said, str):
        return said
    return "|".join(sorted({one for some in said.values() for one in some.split("|")}))


def _name(shape: Any) -> str:
    match shape:
        case str():
            return shape
        case [*branches]:
            return "union of " + ", ".join(map(_name, branches))
        case _:
            return str(shape.get("logicalType") or shape.get("name") or shape.get("type"))
