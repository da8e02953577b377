"""The command `aggregator`: the table of its commands, and the options that apply to all of them.

Invariant: a command is imported only when it is called, so that `aggregator --help` stays quick.
"""

import logging
import os
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, NoReturn

import click

from aggregator.cli.terminal.lazy_group import Lazy, LazyGroup
from aggregator.errors import ExitCode

COMMANDS = {
    "sandbox": Lazy(
        "aggregator.cli.sandbox:sandbox",
        "Real Kafka clusters on loopback, without Docker.",
        ("aggregator sandbox up --edges eu,us", "aggregator sandbox down"),
    ),
    "demo": Lazy(
        "aggregator.cli.demo:demo",
        "Three edges, real flights, the whole pipeline, and what came out.",
        ("aggregator demo", "aggregator demo --records 50000 --keep"),
    ),
    "init": Lazy("aggregator.cli.init:init", "Write a first hub.yaml and policy from running clusters."),
    "import": Lazy(
        "aggregator.cli.imports:import_",
        "Write a hub.yaml and policy from MirrorMaker's configuration.",
        (
            "aggregator import mm2.properties",
            'aggregator import consumer.properties producer.properties --whitelist "orders.*"',
        ),
    ),
    "config": Lazy(
        "aggregator.cli.config:config",
        "Check, show and describe the configuration.",
        ("aggregator config lint", "aggregator config show -o json"),
    ),
    "policy": Lazy("aggregator.cli.policy.policy:policy", "What happens to each field, and why."),
    "doctor": Lazy(
        "aggregator.cli.doctor:doctor",
        "Find what keeps the hub from working, and what mends it.",
        ("aggregator doctor", "aggregator doctor -o json"),
    ),
    "run": Lazy(
        "aggregator.cli.run:run",
        "Run the hub: edges to central, central to the lake.",
        ("aggregator run", "aggregator run --drain", "aggregator run --only lake", "aggregator run --report reports"),
    ),
    "plan": Lazy(
        "aggregator.cli.plan:plan",
        "Show what a run would create or change, and which fields go where.",
        ("aggregator plan", "aggregator plan --detailed-exitcode -o json"),
    ),
    "explain": Lazy(
        "aggregator.cli.explain:explain",
        "Why a topic is (not) replicated, where it goes, what is stripped.",
        ("aggregator explain orders",),
    ),
    "peek": Lazy(
        "aggregator.cli.peek:peek",
        "Show a record as it lies at an edge or at central, and what the strip makes of it.",
        ("aggregator peek eu/orders --after", "aggregator peek central/eu.orders/0/1234 --show-values"),
    ),
    "report": Lazy("aggregator.cli.report:report", "What was found in every field, and what became of it."),
    "status": Lazy(
        "aggregator.cli.status:status",
        "Show edges, flows, lag, dead letters and the lake.",
        (
            "aggregator status --problems",
            "aggregator status -o json",
            "aggregator status --exit-when-healthy --timeout 2m",
        ),
    ),
    "health": Lazy(
        "aggregator.cli.health:health",
        "Whether the hub's process on this machine works; for probes.",
        ("aggregator health live", "aggregator health ready --config hub.yaml"),
    ),
    "top": Lazy(
        "aggregator.cli.top:top",
        "Show what flows now, the busiest first.",
        ("aggregator top", "aggregator top -o json"),
    ),
    "ui": Lazy(
        "aggregator.cli.ui:ui",
        "Serve the page: every edge at a glance.",
        ("aggregator ui", "aggregator ui --listen 0.0.0.0:9465 --token env:PAGE_TOKEN --host hub.example.com"),
    ),
    "edge": Lazy(
        "aggregator.cli.edge:edge",
        "How available each edge is; pause and resume one.",
        ("aggregator edge list", 'aggregator edge pause eu --reason "brokers are moved tonight"'),
    ),
    "heartbeat": Lazy(
        "aggregator.cli.heartbeat:heartbeat",
        "Write an edge's heartbeats from near it, and check that they arrive.",
        ("aggregator heartbeat emit --edge eu", "aggregator heartbeat status"),
    ),
    "lake": Lazy(
        "aggregator.cli.lake.lake:lake",
        "The state of the lake's tables, and their upkeep.",
        ("aggregator lake status", "aggregator lake compact", "aggregator lake vacuum --keep 7d"),
    ),
    "gaps": Lazy(
        "aggregator.cli.gaps:gaps",
        "What edges lost before it was read; accept it to go on.",
        ("aggregator gaps list", 'aggregator gaps accept --edge eu --topic orders --reason "known outage" --yes'),
    ),
    "backfill": Lazy(
        "aggregator.cli.backfill.backfill:backfill",
        "Read a past window of an edge again, beside the live flows.",
        (
            "aggregator backfill plan --edge eu --topic orders --from P1D",
            "aggregator backfill run --topic orders --into v2",
        ),
    ),
    "dlq": Lazy(
        "aggregator.cli.dlq:dlq",
        "Dead letters: list, show, replay, export.",
        ("aggregator dlq list --reason unknown_schema", "aggregator dlq replay --edge eu --topic orders --yes"),
    ),
    "offsets": Lazy(
        "aggregator.cli.offsets.offsets:offsets",
        "Positions of consumer groups at central; positions that go back to MirrorMaker 2.",
        ("aggregator offsets translate --group billing --edge eu", "aggregator offsets export --mirrormaker2"),
    ),
    "acls": Lazy(
        "aggregator.cli.acls:acls",
        "The rights that the hub and its readers need, as kafka-acls commands.",
        ("aggregator acls print --for edge:eu", "aggregator acls print --for central"),
    ),
    "audit": Lazy(
        "aggregator.cli.audit:audit",
        "Compare edge, central and lake, record by record.",
        ("aggregator audit", "aggregator audit --edge eu --topic orders --from P1D -o json"),
    ),
}

EPILOG = """\b
Examples:
  aggregator demo                                       see it work, on this machine
  aggregator init --central c:9092 --edge eu=e:9092     a first hub.yaml
  aggregator config lint                                every fault, with file and line
  aggregator doctor                                     what is wrong, and what mends it
  aggregator plan                                       what a run would do, without doing it
  aggregator run --drain                                everything that is there now
  aggregator status -o json                             for scripts

\b
Exit codes: 0 ok, 1 failed, 2 usage, 3 changes pending, 4 something was held
or silent, 5 data is missing, 6 another hub took over, 78 bad configuration.
What the words mean (flow, slot, epoch, held, gap ...): docs/glossary.md
"""


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="aggregator", message="%(prog)s %(version)s")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="AGGREGATOR_LOG_LEVEL",
    help="What is logged to stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    envvar="AGGREGATOR_LOG_FORMAT",
    help="auto: text on a terminal, JSON lines elsewhere.",
)
@click.pass_context
def main(ctx: click.Context, log_level: str, log_format: Literal["auto", "text", "json"]) -> None:
    """One hub for many Kafka clusters: reads every regional cluster once, strips personal data by schema, and delivers
    each record exactly once to a central cluster and a lake.
    """
    from aggregator.cli.terminal.logs import configure_logs

    if os.environ.get("NO_COLOR"):
        ctx.color = False
    configure_logs(log_level, log_format, sys.stderr, os.environ)


def entry(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command as a process, which ends with the exit code whatever its threads are at.

    Threads that wait for a broker or an object store are daemons. Python 3.11 unwinds each as soon as it comes back to
    an interpreter that is being taken apart, which a library's own frames need not survive: a signal would end the
    process instead of its code. Where there are such threads, nothing is taken apart.

    Args:
        arguments: Instead of the command line's.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream was closed before the start
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it lasts as the process does
    for stream in (sys.stdout, sys.stderr):
        # JSON is UTF-8, whatever encoding the terminal has. A name in letters that the terminal lacks ends no command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        main(arguments)
    except SystemExit as end:
        if isinstance(end.code, int) and any(thread.daemon for thread in threading.enumerate()):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise
    raise SystemExit(ExitCode.DONE)


if __name__ == "__main__":
    entry()
