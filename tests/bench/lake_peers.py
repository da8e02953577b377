"""Other ways from Kafka to Parquet, as plainly as they are written by hand: what the lake is measured against.

All write the columns of the lake's table, and commit nothing.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

TOPIC, FRAME_BYTES = "eu.orders", 5
GROUP_ROWS = 100_000  # about what 16 MiB of these records are: a row group of each of the ways
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "email", "type": "string"},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "status", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "coupon", "type": ["null", "string"], "default": None},
        {"name": "note", "type": "string"},
    ],
}


def messages(bootstrap: str, partition: int, start: int, end: int) -> Iterator[list]:
    """Batches of committed messages of one partition from `start` to `end`, markers left out."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.min.messages": 100_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, start)])
    over = False
    while not over:
        batch = []
        for message in consumer.consume(10_000, 0.2):
            over = over or message.error() is not None or message.offset() >= end - 1
            if message.error() is None and message.offset() < end:
                batch.append(message)
        if batch:
            yield batch
    consumer.close()


def coordinates(batch: list) -> dict[str, pa.Array]:
    """The columns that the lake's table has beside the fields."""
    headers = pl.Series([dict(message.headers())["hub.origin"] for message in batch], dtype=pl.Binary)
    origins = headers.cast(pl.String).str.split_exact("/", 5).struct.unnest()
    return {
        "_edge": origins["field_1"].to_arrow(),
        "_topic": origins["field_2"].to_arrow(),
        "_partition": origins["field_3"].cast(pl.Int32).to_arrow(),
        "_offset": origins["field_4"].cast(pl.Int64).to_arrow(),
        "_incarnation": origins["field_5"].cast(pl.Int32).to_arrow(),
        "_timestamp": pa.array([message.timestamp()[1] for message in batch], pa.timestamp("ms")),
        "_key": pa.array([message.key() for message in batch], pa.binary()),
        "_deleted": pa.array([message.value() is None for message in batch]),
        "_central_topic": pa.repeat(TOPIC, len(batch)),
        "_central_partition": pa.array([message.partition() for message in batch], pa.int32()),
        "_central_offset": pa.array([message.offset() for message in batch], pa.int64()),
    }


def decoded(batch: list) -> pa.Table:
    """A batch by polars: one Avro block in memory, the frames left out."""
    header = io.BytesIO()
    fastavro.writer(header, ORDER, [], sync_marker=bytes(16))
    body = b"".join([message.value()[FRAME_BYTES:] for message in batch])
    block = b"".join((header.getvalue(), long(len(batch)), long(len(body)), body, bytes(16)))
    table = pl.read_avro(io.BytesIO(block)).to_arrow()
    for name, column in coordinates(batch).items():
        table = table.append_column(name, column)
    return table


def long(number: int) -> bytes:
    """Avro's varint of a count."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


class Written:
    """A Parquet file that takes tables and writes row groups."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path, self._rows, self._waiting = path, rows, []
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Take a table."""
        self._waiting.append(table)
        if sum(one.num_rows for one in self._waiting) >= self._rows:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one row group."""
        if not self._waiting:
            return
        table, self._waiting = pa.concat_tables(self._waiting), []
        self._writer = self._writer or pq.ParquetWriter(
            self._path, table.schema, compression="zstd", compression_level=1
        )
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        """End the file."""
        self.flush()
        if self._writer:
            self._writer.close()


def by_polars(bootstrap: str, folder: Path, spans: list[tuple[int, int, int]]) -> None:
    """Way (a)."""
    for partition, start, end in spans:
        out = Written(folder / f"{partition}.parquet", GROUP_ROWS)
        for batch in messages(bootstrap, partition, start, end):
            out.add(decoded(batch))
        out.close()


def by_rows(bootstrap: str, folder: Path, spans: list[tuple[int, int, int]]) -> None:
    """Way (b)."""
    parsed = fastavro.parse_schema(ORDER)
    for partition, start, end in spans:
        out = Written(folder / f"{partition}.parquet", GROUP_ROWS)
        for batch in messages(bootstrap, partition, start, end):
            rows = []
            for message in batch:
                row = fastavro.schemaless_reader(io.BytesIO(message.value()[FRAME_BYTES:]), parsed)
                origin = dict(message.headers())["hub.origin"].decode().split("/")
                row |= {
                    "_edge": origin[1],
                    "_topic": origin[2],
                    "_partition": int(origin[3]),
                    "_offset": int(origin[4]),
                    "_incarnation": int(origin[5]),
                    "_timestamp": message.timestamp()[1],
                    "_key": message.key(),
                    "_deleted": message.value() is None,
                    "_central_topic": message.topic(),
                    "_central_partition": message.partition(),
                    "_central_offset": message.offset(),
                }
                rows.append(row)
            out.add(pa.Table.from_pylist(rows))
        out.close()


class Span(InputPartition):
    """Offsets of one partition."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        super().__init__((partition, start, end))


class Reader(DataSourceReader):
    """Reads the spans that the options name, as Arrow batches."""

    def __init__(self, options: dict) -> None:
        self.bootstrap, self.spans = options["bootstrap"], json.loads(options["spans"])

    def partitions(self) -> list[Span]:
        return [Span(*span) for span in self.spans]

    def read(self, partition: Span) -> Iterator[pa.RecordBatch]:
        for batch in messages(self.bootstrap, *partition.value):
            table = decoded(batch)
            columns = [column.cast(small(column.type)) for column in table.columns]
            yield from pa.Table.from_arrays(columns, names=table.column_names).combine_chunks().to_batches()


def small(kind: pa.DataType) -> pa.DataType:
    """Spark takes texts with small offsets, and times in microseconds."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


class Source(DataSource):
    """The topic as a Spark data source in Python."""

    @classmethod
    def name(cls) -> str:
        return "bench"

    def schema(self) -> str:
        return (
            "order_id long, customer string, email string, created timestamp_ntz, status string, amount double,"
            " quantity int, coupon string, note string, _edge string, _topic string, _partition int, _offset long,"
            " _incarnation int, _timestamp timestamp_ntz, _key binary, _deleted boolean, _central_topic string,"
            " _central_partition int, _central_offset long"
        )

    def reader(self, schema: object) -> Reader:
        return Reader(self.options)
