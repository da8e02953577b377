"""One Spark job for one table's cycle: a task per packed range, without a shuffle and without rows through the JVM.

Invariant: what comes back is one outcome per task, in the order of the plan. Spark's own errors do not leave here.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from aggregator.errors import RetryError
from aggregator.lake.ranges import Outcome
from aggregator.lake.task import StagingTask, decode_outcome, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_job(spark: "SparkSession", task: StagingTask) -> list[Outcome]:
    """Run every task of the plan.

    Raises:
        RetryError: a task could not do its work, or Spark could not run it.
    """

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return run_tasks(task, batches)

    count = len(task.plan)
    try:
        rows = spark.range(0, count, 1, count).mapInArrow(body, "number long, outcome string").collect()
    except Exception as error:  # noqa: BLE001 - py4j, Connect and PySpark raise unrelated families
        raise RetryError(
            f"table {task.name}: the Spark job failed ({type(error).__name__})",
            hint="the executors' log says why; the next cycle tries again",
        ) from None
    return [decode_outcome(row["outcome"]) for row in sorted(rows, key=lambda row: row["number"])]
