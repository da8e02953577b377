"""`aggregator health`: tells probes of systemd and containers whether the hub's process on this machine works.

Invariant: no cluster is asked, and the answer is the exit code.
"""

import os
import time
from pathlib import Path

import click

from aggregator.cli.terminal.output import config_option
from aggregator.config.load import load_config
from aggregator.errors import FatalError
from aggregator.health import beats
from aggregator.health.verdict import ProbeQuestion, why_unhealthy


@click.command()
@click.argument("question", type=click.Choice([one.value for one in ProbeQuestion]), default=ProbeQuestion.LIVE.value)
@config_option
def health(question: str, config: Path) -> None:
    """Whether the hub's process on this machine is live, ready or leading; 0 for yes, 1 for no.

    `live`: it moves; whoever asks may start it anew where not. `ready`: it leads, or waits as a standby. `leading`: it
    delivers.
    """
    hub = load_config(config, os.environ).hub
    place = beats.folder(os.environ)
    why = why_unhealthy(ProbeQuestion(question), beats.read(place, hub) if place else [], time.monotonic())
    if why:
        raise FatalError(f"hub {hub} is not {question}: {why}", hint=f"aggregator status --config {config}")
