"""Writes a run's report beside the running hub: `report.json` and `report.html`, at intervals and once at its end.

Invariants: a reader always finds complete files, the new ones or the earlier ones. Errors in this module are logged,
and never end the hub.
"""

import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError, ConfigError
from aggregator.escapes import json_escaped
from aggregator.regular_files import replace_file
from aggregator.report.inputs import ReportReader
from aggregator.report.page import report_page
from aggregator.report.report import Report
from aggregator.threads import Pulse, Supervised, Threads

_EVERY_S = 10.0
# The first report reads an hour of telemetry and a million dead letters.
_BOUND_S = 600.0
JSON_FILE, PAGE_FILE = "report.json", "report.html"
log = logging.getLogger(__name__)


class ReportWriter:
    """Refreshes the report of a run.

    Args:
        config: The hub.
        folder: Where the files go; None: nowhere, and nothing is read either.

    Raises:
        ConfigError: the folder cannot be made.
    """

    def __init__(self, config: HubConfig, folder: Path | None) -> None:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--report {folder}: {error.strerror}", hint="name a folder that can be made") from None
        self._folder = folder
        self._over = threading.Event()
        self._config = config
        self._reader: ReportReader | None = None
        self._thread: Supervised | None = None

    def begin(self, threads: Threads) -> None:
        """Begin a report; telemetry that is older belongs to earlier runs and is ignored.

        Args:
            threads: The threads of the run's process.

        Raises:
            Unreachable: central does not answer.
        """
        if self._folder is not None:
            self._reader = ReportReader(self._config, only_new=True)
            self._thread = threads.start("report", self._keep, stop=self._over, bound_s=_BOUND_S)

    def _keep(self, pulse: Pulse) -> None:
        while not self._over.wait(_EVERY_S):
            pulse()
            self._write()

    def finish(self) -> None:
        """Write once more, with everything that is known at the end; nothing, if nothing began."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._write()

    def _write(self) -> None:
        if self._reader is None or self._folder is None:
            return
        try:
            write_report(self._reader.report(datetime.now(UTC)), self._folder)
        except AggregatorError as error:
            log.warning("the report waits: %s", error.message)
        except OSError as error:
            log.warning("the report cannot be written into %s: %s", self._folder, error.strerror)


def write_report(report: Report, folder: Path) -> None:
    """Write the report as JSON and as HTML.

    Raises:
        OSError: the folder cannot be written.
    """
    replace_file(folder / JSON_FILE, json_escaped(json.dumps(report.plain(), indent=2, ensure_ascii=False)) + "\n")
    replace_file(folder / PAGE_FILE, report_page(report))
