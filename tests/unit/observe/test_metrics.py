"""Metrics: what is exposed is what is known, well-formed, quick, and as the page, the dashboard and the alerts say."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from aggregator import measures as m
from aggregator.config.model import MetricsConfig
from aggregator.config.waivers import Waiver
from aggregator.coordinates import CentralPartition, EdgePartition, Position
from aggregator.errors import ConfigError
from aggregator.kafka.client.statistics import condensed
from aggregator.lake.quality.verdict_log import AuditTotals
from aggregator.lake.status import TableStatus
from aggregator.measures import CLIENT_NUMBERS, MEASURES
from aggregator.observe.exposition import Exposition, rendered
from aggregator.observe.fields import FieldSum, TopicFields
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.observe.metrics import of_threads, samples
from aggregator.observe.metrics_server import MetricsServer
from aggregator.privacy.batch.strip import PolicyId, ReportRow
from aggregator.replicate.identity.clusters import Identity
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.telemetry import SlotReport, StandStill
from aggregator.threads import ThreadCondition, Threads, ThreadStatus
from tests.crowd import crowd
from tests.growth import cpu_s
from tests.programs import require
from tests.unit.observe.hubs import edge, flow, large, snapshot

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "metrics.md"
DASHBOARD = ROOT / "configs" / "grafana" / "aggregator.json"
RULES = ROOT / "configs" / "alerts" / "aggregator.rules.yaml"
WITHIN_S = 1 / 3
TOKEN = "a token that is long enough"


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    """As the references of these tests mean it."""
    monkeypatch.setenv("METRICS_TOKEN", TOKEN)


class Watched:
    """Has one snapshot."""

    def __init__(self, seen):
        self._seen = seen

    def latest(self):
        return self._seen


def exposed(seen, *, by_partition=False) -> bytes:
    """What a scrape of this snapshot gets."""
    exposition = Exposition(Threads(), by_partition=by_partition)
    exposition.watcher = Watched(seen)
    return exposition.text()


def values(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and its labels' values, in the order of the labels' names."""
    families = text_string_to_metric_families(text.decode())
    return {
        (one.name, tuple(one.labels[name] for name in sorted(one.labels))): one.value
        for family in families
        for one in family.samples
    }


def everything():
    """A snapshot in which every measure has a value."""
    row = ReportRow(7, "email", "string", ("PII",), "tag", "drop", "removed", 9, 0, 9, 0, True)
    position, source = Position(0, 5), EdgePartition("eu", "orders", 0)
    lost = Gap(GapKind.EXPIRED, 5, 9, 0)
    decision = GapDecision(source, position, lost, "ada", 0, "known")
    at = CentralPartition("eu.orders", "id", 0)
    gate = AuditTotals({"divert": 2}, 7, 1.5, 0.25, unexpected={"s/email": 7}, raised={}, failed={"s/email": 2})
    seen = snapshot(
        flows=[flow(undecided_records=3, undecided_ms=2000)],
        slots=(
            SlotReport(
                0,
                3,
                40,
                {"eu/orders/1": StandStill("gap", "offsets 5 to 9")},
                {"eu/orders/2": "the registry does not answer"},
                {"eu": 1200},
                5,
                1.5,
                {"central": dict.fromkeys(CLIENT_NUMBERS, 2.0)},
            ),
        ),
        letters={("eu", "orders", "undecodable"): 6},
        fields={("eu", "orders"): TopicFields(PolicyId("p", 1, ""), {}, (FieldSum(row, 9, 0, 9, 0),))},
        gaps=(KnownGap(source, position, lost, GapState.ACCEPTED, decision),),
        lake=(
            TableStatus("orders", 4, 80, {at: 3}, {at: 9}, 1_699_999_990_000, verdict="pass", gate=gate, stood_ms=9),
        ),
        epoch=3,
        damaged={"h.telemetry": 4},
    )
    open_ = Waiver("edge eu", "security.protocol", "sends password and records in clear", 'a "lab"')
    clusters = (Identity("central", "C", "C"), Identity("eu", "B", "A", "another one"))
    edges = tuple(replace(one, rate_limit_bytes_per_s=2_000_000) for one in seen.status.edges)
    status = replace(seen.status, waivers=(open_,), clusters=clusters, edges=edges, objections=("looser",))
    return replace(seen, status=status)


def test_every_measure_is_exposed_with_its_value():
    """One snapshot in which everything is known: all measures, and figures that a person can check."""
    threads = of_threads([ThreadStatus("lake", ThreadCondition.HANGING, 0, 2, "no pulse")])
    found = values(rendered([*samples(everything(), by_partition=False, age_s=0.25), *threads]))
    assert {name for name, _ in found} == {one.name for one in MEASURES}
    assert found["aggregator_policy_reload_refused", ()] == 1
    assert found["aggregator_thread_up", ("lake",)] == 0
    assert found["aggregator_thread_restarts_total", ("lake",)] == 2
    assert found["aggregator_insecure_connection", ("edge eu", 'a "lab"', "security.protocol")] == 1
    assert found["aggregator_damaged_records_total", ("h.telemetry",)] == 4
    assert found["aggregator_edge_rate_limit_bytes_per_second", ("eu",)] == 2_000_000
    assert found["aggregator_lake_gate_seconds_total", ("orders",)] == 1.5
    assert found["aggregator_lake_rule_failures_total", ("s/email", "orders")] == 2
    assert found["aggregator_lake_rule_failed_values_total", ("s/email", "orders")] == 7
    assert found["aggregator_edge_state", ("eu", "UP")] == 1
    assert found["aggregator_edge_state", ("eu", "STALLED")] == 0
    assert found["aggregator_heartbeat_age_seconds", ("eu",)] == 0.8
    assert found["aggregator_edge_clock_skew_seconds", ("eu",)] == -600
    assert found["aggregator_edge_slo_burn_ratio", ("eu", "1h")] == 10
    assert found["aggregator_records_delivered_total", ("eu", "orders")] == 80
    assert found["aggregator_retention_margin_seconds", ("eu", "orders")] == 3600
    assert found["aggregator_dead_letters_total", ("eu", "undecodable", "orders")] == 6
    assert found["aggregator_fields_stripped_total", ("eu", "drop", "orders")] == 9
    assert found["aggregator_fields_unclassified", ("eu", "orders")] == 1
    assert found["aggregator_epoch_changes_total", ()] == 4
    assert found["aggregator_record_age_seconds", ("eu", "live")] == 1.2
    assert found["aggregator_flows_held", ("gap", "0")] == 1
    assert found["aggregator_lake_commits_total", ("orders",)] == 5
    assert found["aggregator_lake_commit_age_seconds", ("orders",)] == 10
    assert found["aggregator_gaps_decided_total", ("eu", "accepted", "orders")] == 1


class Families:
    """The same samples as prometheus-client's own writer takes them."""

    def __init__(self, found):
        self._found = list(found)

    def collect(self):
        for one in MEASURES:
            metric = Metric(one.name.removesuffix("_total"), one.meaning, one.kind)
            for measure, labels, value in self._found:
                if measure is one:
                    named = zip(one.labels, labels, strict=True)
                    metric.add_sample(one.name, {name: label for name, label in named if label}, value)
            if metric.samples:
                yield metric


def test_the_text_is_the_one_that_prometheus_client_writes():
    """Line by line, labels in any order; also quotes, backslashes and line ends in a label."""
    hostile = m.LETTERS.of(1, "eu", 'a"b\\c\nd', "x")
    found = [*samples(everything(), by_partition=True, age_s=0.25), hostile]
    registry = CollectorRegistry()
    registry.register(Families(found))
    theirs, ours = generate_latest(registry), rendered(found)
    assert values(ours) == values(theirs)
    comments = [[line for line in text.splitlines() if line.startswith(b"#")] for text in (ours, theirs)]
    assert comments[0] == comments[1]
    assert ours.count(b"\n") == theirs.count(b"\n")


def test_a_label_that_nobody_can_print_is_shown_by_its_escapes():
    """Control characters, directions and half a character, which UTF-8 has no bytes for; the rest is there."""
    text = rendered([m.LETTERS.of(1, "eu", "a\ud800\x1b[31m\u202e\r", "x"), m.LETTERS.of(2, "us", "b", "x")]).decode()
    assert 'topic="a\\\\ud800\\\\x1b[31m\\\\u202e\\\\r"' in text
    assert 'edge="us"' in text
    assert text.replace("\n", "").isprintable()


def test_partitions_are_summed_unless_they_are_asked_for():
    """Counters and records add up over a topic, times take the worst; the switch gives each partition its series."""
    other = {"delivered": 20, "lag_ms": 9000, "retention_margin_ms": 60_000}
    flows = [
        flow(partition=0, undecided_records=3, undecided_ms=500),
        flow(partition=1, undecided_records=4, undecided_ms=7000, **other),
    ]
    by_topic = values(exposed(snapshot(flows=flows)))
    assert by_topic["aggregator_records_delivered_total", ("eu", "orders")] == 100
    assert by_topic["aggregator_lag_records", ("eu", "orders")] == 20
    assert by_topic["aggregator_lag_seconds", ("eu", "orders")] == 9
    assert by_topic["aggregator_retention_margin_seconds", ("eu", "orders")] == 60
    assert by_topic["aggregator_undecided_records", ("eu", "orders")] == 7
    assert by_topic["aggregator_undecided_seconds", ("eu", "orders")] == 7
    by_partition = values(exposed(snapshot(flows=flows), by_partition=True))
    assert by_partition["aggregator_records_delivered_total", ("eu", "1", "orders")] == 20


def test_what_nobody_knows_is_absent():
    """An edge that never answered has no lag of zero, and no availability of one."""
    silent = edge(heartbeat_age_ms=None, latency_ms=None, skew_ms=None, availability={})
    unknown = flow(end_offset=None, lag_records=None, lag_ms=None, retention_margin_ms=None)
    names = {name for name, _ in values(exposed(snapshot([silent], [unknown])))}
    absent = {
        "heartbeat_age_seconds",
        "lag_records",
        "lag_seconds",
        "edge_availability_ratio",
        "edge_clock_skew_seconds",
    }
    assert not names & {f"aggregator_{name}" for name in absent}


def test_measures_are_named_as_prometheus_asks():
    """Base units and `_total`, unique names, one sentence each, and no label that could hold a record's content."""
    assert len({one.name for one in MEASURES}) == len(MEASURES)
    labels = {
        "work",
        "verdict",
        "edge",
        "topic",
        "partition",
        "state",
        "window",
        "reason",
        "rule",
        "operator",
        "slot",
        "client",
        "table",
        "version",
        "hub",
        "thread",
        "connection",
        "setting",
    }
    for one in MEASURES:
        assert re.fullmatch(r"aggregator_[a-z0-9_]+", one.name)
        assert (one.kind == "counter") == one.name.endswith("_total")
        assert ("seconds" in one.name) == (one.unit == "seconds")
        assert one.meaning.endswith(".")
        assert set(one.labels) <= labels


def test_a_hundred_edges_of_fifty_topics_are_scraped_in_a_third_of_a_second():
    """In CPU time: what else the machine does is not asked about."""
    seen = large(100, 50)
    assert cpu_s(lambda: exposed(seen), enough_s=WITHIN_S) < WITHIN_S
    assert exposed(seen).count(b"aggregator_records_delivered_total{") == 5000


@contextmanager
def scraped(**served):
    """A server of metrics, and how to ask it."""
    server = MetricsServer(MetricsConfig.model_validate({"listen": "127.0.0.1:0"} | served), Threads())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(path="/metrics", **headers):
        return opener.open(urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers), timeout=5)

    try:
        yield server, ask
    finally:
        server.close()


def refused(ask, status, *arguments, **headers) -> str:
    """What an answer of this status says."""
    with pytest.raises(urllib.error.HTTPError) as answer:
        ask(*arguments, **headers)
    with answer.value:
        assert answer.value.code == status
        return answer.value.read().decode()


def test_it_is_served_and_a_taken_address_is_refused():
    """On loopback, where the configuration says; threads alone before the first snapshot; 78 where another listens."""
    with scraped() as (server, ask):
        with ask() as answer:
            assert values(answer.read()) == {
                ("aggregator_thread_up", ("metrics",)): 1,
                ("aggregator_thread_restarts_total", ("metrics",)): 0,
            }
        server.serve(Watched(snapshot()))
        with ask() as answer:
            assert b'aggregator_edge_state{edge="eu",state="UP"} 1.0' in answer.read()
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        refused(ask, 404, "/")
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(ConfigError, match=address) as taken:
            MetricsServer(MetricsConfig(listen=address), Threads())
        assert taken.value.exit_code == 78


def test_a_scrape_by_another_name_is_refused():
    """A page elsewhere that lets its name point to this machine reads nothing; a configured name is answered."""
    with scraped(hosts=["hub.example.com"], token="env:METRICS_TOKEN") as (server, ask):
        server.serve(Watched(snapshot()))
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert "aggregator_" not in refused(ask, 400, Host="evil.example", **bearer)
        with ask(Host="hub.example.com", **bearer) as answer:
            assert b"aggregator_edge_state" in answer.read()


def test_a_token_is_asked_for_and_never_told():
    """Without it, or with another one, nothing of the hub is said."""
    with scraped(token="env:METRICS_TOKEN") as (server, ask):
        server.serve(Watched(snapshot()))
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            said = refused(ask, 401, **headers)
            assert "aggregator_" not in said
            assert TOKEN not in said
    with pytest.raises(ValueError, match="others reach this address"):
        MetricsConfig.model_validate({"listen": "0.0.0.0:9464"})


def test_silent_sockets_cost_no_threads_and_few_descriptors():
    """A thousand of them, while scrapes are answered."""
    with scraped() as (server, ask), ExitStack() as stack:
        server.serve(Watched(snapshot()))
        ours = psutil.Process()
        threads = ours.num_threads()
        crowd(stack, ("127.0.0.1", server.port), 1000)
        for _ in range(5):
            with ask() as answer:
                assert b"aggregator_edge_state" in answer.read()
        assert ours.num_threads() <= threads + 1
        held = [one for one in ours.net_connections("tcp") if one.laddr.port == server.port]
        assert sum(one.status == psutil.CONN_ESTABLISHED for one in held) <= 20


def test_librdkafkas_own_words_become_few_numbers():
    """The worst broker's latency in seconds, queues added up; brokers that are only addresses do not count."""
    broker = {
        "nodeid": 1,
        "source": "configured",
        "state": "UP",
        "rtt": {"p99": 40_000},
        "throttle": {"max": 250},
        "int_latency": {"p99": 5_000},
        "txerrs": 1,
        "rxerrs": 2,
        "req_timeouts": 3,
    }
    told = {
        "brokers": {
            "a": broker,
            "b": broker | {"source": "logical"},
            "c": broker | {"state": "DOWN", "rtt": {"p99": 1}},
        },
        "topics": {"t": {"partitions": {"0": {"fetchq_cnt": 5, "fetchq_size": 500}}}},
        "msg_cnt": 2,
        "msg_size": 20,
        "rx_bytes": 7,
        "tx_bytes": 8,
    }
    found = condensed(told)
    assert found.keys() == CLIENT_NUMBERS.keys()
    assert (found["brokers_up"], found["request_p99_s"], found["throttle_max_s"]) == (1, 0.04, 0.25)
    assert (found["queued_messages"], found["queued_bytes"], found["failed_requests"]) == (7, 520, 12)


def page_table() -> str:
    """The table of `docs/metrics.md`."""
    rows = ["| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
    for one in MEASURES:
        labels = " ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {one.unit} | {labels} | {one.meaning} |")
    return "\n".join(rows)


def test_the_page_tells_the_measures_as_they_are():
    """Every metric of this version, and no other."""
    (table,) = re.findall(
        r"<!-- measures: begin -->\n(.*?)\n<!-- measures: end -->", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert table == page_table(), f"put this between the marks:\n{page_table()}"


@pytest.mark.parametrize("path", [DASHBOARD, RULES], ids=lambda path: path.name)
def test_dashboard_and_alerts_speak_of_metrics_that_exist(path):
    """Each name in an expression is a measure, and each label that is chosen by is one of its labels."""
    text = path.read_text(encoding="utf-8").replace('\\"', '"')
    known = {one.name: set(one.labels) for one in MEASURES}
    named = set(re.findall(r"aggregator_[a-z0-9_]+", text))
    assert named <= known.keys()
    for name, chosen in re.findall(r"(aggregator_[a-z0-9_]+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)(?:=~?|!=|!~)\"", chosen)) <= known[name]
    if path is DASHBOARD:
        panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_fires_when_it_should():
    """Promtool runs the rules over series: each fires after its time, and not before, nor in maintenance."""
    require("promtool")
    suite = Path(__file__).with_name("alerts.test.yaml")
    for arguments in (["check", "rules", str(RULES)], ["test", "rules", str(suite)]):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"alert: (\w+)", RULES.read_text("utf-8"))) == set(
        re.findall(r"alertname: (\w+)", suite.read_text("utf-8"))
    )
