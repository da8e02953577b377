"""`aggregator offsets`: the group of commands about positions of consumer groups and of MirrorMaker 2."""

import click

from aggregator.cli.offsets.export import export
from aggregator.cli.offsets.translate import translate
from aggregator.cli.terminal.command_group import CommandGroup


@click.group(cls=CommandGroup)
def offsets() -> None:
    """Positions of consumer groups at central, and positions that come from MirrorMaker 2 or go back to it."""


offsets.add_command(translate)
offsets.add_command(export)
