"""`aggregator demo`: starts three edges of real Kafka, sends real flights and generated bookings through the whole
pipeline, and shows the accounts.

Invariant: a demo begins with empty clusters, and removes a folder only if an earlier demo made it. The exit code is 1
if a record is not accounted for.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from aggregator.cli.sandbox import addresses, folder_option
from aggregator.cli.terminal.output import emit, output_option, progress, table
from aggregator.errors import FatalError
from aggregator.sandbox.demo_run import DemoResult, run_demo
from aggregator.sandbox.hubfile import LAKE
from aggregator.sandbox.sandbox import DEFAULT_EDGES, STATE_FILE, Sandbox

# A file that marks a folder as a demo's. It holds the report of the demo when the demo is done.
REPORT_FILE = "demo.json"
HUB_LOG = "hub.log"


@click.command()
@click.option(
    "--records", type=click.IntRange(min=30), default=30_000, show_default=True, help="To produce, over all edges."
)
@folder_option
@click.option("--keep", is_flag=True, help="Leave the clusters running.")
@output_option
def demo(records: int, folder: Path, output: str, *, keep: bool) -> None:
    """Three edges, real flights, the whole pipeline, and what came out of it."""
    _make_room(folder)
    _note(folder, {"finished": False})
    clusters = Sandbox.up(folder, DEFAULT_EDGES, say=progress)
    try:
        result = run_demo(clusters.config, records=records, run=_drain, say=progress)
        answer = _answer(clusters, result, keep=keep)
        _note(folder, answer)
    finally:
        if not keep:
            progress("stopping the clusters …")
            clusters.down()
    emit(answer, output, lambda: _text(clusters, result, keep=keep))
    if not result.balanced:
        raise FatalError(
            "some records are not accounted for: produced is not central plus dead letters, or the lake differs",
            hint=f"read {clusters.dir / HUB_LOG}",
        )


def _make_room(folder: Path) -> None:
    if not (folder / STATE_FILE).exists():
        return
    old = Sandbox.load(folder)
    if old.running() or not (folder / REPORT_FILE).exists():
        raise FatalError(
            f"there is a sandbox in {old.dir} already{', and it runs' if old.running() else ''}",
            hint=f"take another folder with --dir, or remove it: aggregator sandbox down --delete --dir {folder}",
        )
    progress(f"removing the earlier demo in {old.dir} …")
    (folder / REPORT_FILE).unlink()
    (folder / HUB_LOG).unlink(missing_ok=True)
    old.down(delete=True)


def _note(folder: Path, content: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REPORT_FILE).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _drain(config: Path) -> None:
    """Run the hub in a process of its own, as a user would."""
    log = config.with_name(HUB_LOG)
    command = [sys.executable, "-m", "aggregator.cli.main", "run", "--config", str(config), "--drain"]
    progress(f"  {' '.join(['aggregator', *command[3:]])}")
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode  # noqa: S603 - our own command
    if code != 0:
        raise FatalError(f"the hub ended with {code}", hint=f"read the end of {log}")


def _answer(clusters: Sandbox, result: DemoResult, *, keep: bool) -> dict[str, Any]:
    return addresses(clusters) | {
        "finished": True,
        "running": keep,
        "balanced": result.balanced,
        "accounts": [asdict(account) for account in result.accounts],
        "booking": asdict(result.sample_record),
        "lake": str(clusters.dir / LAKE),
    }


def _text(clusters: Sandbox, result: DemoResult, *, keep: bool) -> Iterator[str]:
    columns = ("edge", "produced", "at central", "in the lake", "stripped fields", "dead letters")
    rows = [tuple(asdict(account).values()) for account in result.accounts]
    yield from table(columns, [*rows, ("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))])
    yield ""
    yield f"One booking, {result.sample_record.origin}:"
    yield from table(("field", "at the edge", "at central"), result.sample_record.lines())
    yield ""
    yield "Where to look next:"
    python = "python -c \"import polars as pl; print(pl.read_delta('{}'))\""
    yield f"  the lake      {python.format(clusters.dir / LAKE / 'bookings')}"
    yield f"  this report   {clusters.dir / REPORT_FILE}"
    yield f"  its settings  {clusters.config}"
    if keep:
        yield f"  the hub       aggregator status --config {clusters.config}"
        yield f"  stop          aggregator sandbox down --dir {clusters.dir}"
    else:
        yield f"  clusters      aggregator sandbox up --dir {clusters.dir}"
