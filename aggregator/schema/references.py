"""Writes a schema that refers to other subjects as one self-contained text.

Invariant: each type is written once, at the place where it is first named, in the order of the text. A reader of the
result reads the same bytes. Pure: the texts are arguments. A text that is not JSON is refused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggregator.budgets import SCHEMA_DEPTH
from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import PRIMITIVES, full_name

_NAMED = frozenset(("record", "error", "enum", "fixed"))


def self_contained(text: str, others: Sequence[str]) -> str:
    """The schema with every type that it borrows written into it.

    Args:
        text: The schema.
        others: Texts of everything that it refers to, directly or not.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, a text is not JSON or nests too deep.
    """
    if not others:
        return text
    defined: dict[str, tuple[dict[str, Any], str]] = {}
    for other in others:
        for name, shape, space in _definitions(_read(other), "", 0):
            defined.setdefault(name, (shape, space))
    return json.dumps(_Writer(defined).type(_read(text), "", 0), separators=(",", ":"))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _refusal("a schema that it refers to is not JSON") from None


def _refusal(message: str) -> DeadLetterError:
    return DeadLetterError(
        Reason.SCHEMA_REFUSED, f"writer schema refused: {message}", hint="correct the references in the registry"
    )


def _name_of(shape: Mapping[str, Any], space: str) -> tuple[str, str] | None:
    """Full name and namespace of a definition; None where it is none."""
    kind, name, own = shape.get("type"), shape.get("name"), shape.get("namespace", space)
    if not isinstance(kind, str) or kind not in _NAMED or not isinstance(name, str) or not isinstance(own, str):
        return None
    full = full_name(name, own)
    return full, full.rpartition(".")[0]


def _definitions(shape: Any, space: str, depth: int) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every named type in a schema, with the namespace that it stands in."""
    if depth > SCHEMA_DEPTH.limit:
        raise _refusal(f"it nests deeper than {SCHEMA_DEPTH.limit}")
    if isinstance(shape, list):
        for branch in shape:
            yield from _definitions(branch, space, depth + 1)
    if not isinstance(shape, dict):
        return
    named = _name_of(shape, space)
    if named is not None:
        yield named[0], shape, space
    inner = named[1] if named else space
    fields = shape.get("fields")
    parts = [item.get("type") for item in fields if isinstance(item, dict)] if isinstance(fields, list) else []
    for part in [*parts, shape.get("items"), shape.get("values"), shape.get("type")]:
        yield from _definitions(part, inner, depth + 1)


@dataclass(slots=True)
class _Writer:
    defined: Mapping[str, tuple[dict[str, Any], str]]
    written: set[str] = field(default_factory=set)

    def type(self, shape: Any, space: str, depth: int) -> Any:
        if depth > SCHEMA_DEPTH.limit:
            raise _refusal(f"it nests deeper than {SCHEMA_DEPTH.limit}")
        if isinstance(shape, list):
            return [self.type(branch, space, depth + 1) for branch in shape]
        if isinstance(shape, str):
            return self.reference(shape, space, depth)
        return self.definition(shape, space, depth) if isinstance(shape, dict) else shape

    def reference(self, name: str, space: str, depth: int) -> Any:
        if name in PRIMITIVES:
            return name
        full = full_name(name, space)
        known = next((each for each in (full, name) if each in self.written or each in self.defined), None)
        if known is None:
            return name
        if known in self.written:
            return known
        shape, around = self.defined[known]
        return self.definition(shape, around, depth + 1)

    def definition(self, shape: dict[str, Any], space: str, depth: int) -> Any:
        named = _name_of(shape, space)
        inner = space
        if named is not None:
            full, inner = named
            if full in self.written:
                return full
            self.written.add(full)
            # The namespace is written out, because the type may now stand inside another type's namespace.
            shape = {**shape, "name": full.rpartition(".")[2], "namespace": inner}
        made = dict(shape)
        for part in ("items", "values"):
            if part in made:
                made[part] = self.type(made[part], inner, depth + 1)
        if not isinstance(made.get("type"), str) or made["type"] not in _NAMED | {"array", "map"}:
            made["type"] = self.type(made.get("type"), inner, depth + 1)
        if isinstance(made.get("fields"), list):
            made["fields"] = [
                {**item, "type": self.type(item.get("type"), inner, depth + 1)} if isinstance(item, dict) else item
                for item in made["fields"]
            ]
        return made
