"""An OpenTelemetry collector on loopback: it keeps what it is sent, as protobuf says it, or refuses everything."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.loopback import Quiet, loopback

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
    received = Received("")

    def answer(request: Quiet) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        body = gzip.decompress(body) if request.headers.get("Content-Encoding") == "gzip" else body
        received.headers = dict(request.headers.items())
        if status == 200:
            received.requests[request.path].append(KINDS[request.path].FromString(body))
        request.answer(status)

    with loopback(answer) as received.url:
        yield received
