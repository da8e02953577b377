"""The warm-up lets Python workers load what a slot needs while the driver still waits for its lease and for the edges.

Invariant: the warm-up only shortens the start. A cold worker loads the same modules when its slot begins. An error here
is logged and has no other effect. `python -m aggregator.replicate.warmup` compiles the code before the first start on a
machine, and writes Spark's class archive.
"""

import importlib
import logging
import threading
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession

from aggregator.engine.archives import forget_archives
from aggregator.engine.driver_jvm import archive_spark
from aggregator.threads import Pulse, Supervised, Threads

# Importing a slot with its dependencies, and loading compiled code from the cache, takes seconds.
_LOADED = ("aggregator.replicate.slot.task", "aggregator.kafka.native.consumer", "aggregator.privacy.kernel.strip")
_TICK_S = 0.05
log = logging.getLogger(__name__)


class WorkerWarmup:
    """Runs one small Spark job beside the other work of the driver.

    Args:
        spark: Where the slots will run.
        slots: How many workers to warm; Spark hands them to the slots.
    """

    def __init__(self, spark: SparkSession, slots: int) -> None:
        self._spark = spark
        self._slots = slots
        self._thread: Supervised | None = None

    def start(self, threads: Threads) -> None:
        """Start the thread that warms the workers up.

        Args:
            threads: The threads of the driver's process.
        """
        self._thread = threads.start("warming", self._warm, stop=threading.Event(), bound_s=None)

    def wait(self, stop: threading.Event) -> None:
        """Until the workers are warm, or `stop` is set: a slot that begins earlier would get a cold worker beside."""
        while self._thread is not None and self._thread.is_alive() and not stop.is_set():
            self._thread.join(_TICK_S)

    def _warm(self, _: Pulse) -> None:
        try:
            self._spark.range(0, self._slots, 1, self._slots).mapInArrow(_loaded, "id long").collect()
        except Exception as error:  # noqa: BLE001 - Spark raises whatever its gateway does
            log.debug("workers start cold (%s)", type(error).__name__)


def load() -> None:
    """Import what a slot needs; what is to be compiled is compiled into this machine's cache, if it is not there."""
    for name in _LOADED:
        importlib.import_module(name)


def _loaded(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    load()
    yield from batches
    forget_archives()


if __name__ == "__main__":
    load()
    archive_spark()
