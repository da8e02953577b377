"""The parts of the output that all commands share: `--config`, `-o text|json|yaml`, tables, and how an error reads.

Invariant: stdout is for data and stderr for everything else. The JSON and the YAML of a command hold the same answer.
All output of a command goes through this module, and no character in it controls a terminal. click drops colour where
there is no terminal.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from aggregator.errors import AggregatorError, FatalError
from aggregator.escapes import json_escaped, visible
from aggregator.regular_files import replace_file

if TYPE_CHECKING:
    from aggregator.replicate.discovery.topic_settings import Drift
    from aggregator.replicate.identity.clusters import Identity

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("text", "json", "yaml")
# Characters to which a table's columns are padded.
_WIDEST = 300
CONFIG_ENVIRONMENT = "AGGREGATOR_CONFIG"


def config_option(command: Command) -> Command:
    """`--config`: the parameter is `config: Path`."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path("hub.yaml"),
        show_default=True,
        envvar=CONFIG_ENVIRONMENT,
        show_envvar=True,
        help="The hub's configuration.",
    )(command)


def is_given(parameter: str) -> bool:
    """Whether somebody said what this parameter of the running command is: its option, or its variable."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def output_option(command: Command) -> Command:
    """`-o`: the parameter is `output: str`, one of FORMATS."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Format on stdout."
    )(command)


def emit(answer: Mapping[str, Any] | Sequence[Any], output: str, text: Callable[[], Iterable[str]]) -> None:
    """Write one answer to stdout.

    Args:
        answer: Plain data; its keys are the contract of `-o json` and `-o yaml`.
        output: One of FORMATS.
        text: The lines for people; asked for only when they are wanted.
    """
    if output == "text":
        for line in text():
            say(line)
    else:
        click.echo(rendered(answer, output), nl=False)


def say(line: str) -> None:
    """Print one line to stdout."""
    click.echo(visible(line))


def rendered(answer: Mapping[str, Any] | Sequence[Any], output: str) -> str:
    """The answer as indented JSON or as YAML, with a newline at its end; both printable, and read back as it was."""
    if output == "json":
        return json_escaped(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import RoundTripRepresenter

    class Printable(RoundTripRepresenter):
        """Writes text that is not printable in double quotes, the only YAML style that has escapes."""

        def represent_str(self, data: str) -> ScalarNode:
            style = None if data.isprintable() else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", str(data), style=style)

    Printable.add_representer(str, Printable.represent_str)
    Printable.add_multi_representer(str, Printable.represent_str)  # the members of an enum
    text = StringIO()
    yaml = YAML()
    yaml.Representer = Printable
    yaml.default_flow_style = False
    yaml.width = sys.maxsize  # a folded regular expression cannot be copied, and a fold at two blanks loses one
    yaml.dump(answer, text)
    return "\n".join(map(visible, text.getvalue().split("\n")))


def write_page(page: str, path: Path) -> None:
    """Write a page to a file, whole or not at all, and say so.

    Raises:
        FatalError: the file cannot be written.
    """
    try:
        replace_file(path, page)
    except OSError as error:
        raise FatalError(f"{path}: {error.strerror}", hint="name a file in a folder that can be written") from None
    progress(f"written: {path}")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Aligned lines below a heading: numbers to the right, `-` for None.

    Args:
        columns: Headings.
        rows: Rows with one value per heading.
    """
    cells = [list(row) for row in rows]
    texts = [[visible(column) for column in columns], *([_cell(value) for value in row] for row in cells)]
    # A longer cell shifts the rest of its own row only, and does not widen the column.
    widths = [min(_WIDEST, max(len(row[place]) for row in texts)) for place in range(len(columns))]
    right = [
        any(_number(row[place]) for row in cells) and all(_number(row[place]) or row[place] is None for row in cells)
        for place in range(len(columns))
    ]
    return [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    ]


def drift_lines(drifts: "Sequence[Drift]") -> list[str]:
    """A table of settings in which central differs from its edges, below an empty line; nothing where none does."""
    rows = [
        (one.topic, one.setting, one.central, one.edge, ", ".join(one.edges), one.action, one.why) for one in drifts
    ]
    return ["", *table(("central topic", "setting", "central", "edge", "of", "action", "why"), rows)] if rows else []


def cluster_lines(clusters: "Sequence[Identity]") -> list[str]:
    """A table of clusters of which something is to be said, below an empty line; nothing where there are none."""
    rows = [(one.name, one.cluster_id, one.known, one.sentence) for one in clusters if one.sentence]
    return ["", *table(("cluster", "id", "stood for", "why it matters"), rows)] if rows else []


def refuse_overwriting(paths: Iterable[Path], otherwise: str) -> None:
    """Refuse to write where a file is.

    Args:
        paths: Paths of the files to be written.
        otherwise: The alternative to moving a file away.

    Raises:
        FatalError: one is there.
    """
    for path in paths:
        if path.exists() or path.is_symlink():
            raise FatalError(f"{path} is there already", hint=f"move it away, or {otherwise}")


def progress(line: str) -> None:
    """Print one line to stderr."""
    click.echo(visible(line), err=True)


def report(error: AggregatorError) -> None:
    """Print an error and its remedy on stderr."""
    first, *more = error.lines
    click.echo(f"{click.style('error:', fg='red')} {first}", err=True)
    for line in more:
        progress(line)
    if error.hint:
        click.echo(f"{click.style('next:', fg='cyan')} {error.hint}", err=True)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else visible(str(value))
