"""Lineage of a hub that runs: each commit of a table is told, by a file or a service, and a service that is away delays
nothing.
"""

import json
from contextlib import contextmanager

import pytest

from tests.collector import collector
from tests.loopback import loopback

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


@contextmanager
def service(status: int = 201):
    """A lineage service on loopback: its address, and the bodies that it got."""
    got = []

    def answer(request):
        got.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        request.answer(status)

    with loopback(answer) as url:
        yield url, got


def seeded(trial, **lineage):
    """A trial whose edges have records, and whose lineage goes there."""
    trial.settings["lineage"] = lineage
    trial.write()
    for edge in trial.sandbox.edges:
        trial.produce(edge, 5)
    return trial


def check(trial, events):
    """Both central topics with their edges, and the table from both; customers are masked, e-mails are gone."""
    by_job = {one["job"]["name"]: one for one in events}
    topics = {f"replicate.{edge}.{trial.topic}" for edge in trial.sandbox.edges}
    assert set(by_job) == {*topics, f"lake.{trial.topic}"}
    for edge in trial.sandbox.edges:
        event = by_job[f"replicate.{edge}.{trial.topic}"]
        assert [one["namespace"] for one in event["inputs"]] == [f"kafka://{trial.sandbox.edges[edge].bootstrap}"]
        fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]
        assert "email" not in fields
        masked = {name: one["inputFields"][0]["transformations"][0]["masking"] for name, one in fields.items()}
        assert masked == {"id": False, "customer": True, "amount": False}
    table = by_job[f"lake.{trial.topic}"]
    assert len(table["inputs"]) == 2
    assert table["outputs"][0]["name"] == str(trial.folder / "lake" / trial.topic)
    tables = [one for one in events if one["job"]["name"].startswith("lake.")]
    rows = [one["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for one in tables]
    assert sum(rows) == 10


def test_commits_are_told_to_a_service(trial):
    """With a drain, which ends when the last event is sent."""
    with service() as (url, got):
        seeded(trial, to=url).drain_here()
        check(trial, got)


def test_commits_are_told_in_a_file(trial):
    """A line each, behind those that are there."""
    (trial.folder / "lineage.jsonl").write_text('{"job": {"name": "another"}}\n')
    seeded(trial, to="file:lineage.jsonl").drain_here()
    first, *events = [json.loads(line) for line in (trial.folder / "lineage.jsonl").read_text().splitlines()]
    assert first["job"]["name"] == "another"
    check(trial, events)


def test_commits_are_traced_to_a_collector(trial):
    """A span for each, with its rows; the records' own trace goes on in their header."""
    trial.settings["otlp"] = {"url": ""}
    with collector() as received:
        trial.settings["otlp"]["url"] = received.url
        seeded(trial, to="file:lineage.jsonl").drain_here()
        spans = received.spans()
    rows = [one.value.int_value for span in spans for one in span.attributes if one.key == "aggregator.rows"]
    assert sum(rows) == 10
    assert {span.name for span in spans} == {"lake commit"}
    assert all(("traceparent", b"00-1") in one.headers() for one in trial.central_records("eu"))


@pytest.mark.parametrize("status", [500, 403, 0])
def test_a_service_that_takes_nothing_keeps_no_commit_back(trial, caplog, status):
    """It refuses, or is not there: the rows are in the lake, and the log says once what is missing."""
    with service(status or 201) as (url, _):
        seeded(trial, to=url if status else "http://127.0.0.1:9").drain_here()
    assert len(trial.lake()) == 10
    said = [one.getMessage() for one in caplog.records if "lineage is incomplete" in one.getMessage()]
    assert len(said) == 1
    assert "takes no events" in said[0]
