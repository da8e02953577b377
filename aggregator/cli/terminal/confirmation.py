"""Asks a person before something is written.

Invariant: where nobody can be asked, nothing is written without `--yes`.
"""

import sys

import click


def require_answer(*, yes: bool) -> None:
    """Refuse to go on if a question would come and nobody can answer it.

    Args:
        yes: `--yes` was given.

    Raises:
        click.UsageError: it was not, and there is no terminal.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("without a terminal to ask on, say --yes")


def confirm(question: str, *, yes: bool) -> None:
    """Ask a question on stderr, unless `--yes` was given.

    Args:
        question: It is answered by yes or no.
        yes: `--yes` was given.

    Raises:
        click.Abort: the answer is no.
        click.UsageError: there is no terminal to ask on.
    """
    require_answer(yes=yes)
    if not yes:
        click.confirm(question, abort=True, err=True)
