"""Other releases of Kafka at an edge and at central: what is delivered, what they lack, and what is refused by name."""

import json
import signal

import pytest
from confluent_kafka import KafkaError, KafkaException

from aggregator.sandbox.sandbox import Sandbox
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1800)]

EDGE = "eu"
RECORDS = 10_000
PATIENCE_S = 600
OTHERS = ("2.8.2", "3.5.2", "3.9.2", "4.4.0")
WITHOUT_BOUND = ("2.8.2", "3.5.2")
BOUND = "message.timestamp.after.max.ms"
# As a cluster that was upgraded and whose brokers still speak the former protocol among themselves.
HALF_UPGRADED = {"inter.broker.protocol.version": "2.7"}


@pytest.fixture(scope="module")
def clusters(request, tmp_path_factory):
    """Central and one edge, one of them of another release; and settings of that one."""
    role, version, settings = request.param
    sandbox = Sandbox.up(
        tmp_path_factory.mktemp("versions"), (EDGE,), versions={role: version}, settings={role: settings}
    )
    yield sandbox
    sandbox.down()


def _of(*roles, versions=OTHERS, **settings):
    """Parameters of `clusters`."""
    return pytest.mark.parametrize(
        "clusters",
        [pytest.param((role, version, settings), id=f"{version}-{role}") for version in versions for role in roles],
        indirect=True,
        scope="module",
    )


@_of(EDGE, "central")
def test_ten_thousand_records_are_delivered_once(clusters, trial):
    """Over a hub that is killed in the middle; the audit agrees, and a plan says what the topics are made without."""
    trial.produce(EDGE, RECORDS // 2)
    left_out = [one["left_out"] for one in json.loads(trial.run("plan", "-o", "json").stdout)["topics"]]
    assert left_out.count([BOUND]) == (clusters.central.version in WITHOUT_BOUND)
    assert left_out.count([]) == len(left_out) - left_out.count([BOUND])
    with trial.running() as hub:
        wait_for(lambda: trial.ends(f"{EDGE}.{trial.topic}"), timeout=120, what="the first record")
        with trial.traffic(EDGE, batch=500, most=RECORDS // 2) as produced:
            wait_for(lambda: produced[EDGE] >= RECORDS // 4, timeout=60, what="traffic")
            hub.send_signal(signal.SIGKILL)
            wait_for(lambda: produced[EDGE] >= RECORDS // 2, timeout=60, what="the rest of the traffic")
    trial.drain(timeout=PATIENCE_S)
    trial.check_exactly_once(EDGE, RECORDS)
    audit = trial.run("audit")
    assert audit.returncode == 0, audit.stdout
    assert audit.stdout.endswith("OK\n")
    (status,) = trial.status()["edges"]
    assert status["dead"] == 0


@_of(EDGE)
def test_a_topic_that_is_created_again_begins_anew(trial):
    """The new one is already longer than the former position: nothing of it is skipped, nothing is read twice."""
    trial.produce(EDGE, 300)
    trial.drain(timeout=PATIENCE_S)
    trial.delete(EDGE)
    wait_for(lambda: _created(trial), timeout=60, what="the new topic")
    trial.produce(EDGE, 900)
    trial.drain(timeout=PATIENCE_S)
    trial.check_exactly_once(EDGE, 1200)
    assert {incarnation for _, incarnation, _ in trial.origins(EDGE)} == {0, 1}


def _created(trial):
    """Whether the topic is there anew; with ZooKeeper its name is free again a moment after it is gone."""
    try:
        trial.create(EDGE)
    except KafkaException as failure:
        assert failure.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        return False
    return True


@_of(EDGE, versions=("2.8.2",), **HALF_UPGRADED)
def test_an_edge_without_topic_ids_is_held_by_name(trial):
    """Its topics could be created again unseen; not a record of them is delivered, and everything says why."""
    trial.produce(EDGE, 10)
    said = trial.drain(expect=4).stderr
    flows = f"{EDGE}/heartbeats/0, {EDGE}/{trial.topic}/0 and 2 more"
    assert f"held: {flows} (discovery): its cluster gives topics no ids" in said
    planned = trial.run("plan")
    assert planned.returncode == 4
    assert f"held: {EDGE}/{trial.topic}: its cluster gives topics no ids" in planned.stdout
    assert trial.central_count(EDGE) == 0


@_of("central", versions=("2.8.2",), **HALF_UPGRADED)
def test_a_central_without_topic_ids_is_refused(clusters, trial):
    """Before anything is delivered: the lake's positions are of a topic's life, and nothing would tell it."""
    trial.produce(EDGE, 10)
    refused = trial.drain(expect=1).stderr
    assert f"error: central at {clusters.central.bootstrap} gives topics no ids" in refused
    assert trial.run("plan").returncode == 1
    assert trial.central_count(EDGE) == 0


def test_three_brokers_with_zookeeper_come_back(tmp_path):
    """The sandbox's oldest release is a cluster as any: a broker that is killed is taken back, and all that it kept."""
    sandbox = Sandbox.up(tmp_path, (EDGE,), brokers={EDGE: 3}, versions={EDGE: "2.8.2"})
    try:
        edge = sandbox.edges[EDGE]
        edge.brokers[0].kill()
        edge.brokers[0].start()
        edge.wait_in_sync()
        sandbox.down()
        assert edge.zookeeper.daemon.find() is None
        for cluster in Sandbox.up(tmp_path).clusters:
            cluster.kill()  # ZooKeeper outlives its brokers, and is in nobody's way
        assert Sandbox.up(tmp_path).edges[EDGE].bootstrap == edge.bootstrap
    finally:
        sandbox.down()
