"""What a Python worker of Spark logs: warnings on its stderr, where nobody has set up logging for it.

Invariant: what a broker or a registry put into a line is shown by it and obeyed by no terminal.
"""

import logging
from functools import cache
from typing import TextIO

from aggregator.escapes import visible


class Visible(logging.Formatter):
    """Each line of an event printable, those after the first one set in."""

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
