"""Traces the commits of the lake: a span for each, and one within it for the quality gate.

Invariant: a span has names, counts and times, and nothing of a record. A record's own trace goes on with it where its
policy keeps the header `traceparent`.
"""

import time
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import set_span_in_context
from opentelemetry.util.types import AnyValue

from aggregator.otlp.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from aggregator.lake.cycle.report import CycleReport, TableReport

_NS = 1_000_000_000


class CommitTraces:
    """Takes the reports of the lake's cycles.

    Args:
        collector: Where their traces go.
    """

    def __init__(self, collector: Collector) -> None:
        self._provider = TracerProvider(resource=collector.resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Exporter(collector)))
        self._tracer = self._provider.get_tracer("aggregator")

    def __call__(self, report: "CycleReport") -> None:
        """Trace the commits of a cycle; returns at once."""
        for table in report.tables:
            if table.version is not None:
                self._trace(table, time.time_ns())

    def end(self) -> None:
        """Send what waits."""
        self._provider.shutdown()

    def _trace(self, table: "TableReport", now_ns: int) -> None:
        """A commit that has just ended; before it the gate's audit."""
        commit_ns = now_ns - int(table.commit_s * _NS)
        began_ns = commit_ns - int(table.audit_s * _NS)
        told: dict[str, AnyValue] = {
            "aggregator.table": table.table,
            "aggregator.version": table.version or 0,
            "aggregator.rows": table.rows,
            "aggregator.files": table.files,
            "aggregator.waiting_records": table.lag_records,
        }
        span = self._tracer.start_span("lake commit", start_time=began_ns, attributes=told)
        if table.verdict:
            within = set_span_in_context(span)
            verdict: dict[str, AnyValue] = {"aggregator.verdict": table.verdict, "aggregator.diverted": table.diverted}
            self._tracer.start_span("quality gate", within, start_time=began_ns, attributes=verdict).end(commit_ns)
        span.end(now_ns)


class _Exporter(OTLPSpanExporter):
    """Tells the log what the library's would tell at each attempt."""

    def __init__(self, collector: Collector) -> None:
        super().__init__(**collector.connection("traces"))
        self._collector = collector

    def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
        result = super().export(spans)
        self._collector.told("traces", taken=result is SpanExportResult.SUCCESS)
        return result
