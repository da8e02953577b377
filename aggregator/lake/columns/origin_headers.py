"""Converts `hub.origin` headers into columns: edge, topic, partition, offset and incarnation of every record.

Invariant: a header that the hub did not write gives nulls, and no error.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from aggregator.escapes import text_or_none

# Six parts, or seven: a further tombstone of a record ends in its number. It deletes what its record would delete,
# under another key.
_ORIGIN_PARTS = (6, 7)


def origin_columns(headers: Sequence[bytes | None]) -> tuple[Any, ...]:
    """Edge, topic, partition, offset, incarnation of `hub.origin` headers, as `coordinates.Origin` writes them."""
    try:
        texts = pl.Series(headers, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.PolarsError:  # not written by the hub: a header is not UTF-8
        texts = pl.Series([text_or_none(header) for header in headers], dtype=pl.String)
    return _alike(texts) or _each(texts)


def _alike(texts: pl.Series) -> tuple[Any, ...] | None:
    """The columns of headers that differ in their offset only, as those of one edge partition do; else None."""
    parts = (texts[0] or "").split("/") if len(texts) else []
    if len(parts) not in _ORIGIN_PARTS or texts.null_count():
        return None
    before, after = "/".join(parts[:4]) + "/", "/" + "/".join(parts[5:])
    long_enough = texts.str.len_bytes() > len((before + after).encode())
    if not (texts.str.starts_with(before) & texts.str.ends_with(after) & long_enough).all():
        return None
    offsets = texts.str.strip_prefix(before).str.strip_suffix(after).cast(pl.Int64, strict=False)
    if offsets.null_count():
        return None
    edge, topic, partition, _, incarnation = (pa.repeat(column[0], len(texts)) for column in _each(texts[:1]))
    return edge, topic, partition, offsets.to_arrow(), incarnation


def _each(texts: pl.Series) -> tuple[Any, ...]:
    parts = texts.str.split("/")
    whole = parts.list.len().is_in(_ORIGIN_PARTS)
    parts = pl.select(pl.when(whole).then(parts)).to_series()

    def text(index: int) -> Any:
        return parts.list.get(index, null_on_oob=True)

    def number(index: int, kind: type[pl.DataType]) -> Any:
        return text(index).cast(kind, strict=False).to_arrow()

    return (
        text(1).to_arrow().cast(pa.string()),
        text(2).to_arrow().cast(pa.string()),
        number(3, pl.Int32),
        number(4, pl.Int64),
        number(5, pl.Int32),
    )
