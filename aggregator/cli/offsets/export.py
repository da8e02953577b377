"""`aggregator offsets export --mirrormaker2`: shows where the hub stopped, as source offsets of MirrorMaker 2.

Invariant: nothing is exported while a hub of this name is seen to run. Without `--write` nothing is written at central.
With `--write` nothing is written while a worker of MirrorMaker 2 lives, and only offsets that were shown are written.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aggregator.cli.terminal.confirmation import confirm, require_answer
from aggregator.cli.terminal.output import config_option, progress, refuse_overwriting, say
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.count_text import format_count
from aggregator.errors import AnotherHub, FatalError
from aggregator.escapes import json_escaped

if TYPE_CHECKING:
    from aggregator.coordinates import EdgePartition
    from aggregator.mirrormaker.handover import HandedOver
    from aggregator.state.ledger import LedgerRecord


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator offsets export --mirrormaker2\n"
    "  aggregator offsets export --mirrormaker2 --edge eu --out eu.jsonl\n"
    "  aggregator offsets export --mirrormaker2 --write"
)
@config_option
@click.option("--mirrormaker2", "is_mirrormaker", is_flag=True, help="As source offsets of MirrorMaker 2's Connect.")
@click.option("--edge", help="One edge; all by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A new file, instead of stdout.")
@click.option("--write", is_flag=True, help="Write them into MirrorMaker 2's offsets topic at central.")
@click.option("--yes", is_flag=True, help="With --write: do not ask.")
def export(config: Path, *, is_mirrormaker: bool, edge: str | None, out: Path | None, write: bool, yes: bool) -> None:
    """Where the hub stopped, so that MirrorMaker 2 goes on there: one JSON line for each partition.

    Stop the hub first. MirrorMaker 2 delivers what the edge has, whole: nothing is stripped any more. A line without
    an offset forgets what it had copied. With --write its workers have to be stopped, too; they read the topic when
    they start.
    """
    if not is_mirrormaker:
        raise click.UsageError("says not for whom: --mirrormaker2")
    if write and out is not None:
        raise click.UsageError("takes --out or --write, not both")
    hub = load_config(config, os.environ)
    if edge is not None and edge not in hub.edges:
        raise FatalError(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    if out is not None:
        refuse_overwriting([out], "name another file with --out")
    _require_stopped(hub)
    if write:
        _write(hub, edge, yes=yes)
        return
    from aggregator.state.ledger_log import read_ledger
    from aggregator.state.names import HubNames

    found = _found(hub, read_ledger(hub.central, HubNames(hub.hub)), edge)
    lines = [json_escaped(json.dumps(_plain(one), ensure_ascii=False)) for one in found if one.record is not None]
    if out is not None:
        _save(out, lines)
    else:
        for line in lines:
            say(line)
    _tell(found)


def _require_stopped(hub: HubConfig) -> None:
    """Refuse while a hub of this name is seen to run.

    Raises:
        AnotherHub: one is.
        FatalError: none has ever run.
    """
    from aggregator.replicate.leadership.lease import watch_for_leader
    from aggregator.state.control_log import read_control
    from aggregator.state.first_run import require_run
    from aggregator.state.names import HubNames

    names = HubNames(hub.hub)
    require_run(hub.central, names, names.control)
    if watch_for_leader(lambda: read_control(hub.central, names).lease, time.sleep):
        raise AnotherHub(f"the hub {hub.hub} is running: its positions move", hint="stop it, and export again")


def _found(hub: HubConfig, ledger: "Mapping[EdgePartition, LedgerRecord]", edge: str | None) -> "list[HandedOver]":
    """Every flow of a rule, as MirrorMaker 2 goes on with it.

    Raises:
        FatalError: there is none.
    """
    from aggregator.mirrormaker.handover import handed_over, names_of
    from aggregator.replicate.leadership.handover import known_offsets

    names = {one for source in ledger if (one := names_of(hub, source.edge, source.topic)) is not None}
    found = list(handed_over(hub, ledger, known_offsets(hub.central, names), edge))
    if not found:
        raise FatalError(f"the hub {hub.hub} has no position of any flow that a rule takes", hint="aggregator status")
    return found


def _write(hub: HubConfig, edge: str | None, *, yes: bool) -> None:
    """Write what was shown, once somebody has said so.

    Raises:
        MirrorMakerRuns: a worker of MirrorMaker 2 is in its group.
        FatalError: central has none of its offsets topics.
        Fenced: a hub was started meanwhile; nothing was written.
    """
    from aggregator.kafka.cluster.topics import topic_names
    from aggregator.replicate.epoch.takeover import require_gone
    from aggregator.replicate.leadership.handover import handing_over

    require_answer(yes=yes)
    with handing_over(hub) as handover:
        found = _found(hub, handover.ledger, edge)
        there = topic_names(hub.central)
        for names in sorted({one.names for one in found}, key=lambda one: one.group):
            require_gone(hub.central, names)
            if names.offsets_topic not in there:
                raise FatalError(
                    f"central has no topic {names.offsets_topic}",
                    hint="start MirrorMaker 2 once, so that it makes its topics, and stop it; or name it in `start`",
                )
        _tell(found)
        for one in found:
            progress(f"{one.source}: {'forgotten' if one.record is None else f'next offset {one.position}'}")
        confirm(f"Write {format_count(len(found), 'position')} for MirrorMaker 2?", yes=yes)
        handover.write(found)
    progress("written; start MirrorMaker 2, and do not start this hub again: it would go on where it stopped")


def _plain(one: "HandedOver") -> dict[str, Any]:
    """A line: the record as Connect has it, and where it goes."""
    assert one.record is not None
    return {
        "topic": one.names.offsets_topic,
        "key": json.loads(one.record.key),
        "value": json.loads(one.record.value) if one.record.value else None,
    }


def _save(out: Path, lines: Iterable[str]) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise FatalError(f"{out}: {error.strerror}", hint="name a file that can be written with --out") from None


def _tell(found: "Sequence[HandedOver]") -> None:
    progress(
        f"{format_count(len(found), 'position')} of {format_count(len({one.names for one in found}), 'MirrorMaker 2')}"
    )
    for one in found:
        if one.note:
            progress(f"{one.source}: {one.note}")
