"""`aggregator lake …`: shows the tables and what their gates did, keeps the tables up beside a running hub, and waits
for records.

Invariant: `status` only reads. `compact` and `vacuum` change no row and no position. When one table fails, the others
are still kept up, and the exit code is 1.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.lake.quality import quality
from aggregator.cli.lake.release import release
from aggregator.cli.lake.wait import wait
from aggregator.cli.terminal.arguments import Parsed
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import config_option, emit, output_option, progress, table
from aggregator.config.fields import versions_kept
from aggregator.config.load import load_config
from aggregator.config.units import duration, size_bytes
from aggregator.count_text import format_first
from aggregator.errors import AggregatorError, ExitCode, FatalError
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.formatting import ago
from aggregator.state.lake_holds import format_places, group_by_reason

if TYPE_CHECKING:
    from aggregator.lake.status import TableStatus
    from aggregator.lake.upkeep.maintenance import Upkeep

_MAX_NAMED = 10


def _keep(value: object) -> timedelta:
    return versions_kept(duration(value))


@click.group(cls=CommandGroup)
def lake() -> None:
    """The lake's tables: their state and their upkeep."""


lake.add_command(quality)
lake.add_command(release)
lake.add_command(wait)


@lake.command(epilog="\b\nExample:\n  aggregator lake status -o json")
@config_option
@output_option
def status(config: Path, output: str) -> None:
    """Every table that the hub feeds: version, rows, lag, files, and what holds it; ends with 4 if something does."""
    from aggregator.lake.status import former_tables, lake_status

    now_ms, hub = utc_now_ms(), load_config(config, os.environ)
    found = lake_status(hub)
    emit([_plain(one) for one in found], output, lambda: _text(found, now_ms) if found else ["no tables yet"])
    with suppress(AggregatorError):  # a lake that does not answer is told with each table above
        if former := former_tables(hub, [one.table for one in found]):
            named = format_first(former, _MAX_NAMED)
            progress(
                f"no rule feeds {named} any more: what is there stays until you remove it;"
                " `aggregator audit` says which rows no other table has"
            )
    if any(one.hold_reason for one in found):
        raise SystemExit(ExitCode.HELD)


@lake.command(epilog="\b\nExamples:\n  aggregator lake compact\n  aggregator lake compact orders --target-size 256MB")
@config_option
@click.argument("tables", nargs=-1)
@click.option(
    "--target-size",
    type=Parsed("size", size_bytes),
    default="128MB",
    show_default=True,
    help="Files of this size stay.",
)
@output_option
def compact(config: Path, *, tables: tuple[str, ...], target_size: int, output: str) -> None:
    """Rewrite small files into larger ones; all tables unless some are named. The hub may run meanwhile."""
    from aggregator.lake.upkeep.maintenance import compact_tables

    done = _reported(compact_tables(load_config(config, os.environ), tables, target_bytes=target_size))
    rows = [{"table": one.table, "rewritten": one.rewritten, "written": one.written} for one in done]
    emit(rows, output, lambda: table(("table", "files before", "after"), [tuple(row.values()) for row in rows]))
    _judge(done)


@lake.command(epilog="\b\nExamples:\n  aggregator lake vacuum\n  aggregator lake vacuum orders --keep 30d")
@config_option
@click.argument("tables", nargs=-1)
@click.option(
    "--keep",
    type=Parsed("duration", _keep),
    help="How long older versions can be read; by default `lake: {upkeep: {keep: …}}`, which is 7d.",
)
@output_option
def vacuum(config: Path, *, tables: tuple[str, ...], keep: timedelta | None, output: str) -> None:
    """Forget older versions and remove the files that only they name; all tables unless some are named.

    The hub's positions stay, whatever their age. Staged files that no commit ever named go after a day.
    """
    from aggregator.lake.tables.formats import lake_config
    from aggregator.lake.upkeep.maintenance import vacuum_tables

    hub = load_config(config, os.environ)
    done = _reported(vacuum_tables(hub, tables, keep=keep or lake_config(hub).upkeep.keep, now_s=time.time()))
    rows = [{"table": one.table, "removed": one.removed} for one in done]
    emit(rows, output, lambda: table(("table", "files removed"), [tuple(row.values()) for row in rows]))
    _judge(done)


def _reported(upkeep: "Iterable[Upkeep]") -> "list[Upkeep]":
    done = []
    for one in upkeep:
        progress(f"{one.table}: {one.problem or 'done'}")
        done.append(one)
    return done


def _judge(done: "Iterable[Upkeep]") -> None:
    failed = [one.table for one in done if one.problem]
    if failed:
        raise FatalError(f"without upkeep: {', '.join(failed)}", hint="the lines above say why")


def _before(moment_ms: int | None, now_ms: int) -> str | None:
    return None if moment_ms is None else f"{ago(max(0, now_ms - moment_ms))} ago"


def _plain(one: "TableStatus") -> dict[str, object]:
    return {
        "table": one.table,
        "version": one.version,
        "rows": one.rows,
        "lag_records": one.lag_records,
        "files": one.files,
        "small_files": one.small_files,
        "bytes": one.size_bytes,
        "out_of_range": one.out_of_range,
        "committed_ms": one.committed_ms,
        "problem": one.problem,
        "upkeep": one.upkeep.plain() if one.upkeep else None,
        "held": [hold.plain() for hold in one.held],
    }


def _text(found: "Sequence[TableStatus]", now_ms: int) -> Iterator[str]:
    yield from table(
        (
            "table",
            "version",
            "rows",
            "lag records",
            "files",
            "to compact",
            "MB",
            "out of range",
            "committed",
            "compacted",
            "problem",
        ),
        [
            (
                one.table,
                one.version,
                one.rows,
                one.lag_records,
                one.files,
                one.small_files,
                round(one.size_bytes / 1e6, 1),
                one.out_of_range,
                _before(one.committed_ms, now_ms),
                _before(one.upkeep.compacted_ms if one.upkeep else None, now_ms),
                one.hold_reason,
            )
            for one in found
        ],
    )
    for one in found:
        if one.upkeep and one.upkeep.problem:
            yield ""
            yield f"{one.table} is not kept up: {one.upkeep.problem}"
    for holds, reason in group_by_reason(hold for one in found for hold in one.held):
        yield ""
        yield f"held for {ago(max(0, now_ms - min(one.since_ms for one in holds)))}: {format_places(holds)}"
        yield from (f"  {line}" for line in reason.split("\n"))
