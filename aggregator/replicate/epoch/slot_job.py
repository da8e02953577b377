"""This module runs an epoch's slots as one Spark job, and ends the epoch through the control topic when it is due.

Invariant: this part of the driver only watches while slots run. It ends slots by force only if they have not answered
for longer than any transaction can last. A driver that has lost its lease does not wait for its slots. If one slot ends
by itself while others run on, the epoch ends, because the flows of that slot would stand still. A slot ends by itself
when it failed, or when it was fenced because central timed out its transaction.
"""

import re
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from aggregator.errors import TransactionAborted
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.slot.plan import SlotOutcome, SlotResult
from aggregator.replicate.slot.task import EpochWork, run_slots
from aggregator.threads import Pulse, Threads

_TICK_S = 0.1
_COUNT_EVERY_S = 1.0
# Longer than a transaction's time-out plus the broker's sweep: a live slot commits and ends within this time.
_END_PATIENCE_S = 40.0
# How a traceback from Spark shows an error that is defined in `errors.py`.
_OURS = re.compile(r"^aggregator\.errors\.\w+: (.*)$", re.MULTILINE)


def run_slot_job(
    spark: SparkSession,
    work: EpochWork,
    central: KafkaDriverCentral,
    renewal: LeaseRenewal,
    *,
    threads: Threads,
    is_due: Callable[[], bool],
) -> list[SlotOutcome]:
    """Run the slots of one epoch to their end.

    Args:
        spark: Spark session in which they run.
        work: Their plans.
        central: The driver's central, which asks them to end.
        renewal: The driver's lease.
        threads: Threads of the driver's process.
        is_due: Whether the epoch should end; asked ten times a second until it says so.

    Raises:
        AggregatorError: the lease was lost, with whatever took it.
    """
    outcomes: list[SlotOutcome] = []
    slots = _SlotsJob(spark, work)

    def job(_: Pulse) -> None:
        try:
            slots.mark()
            outcomes.extend(run_slots(spark, work))
        except BaseException as error:  # noqa: BLE001 - Spark raises whatever its gateway does; the driver lives on
            outcomes.append(SlotOutcome(-1, SlotResult.FAILED, detail=_error_text(error)))

    thread = threads.start("slots", job, stop=threading.Event(), bound_s=None)
    ending: float | None = None
    while thread.is_alive():
        thread.join(_TICK_S)
        if renewal.lost is not None:
            raise renewal.lost
        if ending is None and (is_due() or slots.one_ended(time.monotonic())):
            ending = _ask_to_end(central, work.plans[0].epoch)
        if ending is not None and time.monotonic() - ending > _END_PATIENCE_S:
            slots.cancel()
    return outcomes


class _SlotsJob:
    """Watches an epoch's slots in Spark. In a drain, slots end one by one as they finish, so an end means nothing."""

    def __init__(self, spark: SparkSession, work: EpochWork) -> None:
        self._spark = spark
        self._group = f"slots {work.plans[0].names.hub} {work.plans[0].epoch}"
        self._endless = not work.plans[0].drain
        self._counted = time.monotonic()

    def mark(self) -> None:
        """Assign the Spark jobs of this thread to the job group of the slots."""
        self._spark.sparkContext.setJobGroup(self._group, "the slots of an epoch")

    def cancel(self) -> None:
        """Cancel the marked Spark jobs, and no others: the lake's jobs continue."""
        self._spark.sparkContext.cancelJobGroup(self._group)

    def one_ended(self, now: float) -> bool:
        """Whether a slot has ended that should not have; Spark is asked once a second."""
        if not self._endless or now - self._counted < _COUNT_EVERY_S:
            return False
        self._counted, shown = now, self._spark.sparkContext.statusTracker()
        jobs = [shown.getJobInfo(job) for job in shown.getJobIdsForGroup(self._group)]
        stages = [shown.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage is not None and stage.numCompletedTasks > 0 for stage in stages)


def _ask_to_end(central: KafkaDriverCentral, epoch: int) -> float | None:
    try:
        central.publish(epoch)
    except TransactionAborted:
        return None
    return time.monotonic()


def _error_text(error: BaseException) -> str:
    """The message of a failed task, if it is an error of ours; any other text may quote a record and is left out."""
    said = _OURS.findall(str(error))
    return said[-1] if said else f"the Spark job failed ({type(error).__name__})"
