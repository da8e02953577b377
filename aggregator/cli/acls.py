"""`aggregator acls print`: prints the `kafka-acls` commands that give a principal exactly the rights that it needs.

Invariant: the commands are made from the configuration alone, without a connection. Names are quoted for a shell. A
name with characters that a terminal cannot show goes into no command. No principal is guessed: if the configuration
does not name it, the command asks for `--principal`.
"""

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import config_option, emit, output_option, progress
from aggregator.config.load import load_config
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.errors import FatalError

if TYPE_CHECKING:
    from aggregator.state.rights import Right

_EDGE = "edge:"
_READER = "User:reader"


@click.group(cls=CommandGroup)
def acls() -> None:
    """The rights that principals need at the clusters."""


@acls.command(
    name="print",
    epilog="\b\nExamples:\n"
    "  aggregator acls print --for edge:eu > eu.sh\n"
    "  aggregator acls print --for central --command-config admin.properties | sh\n"
    "  aggregator acls print --for reader --principal User:ann --group ann-1",
)
@config_option
@click.option("--for", "whom", required=True, metavar="edge:NAME|central|reader", help="Whose rights, and where.")
@click.option("--principal", metavar="User:NAME", help="Instead of the one that the configuration signs in as.")
@click.option("--group", metavar="NAME", help="The reader's consumer group; its principal's name by default.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="An edge topic; instead of patterns.")
@click.option("--command-config", metavar="FILE", help="Goes into each command: how its user connects.")
@output_option
def print_(
    *,
    config: Path,
    whom: str,
    principal: str | None,
    group: str | None,
    topics: tuple[str, ...],
    command_config: str | None,
    output: str,
) -> None:
    """Print the minimal `kafka-acls` commands: for the hub on an edge, for the hub at central, or for a reader there.

    Kafka's rights know names and beginnings of names. A rule that matches more than a list of names gets a beginning;
    stderr says so. With --topic, once for each topic that there is, every right is for one name.
    """
    hub = load_config(config, os.environ)
    cluster = _cluster(hub, whom)
    who = principal or (_READER if whom == "reader" else _principal(cluster))
    if ":" not in who:
        raise click.BadParameter("is a type and a name, as User:hub", param_hint="--principal")
    _require_printable([who, command_config or "", *topics])
    rights = _rights(hub, whom, group if group is not None else who.partition(":")[2], topics)
    for wide in dict.fromkeys(one.pattern for one in rights if one.pattern):
        progress(f"`{wide}` matches names that cannot be listed: the right is for all that begin so; see --topic")
    start = ["kafka-acls", "--bootstrap-server", cluster.bootstrap_servers]
    start += ["--command-config", command_config] if command_config else []
    commands = [_command(start, who, one) for one in rights]
    answer = [
        {
            "principal": who,
            "resource": one.kind,
            "name": one.name or "*",
            "pattern": _pattern(one),
            "operations": list(one.operations),
            "why": one.why,
            "command": command,
        }
        for one, command in zip(rights, commands, strict=True)
    ]
    emit(answer, output, lambda: _text(rights, commands))


def _require_printable(names: Iterable[str]) -> None:
    for name in names:
        if not name.isprintable():
            raise FatalError(f"{name} has characters that no command can be printed with", hint="correct the name")


def _cluster(hub: HubConfig, whom: str) -> ClusterConfig:
    if whom in ("central", "reader"):
        return hub.central
    edge = whom.removeprefix(_EDGE)
    if not whom.startswith(_EDGE) or edge not in hub.edges:
        known = ", ".join((*(f"{_EDGE}{name}" for name in sorted(hub.edges)), "central", "reader"))
        raise click.BadParameter(f"is one of {known}", param_hint="--for")
    return hub.edges[edge]


def _principal(cluster: ClusterConfig) -> str:
    """The principal as which the hub signs in.

    Raises:
        FatalError: only a token, or a file that is not here, tells it.
    """
    from aggregator.kafka.client.principal import principal_of

    if found := principal_of(cluster):
        return found
    raise FatalError(
        f"the configuration does not tell as whom the hub signs in at {cluster.bootstrap_servers}",
        hint="name it: --principal User:<the token's subject>",
    )


def _rights(hub: HubConfig, whom: str, group: str, topics: tuple[str, ...]) -> "list[Right]":
    from aggregator.state.rights import central_rights, edge_rights, reader_rights

    if whom == "central":
        return central_rights(hub, topics)
    return reader_rights(hub, group, topics) if whom == "reader" else edge_rights(hub, whom.removeprefix(_EDGE), topics)


def _pattern(one: "Right") -> str:
    return "prefixed" if one.prefixed and one.name else "literal"


def _command(start: list[str], who: str, one: "Right") -> str:
    operations = [word for operation in one.operations for word in ("--operation", operation)]
    _require_printable([one.name])
    words = [*start, "--add", "--allow-principal", who, *operations, f"--{one.kind}", one.name or "*"]
    return shlex.join([*words, *(("--resource-pattern-type", "prefixed") if _pattern(one) == "prefixed" else ())])


def _text(rights: "Iterable[Right]", commands: Iterable[str]) -> Iterator[str]:
    last = ""
    for one, command in zip(rights, commands, strict=True):
        if one.why != last:
            last = one.why
            yield f"# {last}"
        yield command
