"""A job for Dagster: what central lacks of a day comes once, and the table is waited for.

Invariant: each step runs the command that a person types. A plan is made once for a day and kept, so that a step can be
tried as often as wanted: who tries again joins the same backfill, or hears that it has finished. Needs `aggregator` on
the PATH; the variables are those of `airflow_backfill.py`.
"""

import os
import subprocess
from datetime import date, timedelta
from pathlib import Path

from dagster import Backoff, Config, Definitions, In, Nothing, Out, RetryPolicy, ScheduleDefinition, job, op

AGAIN = RetryPolicy(max_retries=10, delay=60, backoff=Backoff.LINEAR)


class Day(Config):
    """The day, as 2026-11-28; by default yesterday."""

    day: str = ""

    @property
    def begins(self) -> date:
        """Its date."""
        return date.fromisoformat(self.day) if self.day else date.today() - timedelta(days=1)  # noqa: DTZ011 - the host's

    @property
    def ends(self) -> date:
        """The day after it."""
        return self.begins + timedelta(days=1)

    @property
    def plan(self) -> Path:
        """Where its plan is kept."""
        return Path(os.environ["AGGREGATOR_PLANS"]) / f"dagster-{self.begins}.json"


def aggregator(*arguments: str) -> bytes:
    """What a command writes to stdout.

    Raises:
        CalledProcessError: it ended with another code than 0; its sentences are on stderr.
    """
    command = ["aggregator", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603 - no shell, and these words


@op(retry_policy=AGAIN, out=Out(Nothing))
def plan(config: Day) -> None:
    """Write down what central lacks, unless that was done."""
    if not config.plan.exists():
        topic = os.environ["AGGREGATOR_TOPIC"]
        span = ("--from", f"{config.begins}T00:00:00Z", "--to", f"{config.ends}T00:00:00Z")
        made = aggregator("backfill", "plan", "--missing", "--topic", topic, *span, "-o", "json")
        aside = config.plan.with_suffix(".new")
        aside.write_bytes(made)
        aside.rename(config.plan)


@op(retry_policy=AGAIN, ins={"planned": In(Nothing)}, out=Out(Nothing))
def run(config: Day) -> None:
    """Carry the plan out."""
    aggregator("backfill", "run", "--plan", str(config.plan), "--yes")


@op(retry_policy=AGAIN, ins={"done": In(Nothing)}, out=Out(Nothing))
def wait(config: Day) -> None:
    """Wait until the table has everything before the day's end."""
    until = f"{config.ends}T00:00:00Z"
    aggregator("lake", "wait", os.environ["AGGREGATOR_TABLE"], "--until", until, "--timeout", "1h")


@job
def aggregator_backfill() -> None:
    """Plan, carry out, wait."""
    wait(done=run(planned=plan()))


nightly = ScheduleDefinition(job=aggregator_backfill, cron_schedule="0 2 * * *")
definitions = Definitions(jobs=[aggregator_backfill], schedules=[nightly])
