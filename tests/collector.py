"""An OpenTelemetry collector on loopback: it keeps what it is sent, as protobuf says it, or refuses everything."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS: dict[str, Any] = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


@dataclass
class Received:
    """What came: the requests by path, and the headers of the last one."""

    url: str
    requests: dict[str, list] = field(default_factory=lambda: {path: [] for path in KINDS})
    headers: dict[str, str] = field(default_factory=dict)

    def metrics(self) -> dict[str, dict[tuple, float]]:
        """Of the last push: values by labels, by the metric's name."""
        found: dict[str, dict[tuple, float]] = {}
        for metric in self.requests["/v1/metrics"][-1].resource_metrics[0].scope_metrics[0].metrics:
            points = metric.sum.data_points or metric.gauge.data_points
            found[metric.name] = {
                tuple(sorted((one.key, one.value.string_value) for one in point.attributes)): point.as_double
                for point in points
            }
        return found

    def spans(self) -> list:
        """Every span that came."""
        requests = self.requests["/v1/traces"]
        return [span for one in requests for scope in one.resource_spans[0].scope_spans for span in scope.spans]


@contextmanager
def collector(status: int = 200) -> Iterator[Received]:
    """A collector that answers with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            received.headers = dict(self.headers.items())
            if status == 200:
                received.requests[self.path].append(KINDS[self.path].FromString(body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield received
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
