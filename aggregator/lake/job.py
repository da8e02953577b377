"""Runs one Spark job that stages for many tables. The ranges are packed into tasks; there is no shuffle, and no row
passes through the JVM.

Invariant: the job returns one outcome for each task of each table, in the order of its plan. A task that fails affects
only its own table. If Spark loses a whole job, the job is run again in halves. Spark's own errors do not leave this
module.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from aggregator.errors import RetryError
from aggregator.lake.ranges import StagingOutcome
from aggregator.lake.task import Share, StagingTask, decode_outcome, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = "table long, number long, outcome string"


class JobLost(RetryError):
    """Spark could not run a job of a single table. What that job reads may end the process that reads it."""


def run_job(spark: "SparkSession", task: StagingTask) -> list[StagingOutcome]:
    """Run every task of one table's plan, each as a Spark task.

    Raises:
        RetryError: a task could not do its work, or Spark could not run it.
    """
    (found,) = run_jobs(spark, [task], parallel=len(task.plan))
    if isinstance(found, RetryError):
        raise found
    return found


def run_jobs(
    spark: "SparkSession", tables: Sequence[StagingTask], *, parallel: int
) -> list[list[StagingOutcome] | RetryError]:
    """Run the plans of several tables.

    Args:
        spark: The session.
        tables: What to stage for each.
        parallel: Spark tasks that run at a time. Each runs a share of all plans, because a Spark task costs more than
            a small table's records.

    Returns:
        The outcomes of each table, or the error that stopped one of its tasks.
    """
    packed = shares(tables, parallel)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return run_tasks(tables, packed, batches)

    try:
        rows = spark.range(0, len(packed), 1, len(packed)).mapInArrow(body, _ROW).collect()
    except Exception as error:  # noqa: BLE001 - py4j, Connect and PySpark raise unrelated families
        half = len(tables) // 2
        if half:
            parts = (tables[:half], tables[half:])
            return [one for part in parts for one in run_jobs(spark, part, parallel=parallel)]
        why = f"table {tables[0].name}: the Spark job failed ({type(error).__name__})"
        return [JobLost(why, hint="the executors' log says why; the next cycle tries again")]
    texts: list[list[str]] = [[] for _ in tables]
    for row in sorted(rows, key=lambda row: (row["table"], row["number"])):
        texts[row["table"]].append(row["outcome"])
    return [_decoded(table, found) for table, found in zip(tables, texts, strict=True)]


def shares(tables: Sequence[StagingTask], parallel: int) -> tuple[Share, ...]:
    """Return the tasks of each Spark task. The longest plan goes first, to the least loaded share; no share is empty.

    Args:
        tables: The tables' staging tasks, with their plans.
        parallel: The greatest number of shares.
    """
    sized = sorted(
        (sum(len(span.offsets) for span in spans), table, number)
        for table, task in enumerate(tables)
        for number, spans in enumerate(task.plan)
    )
    loads: list[tuple[int, int, list[tuple[int, int]]]] = [(0, at, []) for at in range(min(parallel, len(sized)))]
    for records, table, number in reversed(sized):
        load, at, share = heapq.heappop(loads)
        heapq.heappush(loads, (load + records, at, [*share, (table, number)]))
    return tuple(tuple(share) for _, _, share in sorted(loads, key=lambda one: one[1]))


def _decoded(table: StagingTask, texts: Sequence[str]) -> list[StagingOutcome] | RetryError:
    if len(texts) != len(table.plan):
        told = f"{len(texts)} of {len(table.plan)} tasks"
        return RetryError(f"table {table.name}: Spark answered for {told}", hint="the next cycle tries again")
    try:
        return [decode_outcome(text) for text in texts]
    except RetryError as error:
        return error
