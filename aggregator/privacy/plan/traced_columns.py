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
_MOST_CHARACTERS = 1_000  # of a path; no person names fields so that they are longer
_STEPS = 20 * MOST


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
    """The fields of a schema without parts of their own, in their order; at most `MOST`, of paths of at most a
    thousand characters.

    Args:
        schema: The text of a central schema; somebody else's, which is none, has no fields.
    """
    found: list[TracedColumn] = []
    try:
        for column in _Walk({}, [_STEPS]).below(json.loads(schema), "", "", {}):
            if len(found) == MOST:
                break
            if column not in found[-1:]:  # both of two branches
                found.append(column)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()
    return tuple(found)


class _Walk(NamedTuple):
    """Goes through a schema's types; a named one is followed wherever it is named, and not within itself.

    Attributes:
        named: Definitions that were met, by name and full name.
        left: Steps that may still be taken: types without a field, that name each other, would take many.
        within: Names that are being followed.
    """

    named: dict[str, Any]
    left: list[int]
    within: frozenset[str] = frozenset()

    def below(self, shape: Any, path: str, step: str, done: Mapping[str, str]) -> Iterator[TracedColumn]:
        """The columns of a type.

        Args:
            shape: It.
            path: Where it stands.
            step: The same, from the field that says what was done.
            done: That, by such steps.
        """
        self.left[0] -= 1
        if self.left[0] >= 0 and len(path) <= _MOST_CHARACTERS:
            yield from self._by_kind(shape, path, step, done)

    def _by_kind(self, shape: Any, path: str, step: str, done: Mapping[str, str]) -> Iterator[TracedColumn]:
        match shape:
            case {"type": "record", "name": str() as name, "fields": [*fields]}:
                self.named[name] = self.named[f"{shape.get('namespace', '')}.{name}"] = shape
                inside = self._replace(within=self.within | {name, f"{shape.get('namespace', '')}.{name}"})
                for field in fields:
                    said = _done(field.get(STRIP, {}))
                    yield from inside.below(field["type"], paths.join(path, field["name"]), "", said)
            case {"type": "array", "items": inner}:
                yield from self._part(inner, paths.ITEMS, path, step, done)
            case {"type": "map", "values": inner}:
                if keys := done.get(paths.join(step, paths.KEYS) if step else paths.KEYS, ""):
                    yield TracedColumn(paths.join(path, paths.KEYS), "string", keys)
                yield from self._part(inner, paths.VALUES, path, step, done)
            case [*branches] if parts := [one for one in branches if one != "null"]:
                for one in parts:
                    yield from self.below(one, path, step, done)
            case {"type": dict() | list() as inner}:
                yield from self.below(inner, path, step, done)
            case str() if shape in self.named and shape not in self.within:
                yield from self.below(self.named[shape], path, step, done)
            case _:
                yield TracedColumn(path, _name(shape), done.get(step, ""))

    def _part(self, inner: Any, part: str, path: str, step: str, done: Mapping[str, str]) -> Iterator[TracedColumn]:
        yield from self.below(inner, paths.join(path, part), paths.join(step, part) if step else part, done)


def _done(said: str | Mapping[str, str]) -> Mapping[str, str]:
    """The operators that a field names, by the steps to its parts; the whole has none."""
    by_step = {"": said} if isinstance(said, str) else said
    return {step: operator for step, operator in by_step.items() if isinstance(operator, str)}


def _name(shape: Any) -> str:
    if isinstance(shape, str):
        return shape
    kind = str(shape.get("logicalType") or shape.get("name") or shape.get("type"))
    return kind if kind.isidentifier() or kind.replace("-", "_").isidentifier() else "unknown"
