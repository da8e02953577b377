"""What a hub's log says."""

import json

from click.testing import CliRunner

from aggregator.cli.main import main


def told(trial, *arguments: str, expect: int = 0):
    """The JSON of a command, about the trial's hub."""
    done = CliRunner().invoke(main, [*arguments, "-o", "json", "--config", str(trial.config)])
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout)
