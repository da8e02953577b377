"""This module makes Spark's Python workers log warnings to stderr, unless the process has set up its own logging.

Invariant: control characters in a line from a broker or a registry are shown as escapes, so no terminal obeys them.
"""

import logging
from functools import cache
from typing import TextIO

from aggregator.escapes import visible


class Visible(logging.Formatter):
    """Formats an event with printable characters only; its lines after the first are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The event, with its traceback if it has one; a message is one line."""
        event = logging.makeLogRecord(record.__dict__ | {"msg": visible(record.getMessage()), "args": None})
        return "\n  ".join(map(visible, super().format(event).split("\n")))


@cache
def show_warnings() -> None:
    """Once per worker, before it logs; a process that has set up its own logging keeps it."""
    root = logging.getLogger()
    if not root.handlers:
        warnings: logging.StreamHandler[TextIO] = logging.StreamHandler()
        warnings.setLevel(logging.WARNING)
        warnings.setFormatter(Visible("%(name)s: %(message)s"))
        root.addHandler(warnings)
