"""`aggregator dlq list|show|replay|export`: shows dead letters, and reads their records again under the present policy.

Invariant: the output has coordinates, reasons, sizes and a keyed hash. It never has a payload, because central holds
none. A replay is a backfill of exactly these records. It marks a letter as resolved in the transaction that delivers
its record.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aggregator.cli.backfill.backfill import launch, rate_option
from aggregator.cli.backfill.lines import plan_lines
from aggregator.cli.terminal.arguments import PATTERN, TimeArgument
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import config_option, emit, output_option, progress, say, table
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import FatalError, Reason
from aggregator.machine_clock import utc_now_ms

if TYPE_CHECKING:
    from aggregator.backfill.request import Ask
    from aggregator.state.dead_letters import Letter

Command = TypeVar("Command", bound=Callable[..., Any])


_INTO = click.option(
    "--into", metavar="NAME", default="", help="Those of a generation, which `backfill run --into` left."
)


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Records that could not be delivered: where they are, why, and delivering them after all."""


def selection(command: Command) -> Command:
    """Add the options that select letters: `edge`, `topic`, `reason`, `since`, `until`, `into`."""
    for option in (
        _INTO,
        click.option("--to", "until", type=TimeArgument(), metavar="TIME", help="Records before this time."),
        click.option(
            "--from",
            "since",
            type=TimeArgument(),
            metavar="TIME",
            help="Records from this time on: ISO, or how long ago.",
        ),
        click.option("--reason", type=click.Choice([one.value for one in Reason]), help="One reason."),
        click.option("--topic", type=PATTERN, help="Regular expression on the whole topic name; all by default."),
        click.option("--edge", help="One edge; all by default."),
    ):
        command = option(command)
    return command


@dlq.command(
    name="list",
    epilog="\b\nExamples:\n  aggregator dlq list --edge eu --reason too_large\n  aggregator dlq list --all -o json",
)
@config_option
@selection
@click.option("--all", "every", is_flag=True, help="Resolved ones, too.")
@click.option("--most", type=click.IntRange(min=0), default=20, show_default=True, help="Letters to show as text.")
@output_option
def list_(config: Path, *, every: bool, most: int, output: str, **wanted: Any) -> None:
    """Dead letters: how many of each topic and reason, then the newest ones, the very newest last."""
    found = _selected(load_config(config, os.environ), every=every, **wanted)
    emit([_plain(one) for one in found], output, lambda: _lines(found, most))


@dlq.command(epilog="\b\nExample:\n  aggregator dlq show eu/orders/0/1234/0")
@config_option
@click.argument("key", metavar="EDGE/TOPIC/PARTITION/OFFSET[/INCARNATION]")
@_INTO
@output_option
def show(config: Path, key: str, into: str, output: str) -> None:
    """One dead letter, and whether its edge still has the record."""
    from aggregator.backfill.letters import replay_status

    hub = load_config(config, os.environ)
    found = [one for one in _selected(hub, every=True, into=into) if f"{one.key}/".startswith(f"{key}/")]
    if len(found) != 1:
        raise FatalError(f"{len(found)} dead letters have the coordinates {key}", hint="aggregator dlq list shows them")
    (letter,) = found
    body = _plain(letter) | {"at_edge": replay_status(hub, letter)}
    emit(body, output, lambda: (f"{name}: {'-' if value is None else value}" for name, value in body.items()))


@dlq.command(
    epilog="""\b
Examples:
  aggregator dlq replay --reason unknown_schema --yes
  aggregator dlq replay eu/orders/0/1234/0
  aggregator dlq replay --into v2 --yes

\b
Exit codes: 0 read again, or nothing to do; 1 failed or stopped; 4 an edge did not answer; 5 an edge lost a record while
the replay ran. A letter that dies again stays one, with its new reason."""
)
@config_option
@click.argument("keys", metavar="[LETTER]...", nargs=-1)
@selection
@rate_option
@click.option("--dry-run", is_flag=True, help="Only show what would be read again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--master", help="Spark master, instead of the configuration's.")
def replay(
    config: Path,
    *,
    keys: tuple[str, ...],
    rate: int | None,
    dry_run: bool,
    yes: bool,
    master: str | None,
    **wanted: Any,
) -> None:
    """Read dead letters' records from their edges again, under the present policy and schemas."""
    from aggregator.backfill.plan_builder import make_plan
    from aggregator.state.dead_letters import is_key

    strange = [key for key in keys if not is_key(key)]
    if strange:
        raise click.BadParameter(
            "is EDGE/TOPIC/PARTITION/OFFSET/INCARNATION, as `dlq list` shows it", param_hint="LETTER"
        )
    hub, ask = load_config(config, os.environ), _ask(keys, **wanted)
    if dry_run:
        for line in plan_lines(make_plan(hub, ask, now_ms=utc_now_ms(), rate=rate)):
            say(line)
        return
    raise SystemExit(launch(hub, ask, rate=rate, yes=yes, master=master))


@dlq.command(epilog="\b\nExample:\n  aggregator dlq export --reason undecodable --file letters.jsonl")
@config_option
@selection
@click.option("--all", "every", is_flag=True, help="Resolved ones, too.")
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Where to; stdout by default.")
def export(config: Path, *, every: bool, file: Path | None, **wanted: Any) -> None:
    """Write dead letters as JSON, one a line."""
    found = _selected(load_config(config, os.environ), every=every, **wanted)
    lines = [json.dumps(_plain(one)) for one in found]
    if file is None:
        for line in lines:
            say(line)
        return
    try:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise FatalError(f"{file}: {error.strerror}", hint="name another file") from None
    progress(f"{len(lines)} dead letters in {file}")


def _selected(
    hub: HubConfig,
    *,
    every: bool,
    edge: str | None = None,
    topic: str | None = None,
    reason: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    into: str = "",
) -> "list[Letter]":
    from aggregator.backfill.letters import known_letters
    from aggregator.backfill.request import Window

    window = Window(edge, topic)
    first, last = (None if when is None else when.timestamp() * 1000 for when in (since, until))
    return [
        one
        for one in known_letters(hub, into)
        if (every or not one.resolved_by)
        and window.takes(one.source)
        and reason in (None, one.reason)
        and (first is None or one.timestamp_ms >= first)
        and (last is None or one.timestamp_ms < last)
    ]


def _ask(
    keys: tuple[str, ...],
    *,
    edge: str | None,
    topic: str | None,
    reason: str | None,
    since: datetime | None,
    until: datetime | None,
    into: str,
) -> "Ask":
    from aggregator.backfill.request import Ask, Bound, Letters, Mode, Window

    first, last = (None if when is None else Bound(when.isoformat(), when) for when in (since, until))
    window, letters = Window(edge, topic, None, first, last), Letters(reason, tuple(sorted(keys)))
    return Ask((window,), Mode.INTO if into else Mode.MISSING, into, letters)


def _plain(letter: "Letter") -> dict[str, Any]:
    """The contract of `-o json`, and of an exported line."""
    return {
        "letter": letter.key,
        "edge": letter.source.edge,
        "topic": letter.source.topic,
        "partition": letter.source.partition,
        "offset": letter.offset,
        "incarnation": letter.incarnation,
        "time": _iso(letter.timestamp_ms),
        "reason": letter.reason or None,
        "schema_id": letter.schema_id,
        "value_bytes": letter.value_bytes,
        "state": letter.outcome or "dead",
        "resolved_by": letter.resolved_by or None,
    }


def _iso(milliseconds: int) -> str | None:
    """A record's own time; one that no calendar knows is left out."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def _lines(found: "Sequence[Letter]", most: int) -> Iterator[str]:
    if not found:
        yield "no dead letters"
        return
    rows = [_plain(one) for one in found]
    yield from table(("topic", "reason", "letters", "first", "last"), _groups(rows))
    shown = rows[max(0, len(rows) - most) :]
    if shown:
        yield ""
        columns = ("letter", "reason", "time", "schema_id", "value_bytes", "state")
        yield from table(
            ("letter", "reason", "time", "schema", "bytes", "state"), [[row[name] for name in columns] for row in shown]
        )
    if len(shown) < len(rows):
        yield f"{len(rows) - len(shown):,} older ones: --most {len(rows)}, or -o json"


def _groups(rows: Iterable[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Edge topic, reason, number, first and last time of its letters; the largest group first."""
    times: dict[tuple[str, str], list[str | None]] = defaultdict(list)
    for row in rows:
        times[f"{row['edge']}/{row['topic']}", row["reason"] or "-"].append(row["time"])
    largest_first = sorted(times.items(), key=lambda one: (-len(one[1]), one[0]))
    return [
        (topic, reason, len(of), min(filter(None, of), default=None), max(filter(None, of), default=None))
        for (topic, reason), of in largest_first
    ]
