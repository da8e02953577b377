"""`aggregator offsets`: the group of what carries positions from MirrorMaker 2, and back."""

import click

from aggregator.cli.offsets.export import export
from aggregator.cli.terminal.command_group import CommandGroup


@click.group(cls=CommandGroup)
def offsets() -> None:
    """Positions that come from MirrorMaker 2, or go back to it."""


offsets.add_command(export)
