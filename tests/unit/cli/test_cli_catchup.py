"""The bar of a lake that catches up: on a terminal, while there is work, and nowhere else."""

import io

import pytest

from aggregator.cli.catchup import CatchUp
from aggregator.coordinates import CentralPartition
from aggregator.lake.cycle.report import CycleReport, TableReport

PART = CentralPartition("eu.t", "A", 0)


class Stream(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def cycle(at: int, end: int, rows: int) -> CycleReport:
    """A cycle that brought `rows` and stands at `at` of `end`."""
    return CycleReport((TableReport("t", rows=rows, next_offsets={PART: at}, end_offsets={PART: end}),))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_while_it_catches_up(terminal):
    """With how much of how much; off a terminal not a byte."""
    stream = Stream(terminal=terminal)
    told = CatchUp(stream)
    for report in (cycle(1_000, 5_000, 1_000), cycle(3_000, 5_000, 2_000), cycle(5_000, 5_000, 2_000)):
        told(report)
    assert ("5000/5000" in stream.getvalue()) is terminal
    assert terminal or not stream.getvalue()


def test_no_bar_for_a_lake_that_keeps_up():
    """A cycle that leaves nothing behind is no catching up."""
    stream = Stream(terminal=True)
    told = CatchUp(stream)
    told(cycle(5, 5, 5))
    told.end()
    assert not stream.getvalue()
