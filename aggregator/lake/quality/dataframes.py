"""Presents the staged files of one commit to Spark: the records without tombstones, and the views that suites declare.

Invariant: only files of this commit are read, under the table's own columns, and nothing is cached. A tombstone says
that a key is deleted and holds no values, so no rule applies to it.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, LongType, MapType, StringType, StructField, StructType

from aggregator.lake.columns.columns import FIXED_COLUMNS, conform_to_schema
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder

FILE, ROW = "_staged_file", "_staged_row"


def read_staged(spark: SparkSession, folder: Folder, files: Sequence[StagedFile], columns: pa.Schema) -> DataFrame:
    """The records of staged files; a column that a file lacks is null, one that Spark has no type for is left out.

    Those of an object store are placed already.
    """
    names = [file.path for file in files]
    schema = _spark_schema(columns)
    if folder.on_disk:
        frame = spark.read.schema(schema).parquet(*(f"{folder.address}/{name}" for name in names))
    else:
        frame = _carried(spark, folder, names, schema)
    return frame.filter(~F.coalesce("_deleted", F.lit(False)))


def _carried(spark: SparkSession, folder: Folder, names: Sequence[str], schema: StructType) -> DataFrame:
    """Records of an object store, through Python: Spark's own readers would need a connector and options of theirs."""
    place = StructType([StructField(FILE, StringType()), StructField(ROW, LongType())])
    wanted = StructType([*schema, *place])
    columns = to_arrow_schema(schema)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for name in (names[number] for batch in batches for number in batch.column(0).to_pylist()):
            first = 0
            for rows in folder.batches(name):
                numbers = pa.array(range(first, first + rows.num_rows), pa.int64())
                table = conform_to_schema(rows, columns)
                table = table.append_column(FILE, pa.repeat(name, rows.num_rows)).append_column(ROW, numbers)
                first += rows.num_rows
                yield from table.combine_chunks().to_batches()

    return spark.range(0, len(names), 1, len(names)).mapInArrow(body, wanted)


def with_row_location(frame: DataFrame) -> DataFrame:
    """The same records, each with its file's name and its row in it."""
    if FILE in frame.columns:
        return frame
    return frame.select("*", F.col("_metadata.file_name").alias(FILE), F.col("_metadata.row_index").alias(ROW))


def view(frame: DataFrame, views: Mapping[str, str], name: str) -> DataFrame:
    """One row per element of an array, or per key and value of a map, in a column with the view's name.

    Args:
        frame: The records.
        views: Path by view; a path may begin with the name of another view.
        name: Which; empty for the records themselves.
    """
    if not name:
        return frame
    path = views[name]
    below = path.partition(".")[0]
    under = view(frame, views, below) if below in views and below != name else frame
    elements = F.col(path)
    if isinstance(under.select(elements).schema[0].dataType, MapType):
        elements = F.map_entries(elements)
    return under.withColumn(name, F.explode(elements))


def text_columns(frame: DataFrame, name: str) -> list[str]:
    """Every column of texts, also inside of records; arrays and maps only through a view.

    Args:
        frame: Of a view.
        name: The view, whose own texts are meant; empty for the records.
    """
    fields = [
        field for field in frame.schema if (field.name == name if name else field.name not in FIXED_COLUMNS.names)
    ]
    return [path for field in fields for path in _text_columns(field.name, field.dataType)]


def _text_columns(path: str, kind: DataType) -> list[str]:
    if isinstance(kind, StructType):
        return [text for field in kind for text in _text_columns(f"{path}.{field.name}", field.dataType)]
    return [path] if isinstance(kind, StringType) else []


def _spark_schema(columns: pa.Schema) -> StructType:
    fields = []
    for field in columns:
        try:
            fields.append(StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True)))
        except TypeError:  # PySpark's error for a type that Spark lacks
            continue
    return StructType(fields)
