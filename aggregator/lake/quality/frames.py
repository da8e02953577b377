"""The staged files of one commit as Spark sees them: records without tombstones, and the views that suites declare.

Invariant: reads the files of this commit and no others, under the table's own columns; nothing is cached. A tombstone
says that a key is gone and holds no values, so no rule speaks of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

from aggregator.lake.columns import FIXED_COLUMNS
from aggregator.lake.files import StagedFile

FILE, ROW = "_staged_file", "_staged_row"


def staged(spark: SparkSession, folder: Path, files: Sequence[StagedFile], columns: pa.Schema) -> DataFrame:
    """The records of staged files; a column that a file lacks is null, one that Spark has no type for is left out."""
    paths = [f"file://{folder / file.path}" for file in files]  # whatever a cluster's default file system is
    return spark.read.schema(_spark_schema(columns)).parquet(*paths).filter(~F.coalesce("_deleted", F.lit(False)))


def placed(frame: DataFrame) -> DataFrame:
    """The same records, each with its file's name and its row in it."""
    return frame.select("*", F.col("_metadata.file_name").alias(FILE), F.col("_metadata.row_index").alias(ROW))


def view(frame: DataFrame, views: Mapping[str, str], name: str) -> DataFrame:
    """One row per element of an array, or per key and value of a map, in a column that has the view's name.

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


def texts(frame: DataFrame, name: str) -> list[str]:
    """Every column of texts, also inside of records; arrays and maps only through a view.

    Args:
        frame: Of a view.
        name: The view, whose own texts are meant; empty for the records.
    """
    fields = [
        field for field in frame.schema if (field.name == name if name else field.name not in FIXED_COLUMNS.names)
    ]
    return [path for field in fields for path in _texts(field.name, field.dataType)]


def _texts(path: str, kind: DataType) -> list[str]:
    if isinstance(kind, StructType):
        return [text for field in kind for text in _texts(f"{path}.{field.name}", field.dataType)]
    return [path] if isinstance(kind, StringType) else []


def _spark_schema(columns: pa.Schema) -> StructType:
    fields = []
    for field in columns:
        try:
            fields.append(StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True)))
        except TypeError:  # PySpark's word for a type that Spark lacks
            continue
    return StructType(fields)
