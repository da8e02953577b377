"""Shows records before and after stripping: both sides are decoded and compared leaf by leaf.

Invariant: `after` shows only what the strip returned. A rejected record shows its reason instead. Hiding hides the
input's values on both sides. A kept value is then shown as kept, and a name that only the data has is `{key}`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Self

from aggregator.coordinates import OWN_HEADERS
from aggregator.count_text import format_count
from aggregator.errors import DeadLetterError
from aggregator.header_columns import Headers
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.batch.strip import Batch, Strip, Stripped
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.json.text import measured
from aggregator.privacy.review.sniff import json_of, named_by_themselves, schema_of
from aggregator.privacy.review.value_reader import EscapedBytes, read_value, text_of
from aggregator.schema.avro import parse
from aggregator.schema.plain_json import GONE, NEW, decoded, leaves
from aggregator.schema.registry import Registry
from aggregator.schema.wire import MAGIC, split

KEPT = "(kept)"
_NO_SUCH_VALUE = (
    DeadLetterError,
    Malformed,
    ValueError,
    IndexError,
    EOFError,
    KeyError,
    OverflowError,
    MemoryError,
    RecursionError,
)
_UNNAMED = "{key}"
# Below these steps, a path may have named another value in the input: names were data, or earlier items were dropped.
_MOVED = (_UNNAMED, "[")
_STEPS = re.compile(r"[.\[\]]+")
Record = tuple[bytes | None, bytes | None, Headers | None]


class _Unreadable(str):
    """The words that stand for bytes which cannot be decoded, with their number."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        """Make the words for these bytes."""
        return super().__new__(cls, f"(cannot be decoded, {format_count(len(raw), 'byte')})")


class PreviewLine(NamedTuple):
    """One leaf: JSON before and after, or a word in brackets."""

    path: str
    before: str
    after: str


def previewed(
    records: Sequence[Record], strip: Strip, edge: Registry, central: Registry, value_format: ValueFormat, *, hide: bool
) -> list[list[PreviewLine]]:
    """Strip records and put both sides of each beside each other.

    Args:
        records: Key, value and headers, as the edge has them.
        strip: The topic's.
        edge: Knows the writers' schemas.
        central: Knows the derived ones.
        value_format: The format of the values.
        hide: Types and lengths instead of values before.

    Raises:
        RetryError: a registry does not answer.
    """
    keys, values, columns = map(list, zip(*records, strict=True)) if records else ([], [], [])
    stripped = strip.strip(Batch(keys, values, columns))
    met = {step for row in strip.report() for step in _STEPS.split(row.path)}
    lines = []
    for index, record in enumerate(records):
        named_key, named = _named(record, edge, values=value_format.has_schema)
        body, key = None if named is None else _decoded(named, edge, value_format), _key(named_key, edge)
        left_key, left = _key(stripped.keys[index], central), _body(stripped, index, central, value_format)
        if hide:
            unread = {"value"} if isinstance(body, _Unreadable) else set()
            if named_key and named_key.startswith(MAGIC) and key == text_of(named_key):
                unread.add("key")
            # Names that the strip has made. They are unknown where only the strip can read the input.
            made = set() if "value" in unread else _names(left) - _names(body)
            key_made = set() if "key" in unread else _names(left_key) - _names(key)
            declared, key_names = _declared(named, edge) | met | made, _declared(named_key, edge) | key_made
            headers = _unnamed(record[2], stripped.headers[index])
            hidden = _leaves(_renamed(key, key_names), _renamed(body, declared), headers)
            after = _after(stripped, index, _renamed(left_key, key_names), _renamed(left, declared))
            is_same = record[0] is not None and record[0] == stripped.keys[index]
            shown = _hidden(hidden, after, unread, kept={"key"} if is_same else set())
            size = len(record[1] or b"") if value_format is ValueFormat.BYTES else None
            lines.append([_sized(one, size) for one in shown])
        else:
            lines.append(list(_beside(_leaves(key, body, record[2]), _after(stripped, index, left_key, left))))
    return lines


def looked_at(
    record: Record, registry: Registry, *, hide: bool, own: Collection[str] = OWN_HEADERS
) -> list[tuple[str, str]]:
    """What is in a record as it lies in its topic: each leaf as JSON, or its type and length.

    Args:
        record: Key, value and headers.
        registry: Knows the schemas that it names.
        hide: Types and lengths instead of values, but of the hub's own headers, and no names that only the data has.
        own: Names of the hub's own headers; at an edge anybody may have written them.

    Raises:
        RetryError: the registry does not answer.
    """
    key, value, headers = record
    body, names = _sniffed(value, headers or (), registry)
    held = _key(key, registry)
    if hide:
        body, held = _renamed(body, names), _renamed(held, _declared(key, registry))
        headers = _unnamed(headers, [(name, None) for name in own])
    shown = _leaves(held, body, headers)
    told = {f"headers.{name}" for name in own}
    return [(path, kind_of(leaf) if hide and path not in told else _json(leaf)) for path, leaf in shown.items()]


def _sniffed(value: bytes | None, headers: Headers, registry: Registry) -> tuple[Any, set[str]]:
    """A value as its bytes say it is to be read, and the names of its schema."""
    if value is None:
        return None, set()
    if (named := schema_of(value, headers, registry)) is not None:
        try:
            return decoded(*named), _schema_names(named[0])
        except _NO_SUCH_VALUE:
            return _Unreadable(value), set()
    return (text_of(value) if json_of(value) is None else json.loads(value)), set()


def _sized(line: PreviewLine, size: int | None) -> PreviewLine:
    """Replace the size of a whole value of bytes by its number of bytes, not of displayed characters."""
    is_whole = size is not None and line.path == "value" and line.before.startswith("text of ")
    return line._replace(before=format_count(size or 0, "byte")) if is_whole else line


def _body(stripped: Stripped, index: int, central: Registry, value_format: ValueFormat) -> Any:
    value = stripped.values[index]
    return None if value is None else _decoded(value, central, value_format)


def _named(record: Record, registry: Registry, *, values: bool) -> tuple[bytes | None, bytes | None]:
    """Key and value as the strip reads them, naming their schemas by themselves."""
    key, value, headers = record
    batch = named_by_themselves(Batch([key], [value], [headers]), registry, keys=True, values=values)
    return batch.keys[0], batch.values[0]


def _declared(value: bytes | None, registry: Registry) -> set[str]:
    """Names of a writer's schema."""
    try:
        return _schema_names(registry.schema(split(value or b"")[0]))
    except DeadLetterError:
        return set()


def _schema_names(text: str) -> set[str]:
    return {field.name for node in parse(text).nodes for field in node.fields}


def _names(body: Any) -> set[str]:
    """Every name in a decoded body."""
    if isinstance(body, dict):
        return set(body).union(*map(_names, body.values()))
    return set().union(*map(_names, body)) if isinstance(body, list) else set()


def _renamed(body: Any, declared: set[str]) -> Any:
    """The body without the names that are data."""
    if isinstance(body, list):
        return [_renamed(item, declared) for item in body]
    if not isinstance(body, dict):
        return body
    made: dict[str, Any] = {}
    for name, item in body.items():
        number = len(made) + 1
        made[name if name in declared else f"{_UNNAMED} {number}"] = _renamed(item, declared)
    return made


def _unnamed(headers: Headers | None, left: Headers) -> Headers:
    """Headers without the names that did not pass: they are data too."""
    passed = {name for name, _ in left}
    numbered = enumerate(headers or (), 1)
    return [(name if name in passed else f"{_UNNAMED} {at}", value) for at, (name, value) in numbered]


def _after(stripped: Stripped, index: int, key: Any, body: Any) -> dict[str, Any]:
    rejection = stripped.rejected.get(index)
    if rejection is not None:
        return {"rejected": str(rejection.reason)}
    if index in stripped.suppressed:
        return {"suppressed": True}
    return _leaves(key, body, stripped.headers[index])


def _leaves(key: Any, body: Any, headers: Headers | None) -> dict[str, Any]:
    found = {f"headers.{name}": None if text is None else text_of(text) for name, text in headers or ()}
    return {**dict(leaves(key, "key")), **found, **dict(leaves(body, "value"))}


def _key(key: bytes | None, registry: Registry) -> Any:
    """What is in a key: in wire format by its schema, as long as it has one, and otherwise text."""
    if key is None:
        return None
    read = _decoded(key, registry, ValueFormat.AVRO) if key.startswith(MAGIC) else _Unreadable(key)
    return text_of(key) if isinstance(read, _Unreadable) else read


def _decoded(value: bytes, registry: Registry, value_format: ValueFormat) -> Any:
    try:
        if value_format is ValueFormat.JSON:
            measured(value.decode())
        return read_value(value, value_format, registry)
    except _NO_SUCH_VALUE:
        return _Unreadable(value)


def _beside(before: dict[str, Any], after: dict[str, Any]) -> Iterator[PreviewLine]:
    yield from _lines(before, after, _json, lambda _path, new: _json(new))


def _hidden(
    before: dict[str, Any], after: dict[str, Any], unread: Collection[str], kept: Collection[str]
) -> Iterator[PreviewLine]:
    """`unread` and `kept` are of `key` and `value`: what only the strip can read, and what it left as it was."""
    whole = {_json(value) for value in before.values() if value is not None}

    def shown(path: str, new: Any) -> str:
        """Where a name was data, what is kept is any value from before; of bytes that only the strip can read, which
        passes over what it drops, any may be.
        """
        part = _STEPS.split(path, maxsplit=1)[0]
        if part in kept:
            return KEPT
        if part in unread:
            return kind_of(new)
        is_sure = path in before and not any(one in path for one in _MOVED)
        # Values are compared as JSON, because a NaN does not equal itself.
        is_kept = _json(before[path]) == _json(new) and new is not None if is_sure else _json(new) in whole
        return KEPT if is_kept else _json(new)

    yield from _lines(before, after, kind_of, shown)


def _lines(
    before: dict[str, Any], after: dict[str, Any], old: Callable[[Any], str], new: Callable[[str, Any], str]
) -> Iterator[PreviewLine]:
    for path in [*before, *(path for path in after if path not in before)]:
        left = new(path, after[path]) if path in after else GONE
        yield PreviewLine(path, old(before[path]) if path in before else NEW, left)


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
        case EscapedBytes():
            return format_count(value.size, "byte")
        case str():
            return str(value) if isinstance(value, _Unreadable) else f"text of {len(value)}"
    return "empty"
