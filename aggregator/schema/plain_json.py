"""Converts Avro values to plain JSON and back, for records that people read or write by hand.

Two forms are read. The first is plain JSON: unions without tags, logical values as ISO or decimal text or as their
numbers. The second is Avro's own JSON encoding: `{"string": "x"}` for a branch, bytes as Latin-1 text. A missing field
gets its default.
Invariant: a value that does not fit is refused by its path, and the refusal quotes no value.
Source: https://avro.apache.org/docs/1.12.0/specification/#json-encoding
"""

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

import fastavro

from aggregator.budgets import DEFAULT_STEPS
from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import Field, Kind, Missing, Node, Schema, parse
from aggregator.schema.bounded_bodies import check_bounds

GONE = "(gone)"
NEW = "(new)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_WORDS = {"true": True, "false": False}
# The records of a sample have only a few schemas.
_read = lru_cache(16)(parse)


class Misfit(ValueError):
    """A value that its schema does not have a place for."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or 'the value'}: {why}")


def encoded(text: str, value: Any) -> bytes:
    """Encode a plain value as an Avro body.

    Args:
        text: The text of the schema.
        value: What `json.loads` or a YAML reader made; numbers may be text.

    Raises:
        Misfit: the value does not fit.
        DeadLetterError: the text is no Avro schema.
    """
    schema = parse(text)
    out = io.BytesIO()
    # Logical types are removed, because the fitted values are the numbers and bytes beneath them.
    shape = _untagged(json.loads(text.replace('"logicalType"', '"was"')))
    try:
        ready = _Fitting(schema).fitted(schema.root, value, "")
        fastavro.schemaless_writer(out, fastavro.parse_schema(shape), ready)
    except Misfit:
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Misfit("", f"cannot be encoded ({type(error).__name__})") from None
    return out.getvalue()


class Defaults:
    """The defaults of one schema, within one budget: a union in a union, or a default in a default, doubles the work.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self._fitting = _Fitting(schema, is_default=True)

    def fit(self, number: int, value: Any) -> bool:
        """Whether a field's default is a value of its type, and nothing else stands in it.

        Args:
            number: The type's node.
            value: The default.

        Raises:
            DeadLetterError: SCHEMA_REFUSED, the schema's defaults take more steps than their budget.
        """
        try:
            self._fitting.fitted(number, value, "")
        except (Misfit, RecursionError):
            return False
        return True


def decoded(text: str, body: bytes) -> Any:
    """A body as plain JSON values: logical values and everything else that JSON lacks as text.

    Raises:
        ValueError, IndexError, EOFError, KeyError, OverflowError, MemoryError, RecursionError: it is no such body.
    """
    try:
        check_bounds(_read(text), body)
        schema = fastavro.parse_schema(_untagged(json.loads(text)))
    except (DeadLetterError, fastavro.schema.SchemaParseException):
        raise ValueError("fastavro reads no such schema") from None
    found = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
    return json.loads(json.dumps(found, default=_shown))


def _untagged(shape: Any) -> Any:
    """A schema without objects that do nothing but tag a type, which fastavro does not read."""
    if isinstance(shape, list):
        return [_untagged(branch) for branch in shape]
    if not isinstance(shape, dict):
        return shape
    if shape["type"] not in list(Kind) and shape["type"] != "error":
        return _untagged(shape["type"])
    parts = {part: _untagged(shape[part]) for part in ("items", "values") if part in shape}
    fields = [{**item, "type": _untagged(item["type"])} for item in shape.get("fields") or ()]
    return {**shape, **parts, **({"fields": fields} if "fields" in shape else {})}


def _shown(value: object) -> str:
    return str(value, "latin-1") if isinstance(value, bytes) else str(value)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of everything that has no parts; items are counted: `items[0].sku`."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def compare_leaves(before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    """Path, value before and value after as JSON, for every leaf of either side."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for path in [*old, *(path for path in new if path not in old)]:
        yield path, _json(old[path]) if path in old else NEW, _json(new[path]) if path in new else GONE


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Fitting:
    """Walks a plain value along its schema.

    Args:
        schema: The schema.
        is_default: The value stands in the schema itself, where bytes are Latin-1 text whatever they mean.
    """

    def __init__(self, schema: Schema, *, is_default: bool = False) -> None:
        self._nodes = schema.nodes
        self._is_default = is_default
        self._defaults = self if is_default else _Fitting(schema, is_default=True)
        self._left = DEFAULT_STEPS.limit

    def fitted(self, number: int, value: Any, path: str) -> Any:
        if self._is_default:
            self._spend()
        node = self._nodes[number]
        match node.kind:
            case Kind.RECORD:
                return self._record(node, value, path)
            case Kind.UNION:
                return self._union(node, value, path)
            case Kind.ARRAY if isinstance(value, list):
                return [self.fitted(node.children[0], item, f"{path}[{at}]") for at, item in enumerate(value)]
            case Kind.MAP if isinstance(value, dict):
                return {key: self.fitted(node.children[0], item, f"{path}.{{key}}") for key, item in value.items()}
        try:
            made = _leaf(replace(node, logical=None) if self._is_default else node, value)
        except (ValueError, TypeError, KeyError, ArithmeticError):
            raise Misfit(path, f"is no {node.logical.name if node.logical else node.kind}") from None
        if self._is_default and isinstance(made, float) and not isfinite(made):
            raise Misfit(path, "is no number that JSON has")
        return made

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"writer schema refused: its defaults take more than {DEFAULT_STEPS.limit:,} steps",
                hint="use fewer defaults that stand for records or unions",
            )

    def _record(self, node: Node, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit(path, "is no record")
        unknown = sorted(value.keys() - {field.name for field in node.fields})
        if unknown:
            raise Misfit(path, "has a field that the schema does not have")
        return {field.name: self._field(field, value, f"{path}.{field.name}".lstrip(".")) for field in node.fields}

    def _field(self, field: Field, value: dict[str, Any], path: str) -> Any:
        if field.name in value:
            return self.fitted(field.node, value[field.name], path)
        if field.default is Missing.MISSING:
            raise Misfit(path, "is missing, and has no default")
        return self._defaults.fitted(field.node, field.default, path)

    def _union(self, node: Node, value: Any, path: str) -> Any:
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            for child in node.children:
                if name in _names(self._nodes[child]):
                    return self._branch(child, inner, path)
        for child in node.children:
            try:
                return self._branch(child, value, path)
            except Misfit as misfit:
                last = misfit
        others = [child for child in node.children if self._nodes[child].kind is not Kind.NULL]
        raise last if len(others) == 1 else Misfit(path, "fits no branch")

    def _branch(self, number: int, value: Any, path: str) -> Any:
        fitted, node = self.fitted(number, value, path), self._nodes[number]
        # A tuple tells fastavro which of several records it is.
        return (node.name, fitted) if node.kind is Kind.RECORD else fitted


def _names(node: Node) -> tuple[str, ...]:
    return (node.name, node.name.rpartition(".")[2]) if node.name else (node.kind.value,)


def _leaf(node: Node, value: Any) -> Any:
    logical = node.logical.name if node.logical else ""
    match node.kind:
        case Kind.NULL if value is None:
            return None
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else _WORDS[value]
        case Kind.INT | Kind.LONG | Kind.FLOAT | Kind.DOUBLE if not isinstance(value, bool):
            return _ticks(logical, value) if node.kind in (Kind.INT, Kind.LONG) else float(value)
        case Kind.STRING | Kind.ENUM if isinstance(value, str) and value in (node.symbols or (value,)):
            return value
        case Kind.BYTES | Kind.FIXED if isinstance(value, str):
            return _bytes(node, logical, value)
    raise TypeError(node.kind)


def _ticks(logical: str, value: Any) -> int:
    """A number, or a day, time or instant in ISO text."""
    if not isinstance(value, int | str):
        raise TypeError(logical)
    try:
        return int(value)
    except ValueError:
        if logical == "date":
            return date.fromisoformat(str(value)).toordinal() - _EPOCH.toordinal()
        ticks = _TICKS[logical.rpartition("-")[2]]
    if logical.startswith("time-"):
        at = time.fromisoformat(str(value))
        since = datetime.combine(_EPOCH, at, UTC) - _EPOCH
    else:
        moment = datetime.fromisoformat(str(value))
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * ticks + since.microseconds * ticks // 1_000_000


def _bytes(node: Node, logical: str, value: str) -> bytes:
    if logical == "decimal" and node.logical is not None:
        scaled = Decimal(value).scaleb(node.logical.scale or 0)
        unscaled = int(scaled)
        if unscaled != scaled:
            raise ValueError(logical)
        size = node.size or (unscaled.bit_length() // 8 + 1)
        return unscaled.to_bytes(size, "big", signed=True)
    raw = base64.b64decode(value.removeprefix("base64:"), validate=True) if value.startswith("base64:") else None
    body = value.encode("latin-1") if raw is None else raw
    if node.kind is Kind.FIXED and len(body) != node.size:
        raise ValueError(node.size)
    return body
