"""Decodes central records into columns. It takes one batch of one partition and returns one Arrow table, with rows in
central's order.

Records of one schema share their five frame bytes (magic, schema id). A group of them is decoded as one Avro block. In
the block each body is followed by the *next* record's frame, which is read as a last field of the record. If a body is
too long or too short for its schema, the frame is not at its place. The group is then refused, and no value is read
from a shifted position.

Invariant: both decoders give the same table. A number that its column cannot hold costs only its own value (see
`out_of_range`). A record that does not decode is refused, and the refusal names its coordinates only.
"""

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from aggregator.errors import DeadLetterError, HoldError
from aggregator.kafka.readers.committed_reader import CommittedRecords
from aggregator.lake.columns.arrow_types import RECORD_TIMES, ArrowRecord, Nothing, Shape, read_shape
from aggregator.lake.columns.columns import FIXED_COLUMNS, columns_of, conform_to_schema, is_promotable, merge_schemas
from aggregator.lake.columns.native_columns import lift
from aggregator.lake.columns.origin_headers import origin_columns
from aggregator.lake.columns.out_of_range import (
    OUT_OF_RANGE_COLUMN,
    ColumnPlace,
    Note,
    bare_decimals,
    flags,
    noted,
    null_out_of_range,
    with_notes,
)
from aggregator.lake.columns.plain_schema import (
    FRAME_FIELD,
    holds_union,
    numbered,
    plain_schema,
    union_unwrapper,
    wire_arrow,
)
from aggregator.schema.wire import HEADER_BYTES

_TIMESTAMP = "_timestamp"
_MS, _US = pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")
_FEW = 64  # if one value of so few is out of range, all of them are decoded again one by one
_SYNC = bytes(range(16))


class Undecodable(Exception):
    """A group of bodies does not fit its schema. The error has no text: a library's text may quote the value."""


@dataclass(frozen=True)
class Decoder:
    """Reads the values of one central schema.

    Args:
        record: The schema's shape.
        engine: `polars`, or `fastavro`; both read every shape that `polars` can.
    """

    record: ArrowRecord
    engine: str

    @classmethod
    def of(cls, schema: str, engine: str | None = None) -> "Decoder":
        """The decoder of a schema text, by the engine that suits its shape unless one is named.

        Raises:
            HoldError: no table can hold the schema.
        """
        record = read_shape(schema)
        columns_of(record)
        return cls(record, engine or ("fastavro" if holds_union(record) else "polars"))

    def columns(self, values: Sequence[bytes]) -> pa.Table:
        """Native columns of values that share one frame.

        Args:
            values: Framed values; at least one.

        Raises:
            Undecodable: one of them is not of this schema, or holds what its column cannot.

        Returns:
            Its columns, and `_out_of_range` where one of the values has a number that its column cannot hold.
        """
        tables = list(self._read(values, values[0][:HEADER_BYTES]))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default").combine_chunks()

    def _read(self, values: Sequence[bytes], frame: bytes) -> Iterator[pa.Table]:
        """Decode values into tables. If polars fails, the batch is halved, so that the slow decoder gets only a few."""
        if values[0][:HEADER_BYTES] != frame:
            raise Undecodable
        data = b"".join([values[0][HEADER_BYTES:], *values[1:], frame])
        top = ColumnPlace("", partial(np.arange, len(values)))
        plain = self._by_polars(data, len(values), frame) if self.engine == "polars" else None
        if plain is not None:
            yield self._lifted(plain, top, len(values))
        elif self.engine == "polars" and len(values) > _FEW:
            for half in (slice(None, len(values) // 2), slice(len(values) // 2, None)):
                yield from self._read(values[half], frame)
        else:
            yield self._lifted(self._by_fastavro(data, len(values), frame, top.notes), top, len(values))

    def _lifted(self, plain: Mapping[str, Any], top: ColumnPlace, count: int) -> pa.Table:
        try:
            lifted = [lift(shape, plain[at], top.inside(name)) for at, name, shape in self._parts]
        except (pa.ArrowException, ValueError):
            raise Undecodable from None
        table = pa.table(lifted, names=[name for _, name, _ in self._parts])
        return table.append_column(OUT_OF_RANGE_COLUMN, flags(top.notes, count)) if top.notes else table

    @cached_property
    def _parts(self) -> list[tuple[str, str, Shape]]:
        """Plain name, column and shape of every field that holds something."""
        kept = [numbered(index) for index, one in enumerate(self.record.fields) if not isinstance(one.shape, Nothing)]
        return [(at, *column) for at, column in zip(kept, columns_of(self.record), strict=True)]

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return plain_schema(self.record)

    @cached_property
    def _header(self) -> bytes:
        """Header of an Object Container File without compression (Avro 1.12, "Object Container Files")."""
        schema = json.dumps(self._plain).encode()
        return b"Obj\x01" + _long(1) + _bytes(b"avro.schema") + _bytes(schema) + _long(0) + _SYNC

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self._plain)

    @cached_property
    def _unwrap(self) -> Callable[[Any], Any]:
        return union_unwrapper(self.record)

    @cached_property
    def _bare(self) -> Any:
        return fastavro.parse_schema(plain_schema(self.record, bare=True))

    def _by_polars(self, data: bytes, count: int, frame: bytes) -> dict[str, Any] | None:
        """Decode with Polars; None if Polars cannot read the data, and another decoder perhaps can."""
        block = b"".join((self._header, _long(count), _long(len(data)), data, _SYNC))
        try:
            read = pl.read_avro(io.BytesIO(block)).to_arrow()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
            # A Rust panic is a BaseException. The values may still be valid (a decimal padded beyond 16 bytes).
            return None
        if (
            read.num_rows != count
            or not pc.all(pc.equal(read[FRAME_FIELD], pa.scalar(frame, pa.large_binary()))).as_py()
        ):
            raise Undecodable
        return {name: read.column(name).combine_chunks() for name in read.column_names}

    def _by_fastavro(self, data: bytes, count: int, frame: bytes, notes: list[Note]) -> dict[str, Any]:
        try:
            struct = self._struct(_rows(data, count, frame, self._parsed))
        except Undecodable:  # perhaps a decimal of more digits than its schema says
            rows = map(self._unwrap, _rows(data, count, frame, self._bare))
            struct = self._struct([self._bounded(at, row, notes) for at, row in enumerate(rows)], unwrap=False)
        return {struct.type.field(index).name: struct.field(index) for index in range(struct.type.num_fields)}

    def _bounded(self, at: int, row: Mapping[str, Any], notes: list[Note]) -> dict[str, Any]:
        def note(path: str, number: int) -> None:
            notes.append(noted(at, path, number))

        return {plain: bare_decimals(shape, row[plain], name, note) for plain, name, shape in self._parts}

    def _struct(self, rows: list[Any], *, unwrap: bool = True) -> Any:
        try:
            return pa.array(map(self._unwrap, rows) if unwrap else rows, type=wire_arrow(self.record), size=len(rows))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise Undecodable from None


def _rows(data: bytes, count: int, frame: bytes, schema: Any) -> list[Any]:
    """The rows that fastavro decodes from `count` bodies, each followed by the next one's frame.

    Raises:
        Undecodable: they are not of this schema.
    """
    source = io.BytesIO(data)
    try:
        rows = [
            fastavro.schemaless_reader(source, schema, None, return_record_name=True, return_record_name_override=True)
            for _ in range(count)
        ]
    except Exception:  # noqa: BLE001 - fastavro raises what its C code meets: IndexError, EOFError, UnicodeError, …
        raise Undecodable from None
    if source.tell() != len(data) or any(row.pop(FRAME_FIELD) != frame for row in rows):
        raise Undecodable
    return rows


@dataclass
class BatchDecoder:
    """Decodes batches; keeps one decoder per schema id.

    Args:
        schema_text: Central schema text by id; what it raises is translated into a held range.
    """

    schema_text: Callable[[int], str]
    decoders: dict[bytes, Decoder] = field(default_factory=dict)

    def table(self, batch: CommittedRecords) -> pa.Table:
        """Rows of a batch: the fixed columns, then the fields of all its schemas, then what is out of range of them.

        Raises:
            RecordHeld: a record does not decode; names topic, partition and offset.
            HoldError: its schemas do not fit side by side; says what differs.
            RetryError: the registry does not answer.
        """
        times = ColumnPlace(_TIMESTAMP, partial(np.arange, len(batch)))
        return with_notes(self._table(batch, _fixed_columns(batch, times)), times.notes)

    def _table(self, batch: CommittedRecords, fixed: pa.Table) -> pa.Table:
        columns = self._alike(batch)
        if columns is not None:
            return pa.table([*fixed.columns, *columns.columns], names=[*fixed.column_names, *columns.column_names])
        groups: dict[bytes, list[int]] = {}
        for index, value in enumerate(batch.values):
            if value is not None:
                groups.setdefault(value[:HEADER_BYTES], []).append(index)
        return self._merge_groups(batch, groups, fixed) if groups else fixed

    def _alike(self, batch: CommittedRecords) -> pa.Table | None:
        """The columns of values that share one schema, as most do; None where they do not, or one does not decode.

        Frames are not compared beforehand: decoding compares each of them.
        """
        values = batch.values
        if None in values:
            return None
        framed = cast("Sequence[bytes]", values)
        frame = framed[0][:HEADER_BYTES]
        if framed[-1][:HEADER_BYTES] != frame:
            return None
        try:
            return self._decoder(batch, frame, 0).columns(framed)
        except Undecodable:
            return None

    def _merge_groups(self, batch: CommittedRecords, groups: dict[bytes, list[int]], fixed: pa.Table) -> pa.Table:
        """Several schemas, or tombstones between values: decode each group, then put the rows back in order."""
        decoded = [self._group(batch, frame, indices) for frame, indices in groups.items()]
        schema = decoded[0].schema
        for table in decoded[1:]:
            schema = merge_schemas(schema, table.schema, is_promotable)  # the table decides whether it can follow
        stacked = pa.concat_tables([conform_to_schema(table, schema) for table in decoded])
        rows: list[int | None] = [None] * len(batch)
        for row, index in enumerate(itertools.chain.from_iterable(groups.values())):
            rows[index] = row
        columns = stacked.combine_chunks().take(pa.array(rows, pa.int64()))
        return pa.table([*fixed.columns, *columns.columns], names=[*fixed.column_names, *columns.column_names])

    def _group(self, batch: CommittedRecords, frame: bytes, indices: Sequence[int]) -> pa.Table:
        decoder = self._decoder(batch, frame, indices[0])
        values = cast("Sequence[bytes]", batch.values)
        if len(indices) < len(batch):
            values = [values[index] for index in indices]
        try:
            return decoder.columns(values)
        except Undecodable:
            raise record_held(batch, _first_bad(decoder, values, indices), "does not decode under its schema") from None

    def _decoder(self, batch: CommittedRecords, frame: bytes, index: int) -> Decoder:
        known = self.decoders.get(frame)
        if known is not None:
            return known
        if len(frame) < HEADER_BYTES or frame[0] != 0:
            raise record_held(batch, index, "is not framed as Avro with a schema id")
        schema_id = int.from_bytes(frame[1:], "big")
        try:
            decoder = Decoder.of(self.schema_text(schema_id))
        except (HoldError, DeadLetterError) as error:
            raise record_held(batch, index, f"has schema {schema_id}: {error.message}", error.hint) from None
        return self.decoders.setdefault(frame, decoder)


class RecordHeld(HoldError):
    """The table cannot go past one record.

    Args:
        offset: Its central offset; everything before it can be committed.
        message: What is wrong with it.
    """

    def __init__(self, offset: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offset = offset


def newest_schema(batch: CommittedRecords) -> int:
    """The index at which the last new schema of a batch begins.

    Args:
        batch: At least one record.

    Returns:
        The index of its first record; 0 in a batch of tombstones.
    """
    first: dict[bytes, int] = {}
    for index, value in enumerate(batch.values):
        if value is not None:
            first.setdefault(value[:HEADER_BYTES], index)
    return max(first.values(), default=0)


def record_held(batch: CommittedRecords, index: int, what: str, hint: str = "") -> RecordHeld:
    """The error for a record of a batch that the table cannot go past.

    Its text does not name the record, so that partitions with the same fault are told as one; its offset does.
    """
    hint = hint or "the table waits before this record; central holds it unchanged"
    return RecordHeld(batch.offsets[index], f"its record {what}", hint=hint)


def _first_bad(decoder: Decoder, values: Sequence[bytes], indices: Sequence[int]) -> int:
    """Decode records one by one and return the index of the first that fails: slow, and once per held record."""
    for value, index in zip(values, indices, strict=True):
        try:
            decoder.columns([value])
        except Undecodable:
            return index
    return indices[0]


def _fixed_columns(batch: CommittedRecords, times: ColumnPlace) -> pa.Table:
    """The fixed columns; without a readable `hub.origin` the origin's columns are null."""
    count = len(batch)
    edge, topic, partition, offset, incarnation = origin_columns(batch.origins)
    arrays = [
        edge,
        topic,
        partition,
        offset,
        incarnation,
        null_out_of_range(pa.array(batch.timestamps_ms, pa.int64()), RECORD_TIMES, times).cast(_MS).cast(_US),
        pa.array(batch.keys, pa.binary()),
        pa.array([value is None for value in batch.values]) if None in batch.values else pa.repeat(False, count),
        pa.repeat(batch.topic, count),
        pa.repeat(pa.scalar(batch.partition, pa.int32()), count),
        pa.array(batch.offsets, pa.int64()),
    ]
    return pa.Table.from_arrays(arrays, schema=FIXED_COLUMNS)


def _long(number: int) -> bytes:
    """Avro's zig-zag varint of a count or a length."""
    number, encoded = number << 1, bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes(content: bytes) -> bytes:
    return _long(len(content)) + content
