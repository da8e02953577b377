"""The command line as a script sees it: exit code, stdout and stderr, without its set-up of logging."""

import pytest
from click.testing import CliRunner

from aggregator.cli.main import COMMANDS
from aggregator.cli.terminal.lazy_group import LazyGroup


@pytest.fixture
def aggregator():
    """Runs `aggregator …`."""

    def run(*arguments, **options):
        return CliRunner().invoke(LazyGroup("aggregator", table=COMMANDS), [str(one) for one in arguments], **options)

    return run
