"""Records before and after: each through a topic's strip, both sides decoded, leaf beside leaf.

Invariant: only what the strip returned is shown as `after`; a rejected record has no after but its reason. Hiding hides
what was before on both sides: a value that is kept is told as kept.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from aggregator.errors import DeadLetterError
from aggregator.headers import Headers
from aggregator.privacy.strip import Batch, Strip, Stripped
from aggregator.schema.plain import GONE, NEW, decoded, leaves
from aggregator.schema.registry import Registry
from aggregator.schema.wire import MAGIC, split

KEPT = "(kept)"
_UNREADABLE = "(can not be decoded)"
Record = tuple[bytes | None, bytes | None, Headers | None]


class Line(NamedTuple):
    """One leaf: JSON before and after, or a word in brackets."""

    path: str
    before: str
    after: str


def previewed(
    records: Sequence[Record], strip: Strip, edge: Registry, central: Registry, *, hide: bool
) -> list[list[Line]]:
    """Strip records and put both sides of each beside each other.

    Args:
        records: Key, value and headers, as the edge has them.
        strip: The topic's.
        edge: Knows the writers' schemas.
        central: Knows the derived ones.
        hide: Types and lengths instead of values before.

    Raises:
        RetryError: a registry does not answer.
    """
    keys, values, headers = map(list, zip(*records, strict=True)) if records else ([], [], [])
    stripped = strip.strip(Batch(keys, values, headers))
    shown = _hidden if hide else _beside
    return [list(shown(_parts(record, edge), _after(stripped, index, central))) for index, record in enumerate(records)]


def _after(stripped: Stripped, index: int, central: Registry) -> dict[str, Any]:
    rejection = stripped.rejected.get(index)
    if rejection is not None:
        return {"rejected": str(rejection.reason)}
    if index in stripped.suppressed:
        return {"suppressed": True}
    return _parts((stripped.keys[index], stripped.values[index], stripped.headers[index]), central)


def _parts(record: Record, registry: Registry) -> dict[str, Any]:
    key, value, headers = record
    found = {f"headers.{name}": None if text is None else _text(text) for name, text in headers or ()}
    body = None if value is None else _decoded(value, registry)
    return {"key": None if key is None else _text(key), **found, **dict(leaves(body, "value"))}


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "backslashreplace")


def _decoded(value: bytes, registry: Registry) -> Any:
    try:
        if value[:1] != MAGIC:
            return json.loads(value)  # JSON without a schema never begins with a zero byte
        schema_id, body = split(value)
        return decoded(registry.schema(schema_id), body)
    except (DeadLetterError, ValueError, IndexError, EOFError, KeyError, OverflowError, MemoryError, RecursionError):
        return _UNREADABLE


def _beside(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Line]:
    yield from _lines(before, after, _json, lambda _old, new: _json(new))


def _hidden(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Line]:
    yield from _lines(before, after, kind_of, lambda old, new: KEPT if old == new and new is not None else _json(new))


def _lines(
    before: dict[str, Any], after: dict[str, Any], old: Callable[[Any], str], new: Callable[[Any, Any], str]
) -> Iterator[Line]:
    for path in [*before, *(path for path in after if path not in before)]:
        left = new(before.get(path), after[path]) if path in after else GONE
        yield Line(path, old(before[path]) if path in before else NEW, left)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def kind_of(value: Any) -> str:
    """A value's type, and its length where it has one."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return f"text of {len(value)}"
    return "empty"
