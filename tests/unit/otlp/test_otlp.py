"""What a collector gets: the samples that a scrape gets, a span for each commit, and nothing that would wait for it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.config.model import OtlpConfig
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.observe.exposition import Exposition
from aggregator.otlp.collector import Collector
from aggregator.otlp.metrics import OtlpMetrics
from aggregator.otlp.traces import CommitTraces
from aggregator.threads import Threads
from tests.collector import collector
from tests.unit.observe.hubs import edge, flow, snapshot


class Watched:
    """Has one snapshot."""

    def __init__(self, seen):
        self._seen = seen

    def latest(self):
        return self._seen


def to(url: str, **more) -> Collector:
    """The collector as a configuration names it."""
    return Collector("demo", OtlpConfig.model_validate({"url": url, "interval": "1h"} | more))


@pytest.fixture
def watched():
    """A hub with an edge and a flow."""
    return Watched(snapshot(edges=(edge("eu"),), flows=(flow("eu", "orders"),)))


def test_a_collector_gets_what_a_scrape_gets(watched):
    """By the same names and labels; a counter stays one."""
    exposition = Exposition(Threads(), by_partition=False)
    exposition.watcher = watched
    with collector() as received:
        pushed = OtlpMetrics(to(received.url), Threads(), by_partition=False)
        pushed.serve(watched)
        pushed.close()
    scraped: dict[str, dict[tuple, float]] = {}
    for family in text_string_to_metric_families(exposition.text().decode()):
        for one in family.samples:
            scraped.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    told = received.metrics()
    assert told.keys() == scraped.keys()
    ages = {"aggregator_snapshot_age_seconds"}
    assert {name: told[name] for name in told.keys() - ages} == {name: scraped[name] for name in scraped.keys() - ages}
    (resource,) = received.requests["/v1/metrics"][-1].resource_metrics
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (named["service.name"], named["service.namespace"]) == ("aggregator", "demo")
    kinds = {one.name: one.WhichOneof("data") for one in resource.scope_metrics[0].metrics}
    assert {kinds[name] for name in kinds if name.endswith("_total")} == {"sum"}
    assert kinds["aggregator_edge_state"] == "gauge"
    assert all(one.sum.is_monotonic for one in resource.scope_metrics[0].metrics if one.WhichOneof("data") == "sum")


def test_before_the_first_snapshot_there_are_threads_alone():
    """As in a scrape."""
    with collector() as received:
        threads = Threads()
        OtlpMetrics(to(received.url), threads, by_partition=False).close()
        assert not received.requests["/v1/metrics"] or received.metrics().keys() <= {
            "aggregator_thread_up",
            "aggregator_thread_restarts_total",
        }


def test_each_commit_is_a_span_and_the_gate_is_within():
    """With counts and names; a table that committed nothing has none."""
    committed = TableReport(
        "orders", rows=7, files=2, version=4, verdict="passed", diverted=1, audit_s=2.0, commit_s=0.5
    )
    with collector() as received:
        traces = CommitTraces(to(received.url))
        traces(CycleReport((committed, TableReport("idle"))))
        traces.end()
        spans = {one.name: one for one in received.spans()}
    commit, gate = spans["lake commit"], spans["quality gate"]
    assert gate.parent_span_id == commit.span_id
    assert gate.trace_id == commit.trace_id
    assert commit.end_time_unix_nano - commit.start_time_unix_nano == 2_500_000_000
    assert gate.end_time_unix_nano - gate.start_time_unix_nano == 2_000_000_000
    told = {one.key: one.value.string_value or one.value.int_value for one in commit.attributes}
    assert told == {
        "aggregator.table": "orders",
        "aggregator.version": 4,
        "aggregator.rows": 7,
        "aggregator.files": 2,
        "aggregator.waiting_records": 0,
    }


@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_collector_that_takes_nothing_is_named_once(status, caplog):
    """It refuses or is not there; the hub goes on, and no line quotes what was sent."""
    with collector(status or 200) as received:
        collecting = to(received.url if status else "http://127.0.0.1:9")
        for _ in range(2):
            traces = CommitTraces(collecting)
            traces(CycleReport((TableReport("orders", rows=1, version=1),)))
            traces.end()
    said = [one.getMessage() for one in caplog.records]
    assert said == [f"OpenTelemetry: {collecting.settings.url} takes no traces"]


def test_secrets_are_read_where_they_are_used(monkeypatch):
    """And go over https alone, which the configuration asks for."""
    monkeypatch.setenv("OTLP_TOKEN", "Bearer canary")
    collecting = to("https://c.example", headers={"authorization": "env:OTLP_TOKEN"})
    assert collecting.connection("traces")["headers"] == {"authorization": "Bearer canary"}
    assert "canary" not in repr(collecting)
    assert (collecting.connection("traces")["endpoint"], to("http://c:4318/").connection("metrics")["endpoint"]) == (
        "https://c.example/v1/traces",
        "http://c:4318/v1/metrics",
    )
