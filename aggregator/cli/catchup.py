"""Shows on a terminal, as a bar, how far the lake is behind central. Without a terminal it shows nothing.

Invariant: a bar appears after a cycle that left work behind, and disappears after a cycle that left none.
"""

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

    from aggregator.lake.cycle.report import CycleReport


class CatchUp:
    """Draws the bar from the reports of the lake's cycles.

    Args:
        stream: The stream that shows the bar, if it is a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Progress | None = None
        self._total = 0

    def __call__(self, report: "CycleReport") -> None:
        """Update the bar with the report of a finished cycle."""
        left = sum(table.lag_records for table in report.tables)
        if not self._stream.isatty() or not (report.has_backlog or self._bar):
            return
        if self._bar is None:
            self._bar = _bar(self._stream)
            self._total = report.rows + left
        self._total = max(self._total, left)
        self._bar.update(self._bar.task_ids[0], total=self._total, completed=self._total - left)
        if not report.has_backlog:
            self.end()

    def end(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None


def _bar(stream: TextIO) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=stream), transient=True)
    bar.add_task("the lake catches up", total=None)
    bar.start()
    return bar
