"""A job for Dagster: what central lacks of a day comes once, and the table is waited for.

Invariant: each step runs the command that a person types. A partition of the job is a day (UTC), which all its steps
share. A plan is made once for a day and kept, so that a step can be tried as often as wanted: who tries again joins the
same backfill, or hears that it has finished. Needs `aggregator` on the PATH; the variables are those of
`airflow_backfill.py`.
"""

import os
import subprocess
from datetime import date, timedelta
from pathlib import Path

from dagster import (
    Backoff,
    DailyPartitionsDefinition,
    Definitions,
    In,
    Nothing,
    OpExecutionContext,
    Out,
    RetryPolicy,
    build_schedule_from_partitioned_job,
    job,
    op,
)

AGAIN = RetryPolicy(max_retries=10, delay=60, backoff=Backoff.LINEAR)


def aggregator(*arguments: str) -> bytes:
    """What a command writes to stdout.

    Raises:
        CalledProcessError: it ended with another code than 0; its sentences are on stderr.
    """
    command = ["aggregator", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603 - no shell, and these words


def plan_file(day: str) -> Path:
    """Where a day's plan is kept."""
    return Path(os.environ["AGGREGATOR_PLANS"]) / f"dagster-{day}.json"


def day_after(day: str) -> str:
    """When a day ends."""
    return f"{date.fromisoformat(day) + timedelta(days=1)}T00:00:00Z"


@op(retry_policy=AGAIN, out=Out(Nothing))
def plan(context: OpExecutionContext) -> None:
    """Write down what central lacks, unless that was done."""
    day, topic = context.partition_key, os.environ["AGGREGATOR_TOPIC"]
    if not plan_file(day).exists():
        span = ("--from", f"{day}T00:00:00Z", "--to", day_after(day))
        made = aggregator("backfill", "plan", "--missing", "--topic", topic, *span, "-o", "json")
        aside = plan_file(day).with_suffix(".new")
        aside.write_bytes(made)
        aside.rename(plan_file(day))


@op(retry_policy=AGAIN, ins={"planned": In(Nothing)}, out=Out(Nothing))
def run(context: OpExecutionContext) -> None:
    """Carry the plan out."""
    aggregator("backfill", "run", "--plan", str(plan_file(context.partition_key)), "--yes")


@op(retry_policy=AGAIN, ins={"done": In(Nothing)}, out=Out(Nothing))
def wait(context: OpExecutionContext) -> None:
    """Wait until the table has everything before the day's end."""
    until = day_after(context.partition_key)
    aggregator("lake", "wait", os.environ["AGGREGATOR_TABLE"], "--until", until, "--timeout", "1h")


@job(partitions_def=DailyPartitionsDefinition(start_date="2026-01-01"))
def aggregator_backfill() -> None:
    """Plan, carry out, wait."""
    wait(done=run(planned=plan()))


nightly = build_schedule_from_partitioned_job(aggregator_backfill)
definitions = Definitions(jobs=[aggregator_backfill], schedules=[nightly])
