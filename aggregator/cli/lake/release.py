"""`aggregator lake release`: lets a range pass that the quality gate of a table holds.

Invariant: a release names exactly the ranges that the command printed, with its author, time and reason. The command
writes it to central, and the hub carries it out. Without a terminal nothing is released unless `--yes` is given.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.arguments import REASON
from aggregator.cli.terminal.confirmation import confirm
from aggregator.cli.terminal.decision import because, claimed, decide
from aggregator.cli.terminal.output import config_option, emit, output_option, progress, table
from aggregator.config.load import load_config
from aggregator.machine_clock import utc_now_ms

if TYPE_CHECKING:
    from aggregator.config.model import HubConfig
    from aggregator.lake.quality.held_ranges import HeldRange


@click.command(epilog='\b\nExample:\n  aggregator lake release bookings --reason "the shop sent test data, and knows"')
@config_option
@click.argument("name", metavar="TABLE")
@click.option("--reason", type=REASON, required=True, help="Why it is acceptable; kept with the verdict.")
@click.option("--by", metavar="WHO", help="Who releases, as claimed; user@host by default.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def release(config: Path, *, name: str, reason: str, by: str | None, yes: bool, output: str) -> None:
    """Publish what the quality gate holds back of a table, as it is.

    Exactly the ranges that are shown are released; records behind them are audited as usual. Where the suite was wrong,
    correct it and start the hub again instead: then the range is audited anew.
    """
    from aggregator.lake.quality.held_ranges import held_ranges

    hub = load_config(config, os.environ)
    known = held_ranges(hub, name)
    still = [one for one in known if one.release is None]
    if still:
        _confirm(still, yes=yes)
        _submit(hub, still, claimed(by), because(reason))
        known = held_ranges(hub, name)
    emit([one.plain() for one in known], output, lambda: list(_lines(known)))
    progress("released; a hub publishes it with its next commit of this table" if still else "nothing is held")


def _lines(held: "Sequence[HeldRange]") -> Iterable[str]:
    columns = ("table", "central", "offsets", "rules", "released by (claimed)", "reason")
    rows = [
        (
            one.table,
            f"{one.partition.topic}-{one.partition.partition}",
            f"{one.offsets.start} to {one.offsets.end - 1}",
            ", ".join(one.rules),
            one.release.by if one.release else "",
            one.release.reason if one.release else "",
        )
        for one in held
    ]
    return table(columns, rows) if rows else ()


def _confirm(still: "Sequence[HeldRange]", *, yes: bool) -> None:
    for line in _lines(still):
        progress(line)
    confirm("Publish these records although their rules say no?", yes=yes)


def _submit(config: "HubConfig", still: "Sequence[HeldRange]", by: str, reason: str) -> None:
    from aggregator.state.decisions import DecisionKind
    from aggregator.state.names import HubNames
    from aggregator.state.releases import Release
    from aggregator.state.request_log import write

    at_ms = utc_now_ms()
    asked = [Release(one.table, one.partition, one.offsets, by, at_ms, reason) for one in still]
    decide(config, DecisionKind.RELEASE, [one.key for one in asked], by=by, reason=reason)
    write(config.central, HubNames(config.hub), (one.encode() for one in asked))
