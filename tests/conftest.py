"""Real clusters for every test that needs them: started once for all processes of a run, ended with it."""

import gc
import os

import click
import pytest
from hypothesis import settings

from aggregator.cli.terminal import output
from aggregator.sandbox.lock import exclusive
from aggregator.sandbox.sandbox import Sandbox
from tests.epochs import Epochs
from tests.json_shapes import departures, promised
from tests.programs import summary
from tests.trial import Trial

# What a test writes is its own: a key that others may read is refused.
os.umask(0o077)
# A broker's controller writes twice a second where nothing happens; it is a third of what an idle broker costs.
CALM = {"metadata.max.idle.interval.ms": "10000"}
# Their folder, beneath that of the run.
SHARED = "clusters"
# How long an example takes is the machine's, not the code's.
settings.register_profile("shared machine", deadline=None)
# `make unit` and `make test` draw fewer; `make search` draws all.
settings.register_profile("daily", deadline=None, max_examples=20)
settings.load_profile("shared machine")


def pytest_collection_finish():
    """What was collected lives as long as the process: no search for garbage walks thousands of tests again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """The process that began the others ends the clusters that they shared."""
    if not hasattr(session.config, "workerinput"):
        for folder in session.config._tmp_path_factory.getbasetemp().glob(SHARED):
            Sandbox.load(folder).down()


def pytest_terminal_summary(terminalreporter):
    """Say loudly what was not run for want of a program."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for line in summary(reasons):
        terminalreporter.write_line(line, yellow=True, bold=True)


@pytest.fixture(autouse=True)
def _answers_keep_their_shape(monkeypatch):
    """Every answer that a command writes as JSON in this process has the shape that docs/json.md promises."""
    found: list[str] = []
    rendered = output.rendered

    def compared(answer, form):
        command = click.get_current_context().command_path
        found.extend(f"{command}: {one}" for one in departures(promised(command, answer), answer))
        return rendered(answer, form)

    monkeypatch.setattr(output, "rendered", compared)
    yield
    assert found == []


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """Two edges and central, which others use at the same time: no test here stops or freezes one."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / SHARED
    with exclusive(folder.with_suffix(".lock")):
        if not folder.exists():
            return Sandbox.up(folder, ("eu", "us"), settings=dict.fromkeys(("central", "eu", "us"), CALM))
    return Sandbox.load(folder)


@pytest.fixture
def new_trial(clusters, tmp_path):
    """Makes hubs of their own on the shared clusters, each with its topic on both edges."""
    trials = []

    def make(**options) -> Trial:
        made = Trial(clusters, tmp_path, **options)
        trials.append(made)
        for edge in clusters.edges:
            made.create(edge)
        return made

    yield make
    for made in trials:
        made.close()


@pytest.fixture
def trial(new_trial):
    """A hub as most tests want it: one slot, both edges, a lake."""
    return new_trial()


@pytest.fixture
def epochs(trial):
    """A driver of a hub of its own, whose slots run in this process."""
    made = Epochs(trial)
    yield made
    made.close()
