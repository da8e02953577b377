"""As much of a Spark session as a hub asks for: a task for each number, in threads of this process, without retries.

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
    """Some numbers, and the rows that are made of each."""

    numbers: Sequence[int]
    task: Callable[[int], list[Row]] = lambda number: [Row(id=number)]

    def mapInArrow(self, body, _schema) -> "Job":  # noqa: N802 - Spark's name
        def rows(number: int) -> list[Row]:
            batches = body(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
            return [Row(row) for batch in batches for row in batch.to_pylist()]

        return replace(self, task=rows)

    def collect(self) -> list[Row]:
        with ThreadPoolExecutor(len(self.numbers)) as pool:
            return [row for rows in pool.map(self.task, self.numbers) for row in rows]


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
