"""`aggregator gaps list|accept`: shows offsets that edges no longer had when they were to be read, and lets flows go on
without them.

Invariant: an acceptance names exactly the gaps that the command printed, with its author, time and reason. The command
writes it to central, and the hub carries it out. Without a terminal nothing is accepted unless `--yes` is given.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.status_text import gap_lines
from aggregator.cli.terminal.arguments import REASON
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.confirmation import confirm
from aggregator.cli.terminal.decision import because, claimed, decide
from aggregator.cli.terminal.output import config_option, emit, output_option, progress
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import FatalError
from aggregator.machine_clock import utc_now_ms
from aggregator.state.gap import GapKind

if TYPE_CHECKING:
    from aggregator.observe.gaps import KnownGap


@click.group(cls=CommandGroup)
def gaps() -> None:
    """Offsets that an edge no longer had when they were to be read."""


@gaps.command(name="list", epilog="\b\nExample:\n  aggregator gaps list -o json")
@config_option
@output_option
def list_(config: Path, output: str) -> None:
    """Every gap, open or decided, with who decided, when and why."""
    known = _known(load_config(config, os.environ))
    emit([one.plain() for one in known], output, lambda: list(gap_lines(known))[1:] or ["no gaps"])


@gaps.command(
    epilog='\b\nExample:\n  aggregator gaps accept --edge eu --topic orders --reason "retention was too short"'
)
@config_option
@click.option("--edge", required=True, help="Edge of the flows.")
@click.option("--topic", required=True, help="Topic of the flows, as the edge calls it.")
@click.option("--partition", type=int, help="One partition; all of them by default.")
@click.option("--reason", type=REASON, required=True, help="Why it is acceptable; kept with the gap.")
@click.option("--by", metavar="WHO", help="Who accepts, as claimed; user@host by default.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def accept(
    config: Path,
    *,
    edge: str,
    topic: str,
    partition: int | None,
    reason: str,
    by: str | None,
    yes: bool,
    output: str,
) -> None:
    """Let flows go on without what their edge lost.

    Exactly the gaps that are shown are accepted; one that grows afterwards holds its flow again. A truncated log is
    read on from where it was cut, under the next incarnation.
    """
    hub = load_config(config, os.environ)
    known = [
        one
        for one in _known(hub)
        if (one.source.edge, one.source.topic) == (edge, topic) and partition in (None, one.source.partition)
    ]
    still = [one for one in known if one.state == "open"]
    if not known:
        raise FatalError(f"no gap of {edge}/{topic} is known", hint="aggregator gaps list shows all of them")
    if any(one.gap.kind == GapKind.TRUNCATED and not one.recorded for one in still):
        hint = "run the hub once, then accept: only it knows what it had read, and finds where the log was cut"
        raise FatalError(f"the log of {edge}/{topic} is truncated, and the hub has not met that yet", hint=hint)
    if still:
        _confirm(still, yes=yes)
        _submit(hub, still, claimed(by), because(reason))
    places = {one.source for one in still}
    shown = [one for one in _known(hub) if one.source in places] if still else known
    emit([one.plain() for one in shown], output, lambda: list(gap_lines(shown))[1:])
    progress("accepted; a running hub goes on at once, another one when it starts" if still else "nothing was open")


def _known(config: HubConfig) -> "tuple[KnownGap, ...]":
    from aggregator.observe.survey import survey

    return survey(config, now_ms=utc_now_ms()).gaps


def _confirm(still: "list[KnownGap]", *, yes: bool) -> None:
    for line in gap_lines(still):
        progress(line)
    confirm("Accept that these records are not delivered?", yes=yes)


def _submit(config: HubConfig, still: "list[KnownGap]", by: str, reason: str) -> None:
    from aggregator.state.decisions import DecisionKind
    from aggregator.state.gap import GapDecision
    from aggregator.state.names import HubNames
    from aggregator.state.request_log import submit

    now_ms = utc_now_ms()
    asked = [GapDecision(one.source, one.position, one.gap, by, now_ms, reason) for one in still]
    decide(config, DecisionKind.GAP, [one.key for one in asked], by=by, reason=reason)
    submit(config.central, HubNames(config.hub), asked)
