"""Pushes the samples that a scrape would get, under the same names, at intervals.

Invariant: a push asks no cluster. Counters are cumulative, as the ledger keeps them.
"""

import time
from collections.abc import Iterable
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import Counter, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)

from aggregator.measures import MEASURES, Measure, Sample
from aggregator.observe.exposition import Exposition, Watcher
from aggregator.otlp.collector import Collector
from aggregator.threads import Threads

_LAST_WORD_MS = 5_000
_FRESH_S = 0.5  # the instruments are asked one after another, all for one look


class OtlpMetrics:
    """Serves a watcher's snapshots to a collector.

    Args:
        collector: It.
        threads: Of this process, which are told, too.
        by_partition: One series per partition instead of per topic.
    """

    def __init__(self, collector: Collector, threads: Threads, *, by_partition: bool) -> None:
        self._exposition = Exposition(threads, by_partition=by_partition)
        self._looked_s = float("-inf")
        self._samples: dict[Measure, list[Sample]] = {}
        exporter = _Exporter(collector)
        reader = PeriodicExportingMetricReader(exporter, collector.settings.interval.total_seconds() * 1000)
        self._provider = MeterProvider([reader], collector.resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("aggregator")
        for one in MEASURES:
            make = meter.create_observable_counter if one.kind == "counter" else meter.create_observable_gauge
            make(one.name, [self._observer(one)], one.unit, one.meaning)

    def serve(self, watcher: Watcher) -> None:
        """Push what this watcher finds from now on."""
        self._exposition.watcher = watcher

    def close(self) -> None:
        """Push once more, and stop."""
        self._provider.shutdown(_LAST_WORD_MS)

    def _observer(self, measure: Measure) -> Any:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            for sample in self._seen().get(measure, ()):
                labels = zip(measure.labels, sample.labels, strict=True)
                yield Observation(float(sample.value), {name: value for name, value in labels if value})

        return observed

    def _seen(self) -> dict[Measure, list[Sample]]:
        if time.monotonic() - self._looked_s > _FRESH_S:
            self._looked_s, self._samples = time.monotonic(), {}
            for sample in self._exposition.samples():
                self._samples.setdefault(sample.measure, []).append(sample)
        return self._samples


# Whatever the environment says: they are the ledger's.
_KEPT: dict[type, AggregationTemporality] = dict.fromkeys(
    (Counter, ObservableCounter), AggregationTemporality.CUMULATIVE
)


class _Exporter(OTLPMetricExporter):
    """Tells the log what the library's would tell every few seconds."""

    def __init__(self, collector: Collector) -> None:
        super().__init__(**collector.connection("metrics"), preferred_temporality=_KEPT)
        self._collector = collector

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        result = super().export(metrics_data, timeout_millis, **kwargs)
        self._collector.told("metrics", taken=result is MetricExportResult.SUCCESS)
        return result
