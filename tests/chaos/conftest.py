"""The clusters of the chaos tests: the same as elsewhere, and lines to the edges that can be broken."""

import pytest

from aggregator.sandbox.sandbox import Sandbox
from tests.chaos.lines import lined
from tests.chaos.promptness import Arrivals
from tests.trial import Trial


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
