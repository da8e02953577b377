"""The clusters of the chaos tests: the same as elsewhere, and lines to the edges that can be broken."""

import os
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from aggregator.sandbox.jars import pyspark_jars
from aggregator.sandbox.java import find_java
from aggregator.sandbox.sandbox import Sandbox
from tests.bench import mirrormaker
from tests.chaos.lines import lined
from tests.chaos.promptness import Arrivals
from tests.trial import Trial

# Faults and what follows them take minutes where the machine is short of time; a few tests say more.
_LONGEST_S = 900


def pytest_collection_modifyitems(items):
    """Give each test here its time."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LONGEST_S))


@pytest.fixture(scope="session")
def lined_clusters(tmp_path_factory):
    """Central, two edges, and their lines."""
    with lined(tmp_path_factory.mktemp("lined")) as made:
        yield made


@pytest.fixture(scope="session")
def clusters(lined_clusters):
    """Central and two edges, by their own addresses."""
    return lined_clusters[0]


@pytest.fixture(scope="module")
def replicated(tmp_path_factory):
    """Central and one edge with three brokers each, and an edge with one."""
    sandbox = Sandbox.up(tmp_path_factory.mktemp("replicated"), ("eu", "us"), brokers={"central": 3, "eu": 3})
    yield sandbox
    sandbox.down()


@pytest.fixture
def replicated_trial(replicated, tmp_path):
    """A hub of its own on clusters of three brokers, all of them there and in sync before and after."""
    made = Trial(replicated, tmp_path)
    for edge in replicated.edges:
        made.create(edge)
    yield made
    made.close()
    for cluster in replicated.clusters:
        cluster.start()
        cluster.wait_in_sync()


@pytest.fixture
def lines(lined_clusters):
    """The lines to the edges, healed before and after."""
    lined_clusters[1].heal()
    yield lined_clusters[1]
    lined_clusters[1].heal()


@pytest.fixture
def arrivals(trial):
    """Counts what arrives at central, per edge."""
    made = {edge: Arrivals(trial, edge) for edge in trial.sandbox.edges}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def java():
    """A Java with MirrorMaker 2's classes."""
    (own,) = pyspark_jars("py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(own),
        classpath=f"{mirrormaker.jars()}/*",
        java_path=str(find_java(os.environ)),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    yield gateway.jvm
    gateway.shutdown()
