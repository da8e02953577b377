"""Exposition: the samples of the newest snapshot in Prometheus' text format, over HTTP.

Invariant: a scrape asks no cluster and waits for nothing: it tells what the monitor found last, and how old that is.
Refuses an address that can not be listened on before the hub begins.

The text is written here, because a hub of a hundred edges has 37,000 samples: prometheus-client's own writer takes more
than the third of a second that a scrape may take, this one a quarter of that. The tests hold the two equal.
"""

import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any, Protocol

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from aggregator.errors import ConfigError
from aggregator.measures import MEASURES, Sample
from aggregator.observe.metrics import of_threads, samples
from aggregator.observe.snapshot import Snapshot
from aggregator.threads import Pulse, Threads

_PATH = "/metrics"
_CLIENT_PATIENCE_S = 10.0
_BOUND_S = 30.0
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Watcher(Protocol):
    """Whoever has the newest snapshot."""

    def latest(self) -> Snapshot | None:
        """The newest snapshot."""
        ...


class Exposition:
    """What a scrape gets.

    Args:
        threads: Of this process, told also where nobody watches.
        by_partition: One series per partition instead of per topic.
    """

    def __init__(self, threads: Threads, *, by_partition: bool) -> None:
        self.watcher: Watcher | None = None
        self._threads = threads
        self._by_partition = by_partition
        self._number, self._since_s = -1, 0.0

    def text(self) -> bytes:
        """The newest snapshot, and how the threads are; before the first snapshot these alone."""
        seen = self.watcher.latest() if self.watcher else None
        threads = of_threads(self._threads.statuses())
        if seen is None:
            return rendered(threads)
        now_s = time.monotonic()
        if seen.number != self._number:
            self._number, self._since_s = seen.number, now_s
        found = samples(seen, by_partition=self._by_partition, age_s=now_s - self._since_s)
        return rendered(chain(found, threads))


def rendered(found: Iterable[Sample]) -> bytes:
    """Samples in the text format, version 0.0.4, by measure; a label without a value is left out."""
    lines: dict[str, list[str]] = {one.name: [] for one in MEASURES}
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
    for measure, labels, value in found:
        text = known.get((measure.labels, labels))
        if text is None:
            text = known[measure.labels, labels] = _labels(measure.labels, labels)
        lines[measure.name].append(f"{measure.name}{text} {float(value)!r}\n")
    blocks = (
        f"# HELP {one.name} {one.meaning}\n# TYPE {one.name} {one.kind}\n{''.join(lines[one.name])}"
        for one in MEASURES
        if lines[one.name]
    )
    return "".join(blocks).encode()


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True) if value]
    return f"{{{','.join(pairs)}}}" if pairs else ""


class MetricsServer:
    """Serves metrics on an address of this machine.

    Args:
        listen: `host:port`; port 0 takes a free one.
        threads: Of this process.
        by_partition: See Exposition.

    Raises:
        ConfigError: the address can not be listened on.
    """

    def __init__(self, listen: str, threads: Threads, *, by_partition: bool) -> None:
        host, _, port = listen.rpartition(":")
        self._exposition = Exposition(threads, by_partition=by_partition)
        self._closing = threading.Event()
        try:
            self._server = _Server((host.strip("[]"), int(port)), _handler(self._exposition))
        except OSError as error:
            hint = "choose another one in `metrics: {listen: …}` or with --metrics"
            raise ConfigError(f"metrics can not be served on {listen}: {error.strerror}", hint=hint) from None
        self._thread = threads.start("metrics", self._serve, stop=self._closing, bound_s=_BOUND_S)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def serve(self, watcher: Watcher) -> None:
        """Tell what this watcher finds."""
        self._exposition.watcher = watcher

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, pulse: Pulse) -> None:
        self._server.pulse = pulse
        self._server.serve_forever()


class _Server(ThreadingHTTPServer):
    """Gives a pulse with every turn of its loop, twice a second at least."""

    pulse: Pulse = staticmethod(lambda: None)

    def service_actions(self) -> None:
        super().service_actions()
        self.pulse()


def _handler(exposition: Exposition) -> type[BaseHTTPRequestHandler]:
    class Scrape(BaseHTTPRequestHandler):
        timeout = _CLIENT_PATIENCE_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != _PATH:
                self.send_error(404)
                return
            body = exposition.text()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Scrapes are no news."""

    return Scrape
