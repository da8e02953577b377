"""Real clusters for every test that needs them: started once, ended with the session."""

import pytest

from aggregator.sandbox.sandbox import Sandbox
from tests.trial import Trial


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """Two edges and central."""
    sandbox = Sandbox.up(tmp_path_factory.mktemp("clusters"), ("eu", "us"))
    yield sandbox
    sandbox.down()


@pytest.fixture
def trial(clusters, tmp_path):
    """A hub of its own on the shared clusters, with its topic on both edges."""
    made = Trial(clusters, tmp_path)
    for edge in clusters.edges:
        made.create(edge)
    return made
