"""A click group that imports a command only when it is called, and turns every error into a sentence and an exit code.

Invariant: `--help` imports no command. A traceback is shown only at log level debug, and never with local variables,
because those may be records.
"""

import errno
import importlib
import importlib.util
import logging
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from aggregator.cli.terminal.output import progress, report
from aggregator.errors import AggregatorError, ExitCode, FatalError, kind_and_place


class Lazy(NamedTuple):
    """Says where a command is, and what the help says of it.

    Attributes:
        target: `module:attribute`.
        summary: The command's line in the group's help.
        examples: Ends its own help, where the command has no ending of its own.
    """

    target: str
    summary: str
    examples: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The name of the module that defines the command."""
        return self.target.partition(":")[0]

    def load(self) -> click.Command:
        """Import the command, and add its examples to its help.

        Raises:
            FatalError: a package that this command needs is not installed.
        """
        try:
            found = getattr(importlib.import_module(self.module), self.target.partition(":")[2])
        except ModuleNotFoundError as error:
            hint = "pip install 'aggregator[demo]' if this is the demo; pip install aggregator otherwise"
            raise FatalError(
                f"this command needs the package {error.name}, which is not installed", hint=hint
            ) from None
        assert isinstance(found, click.Command)
        if self.examples and not found.epilog:
            found.epilog = "\n  ".join(["\b\nExamples:", *self.examples])
        return found


# A full disk or quota is for the user to solve, wherever it occurs.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LazyGroup(click.Group):
    """The top-level group over a table of commands."""

    def __init__(self, *args: Any, table: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table; a command that this version lacks is left out."""
        del ctx
        return [name for name, lazy in self.table.items() if importlib.util.find_spec(lazy.module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of a name, or None if there is none."""
        return self.table[cmd_name].load() if cmd_name in self.list_commands(ctx) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help lines from the table, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.table[name].summary) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Also help may be written to a disk that is full."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            report(
                FatalError(
                    f"{error.filename or 'output'}: {error.strerror}", hint="free space there, then run it again"
                )
            )
            raise SystemExit(FatalError.exit_code) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and end with the error's own exit code."""
        try:
            return super().invoke(ctx)
        except AggregatorError as error:
            report(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            progress("interrupted")
            ctx.exit(ExitCode.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            report(_unexpected(error))
            ctx.exit(FatalError.exit_code)


def _unexpected(error: Exception) -> FatalError:
    """A defect of ours: its kind and place, not its text."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        for line in "".join(traceback.format_tb(error.__traceback__)).split("\n"):
            progress(line)
    return FatalError(
        f"unexpected {kind_and_place(error)}",
        hint="this is a defect; run again with `aggregator --log-level debug …` for the traceback and report it",
    )
