"""Locked clusters, real ones: every client by every door, a whole hub through them, and what is said at a shut one."""

import json
import os
import time

import pytest

from aggregator.config.load import load_config
from aggregator.kafka import clients, topics
from aggregator.kafka.topic_ids import EdgeTopicIds
from tests.authority import Authority
from tests.oauth import token_server
from tests.secured import ALLOWED_URLS, PASSWORD, secured
from tests.trial import Trial, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]

DOORS = ("scram", "mutual", "token")
LIFETIME_S = 60


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """Central and one edge; a client that got in by any door may do everything."""
    folder = tmp_path_factory.mktemp("locked")
    authority = Authority(folder)
    with token_server(folder, authority, lifetime_s=LIFETIME_S) as tokens, pytest.MonkeyPatch.context() as patch:
        options = os.environ.get("JDK_JAVA_OPTIONS", "")
        patch.setenv("JDK_JAVA_OPTIONS", f"{options} {ALLOWED_URLS}={tokens.keys}")
        with secured(folder / "clusters", authority, tokens=tokens) as made:
            made.grant_everything()
            yield made


@pytest.fixture
def hub(locked, tmp_path):
    """A hub of its own, whose doors the test chooses."""
    made = Trial(locked.sandbox, tmp_path)
    made.create("eu")
    yield made
    made.close()


def entered(locked, hub, door):
    """The edge as the hub's clients take it."""
    locked.lead(hub, {"eu": door})
    return load_config(hub.config, os.environ).edges["eu"]


@pytest.mark.parametrize("door", DOORS)
def test_every_client_comes_in_by_every_door(locked, hub, door):
    """confluent-kafka's three, the native consumer, the native producer, and questions for topic ids."""
    edge = entered(locked, hub, door)
    assert hub.topic in topics.topic_names(edge)
    writer = clients.transactional_producer(edge, f"{hub.hub}.{door}", batch_bytes=1_000_000)
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(hub.topic, 0, b"k", b"first")
    writer.commit_transaction(30)
    writer.close()
    plain = clients.plain_producer(edge)
    plain.produce(hub.topic, b"second", partition=0)
    assert plain.flush(30) == 0
    found = []
    bulk = clients.bulk_consumer(edge, buffer_bytes=1_000_000)
    bulk.assign([(hub.topic, 0, 0, None)])
    deadline = time.monotonic() + 30
    while len(found) < 2 and time.monotonic() < deadline:
        found += [value for chunk in bulk.poll(100, 0.1).chunks for value in chunk.values]
    bulk.close()
    assert found == [b"first", b"second"]
    reader = clients.consumer(edge)
    assert hub.topic in reader.list_topics(timeout=30).topics
    reader.close()
    ids = EdgeTopicIds(edge)
    ids.ask(1, [hub.topic], -1)
    answer = wait_for(lambda: ids.answer(0.1), timeout=30, what="an answer")
    ids.close()
    assert answer.topics[hub.topic].topic_id


@pytest.mark.spark
def test_a_whole_hub_goes_through_locked_doors(locked, hub):
    """Run into the lake, status, plan and audit; no output holds a secret."""
    locked.lead(hub, {"eu": "mutual", "central": "scram"})
    hub.produce("eu", 300)
    told = hub.drain()
    hub.check_exactly_once("eu", 300)
    shown = hub.run("status", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    assert [one["edge"] for one in status["edges"] if one["state"] != "UNREACHABLE"] == ["eu"]
    assert status["insecure"] == []
    audit = hub.run("audit", "-o", "json")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    plan = hub.run("plan", "--detailed-exitcode")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    every = [text for done in (told, shown, audit, plan) for text in (done.stdout, done.stderr)]
    assert not [secret for secret in (PASSWORD, "BEGIN") if any(secret in text for text in every)]
