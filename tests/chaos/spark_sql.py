"""Tables read by Spark's own SQL."""

import json
import subprocess
import sys

from tests.processes import environment

RUNTIMES = {
    "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0,org.xerial:sqlite-jdbc:3.50.3.0",
}


SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.lake.warehouse": "{folder}",
        "spark.sql.catalog.lake.uri": "jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
    },
}


QUERY = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("rows", json.dumps([list(row) for row in spark.sql(sys.argv[2]).collect()], default=str))
spark.stop()
"""


def by_spark(kind: str, folder, query: str) -> list[list]:
    """What Spark SQL answers, with the format's own runtime.

    Args:
        kind: `delta` or `iceberg`.
        folder: Of the lake.
        query: With `{table:…}` in the place of a table's name.
    """
    place = f"delta.`{folder}/" if kind == "delta" else "lake.lake.`"
    query = query.replace("{table:", place).replace("}", "`")
    settings = {name: value.format(folder=folder) for name, value in SETTINGS[kind].items()}
    settings |= {
        "spark.jars.packages": RUNTIMES[kind],
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", QUERY, json.dumps(settings), query],
        capture_output=True,
        text=True,
        timeout=400,
        env=environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert done.returncode == 0, [line for line in done.stderr.splitlines() if "Exception" in line]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("rows ")]
    return json.loads(line.removeprefix("rows "))
