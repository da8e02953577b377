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
from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.cycle.task import StagingPlan, TaskGroup, decode_outcome, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = "table long, number long, outcome string"


class JobLost(RetryError):
    """Spark could not run a job of a single table. What that job reads may end the process that reads it."""


def run_job(spark: "SparkSession", plan: StagingPlan) -> list[StagingOutcome]:
    """Run every task of one table's plan, each as a Spark task.

    Raises:
        RetryError: a task could not do its work, or Spark could not run it.
    """
    (found,) = run_jobs(spark, [plan], parallel=len(plan.tasks))
    if isinstance(found, RetryError):
        raise found
    return found


def run_jobs(
    spark: "SparkSession", plans: Sequence[StagingPlan], *, parallel: int
) -> list[list[StagingOutcome] | RetryError]:
    """Run the plans of several tables.

    Args:
        spark: The session.
        plans: What to stage, one for each table.
        parallel: Spark tasks that run at a time. Each runs a group of their tasks, because a Spark task costs more than
            a small table's records.

    Returns:
        The outcomes of each table, or the error that stopped one of its tasks.
    """
    groups = pack_tasks(plans, parallel)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return run_tasks(plans, groups, batches)

    try:
        rows = spark.range(0, len(groups), 1, len(groups)).mapInArrow(body, _ROW).collect()
    except Exception as error:  # noqa: BLE001 - py4j, Connect and PySpark raise unrelated families
        half = len(plans) // 2
        if half:
            parts = (plans[:half], plans[half:])
            return [one for part in parts for one in run_jobs(spark, part, parallel=parallel)]
        why = f"table {plans[0].name}: the Spark job failed ({type(error).__name__})"
        return [JobLost(why, hint="the executors' log says why; the next cycle tries again")]
    texts: list[list[str]] = [[] for _ in plans]
    for row in sorted(rows, key=lambda row: (row["table"], row["number"])):
        texts[row["table"]].append(row["outcome"])
    return [_decoded(plan, found) for plan, found in zip(plans, texts, strict=True)]


def pack_tasks(plans: Sequence[StagingPlan], parallel: int) -> tuple[TaskGroup, ...]:
    """The tasks of each Spark task. The longest goes first, to the least loaded group; no group is empty.

    Args:
        plans: The staging plans of the tables.
        parallel: The greatest number of groups.
    """
    sized = sorted(
        (sum(len(span.offsets) for span in spans), table, number)
        for table, plan in enumerate(plans)
        for number, spans in enumerate(plan.tasks)
    )
    loads: list[tuple[int, int, list[tuple[int, int]]]] = [(0, at, []) for at in range(min(parallel, len(sized)))]
    for records, table, number in reversed(sized):
        load, at, group = heapq.heappop(loads)
        heapq.heappush(loads, (load + records, at, [*group, (table, number)]))
    return tuple(tuple(group) for _, _, group in sorted(loads, key=lambda one: one[1]))


def _decoded(plan: StagingPlan, texts: Sequence[str]) -> list[StagingOutcome] | RetryError:
    if len(texts) != len(plan.tasks):
        told = f"{len(texts)} of {len(plan.tasks)} tasks"
        return RetryError(f"table {plan.name}: Spark answered for {told}", hint="the next cycle tries again")
    try:
        return [decode_outcome(text) for text in texts]
    except RetryError as error:
        return error
