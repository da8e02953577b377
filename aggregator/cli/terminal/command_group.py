"""A command group whose help shows the whole first sentence of each command; click cuts it at the width of a line."""

import click

_ANY = 1_000  # a width in characters that no sentence reaches


class CommandGroup(click.Group):
    """Groups commands below the top level."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A line for each command, wrapped where it is long."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(limit=_ANY)) for name, one in found if one is not None and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
