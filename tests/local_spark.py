"""As much of a Spark session as a hub asks for: one task per number, in threads of this process, without retries.

A JVM and its Python workers take seconds of CPU to start; what they run is the same code.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa


class Row(dict):
    """As much of Spark's row as its readers use."""

    __getattr__ = dict.__getitem__


@dataclass(frozen=True)
class Job:
    """Some numbers, and what is made of each."""

    numbers: Sequence[int]
    task: Callable[[int], Row] = lambda number: Row(id=number)

    def mapInArrow(self, body, _schema) -> "Job":  # noqa: N802 - Spark's name
        def one(number: int) -> Row:
            (batch,) = body(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
            return Row({name: batch.column(name)[0].as_py() for name in batch.schema.names})

        return replace(self, task=one)

    def collect(self) -> list[Row]:
        with ThreadPoolExecutor(len(self.numbers)) as pool:
            return list(pool.map(self.task, self.numbers))


class LocalSpark:
    """The session."""

    @property
    def sparkContext(self) -> "LocalSpark":  # noqa: N802 - Spark's name
        return self

    def setJobGroup(self, _group: str, _description: str) -> None:  # noqa: N802 - Spark's name
        """Nobody asks for it."""

    def range(self, start: int, end: int, _step: int, _parts: int) -> Job:
        return Job(range(start, end))

    def stop(self) -> None:
        """Nothing runs beyond its call."""
