"""`aggregator backfill plan|run|list|show|resume|cancel`: reads a past window of an edge again, and shows a plan first.

Invariant: nothing is written that was not shown before. Without a terminal nothing runs unless `--yes` is given. All
state is at central: after a stop or a kill, the next start continues the same backfill.
"""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aggregator.cli.backfill.lines import backfill_lines, plan_lines, shown_lines
from aggregator.cli.terminal.arguments import PATTERN
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.confirmation import confirm
from aggregator.cli.terminal.decision import claimed, decide
from aggregator.cli.terminal.output import config_option, emit, output_option, progress
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError, FatalError
from aggregator.machine_clock import utc_now_ms, utc_today
from aggregator.moments import iso

if TYPE_CHECKING:
    from aggregator.backfill.backfill_state import Backfill, Signed
    from aggregator.backfill.plan import Plan
    from aggregator.backfill.request import Ask, Bound

Command = TypeVar("Command", bound=Callable[..., Any])
_RATE = re.compile(r"(\d+)(?:/s)?")


@click.group(cls=CommandGroup)
def backfill() -> None:
    """Read a past window of an edge again, beside the live flows.

    Into a live topic goes only what central never got; a second copy is impossible. `--into` makes a new generation of
    topic and table under the present policy, and the original stays.
    """


def ask_options(command: Command) -> Command:
    """Add the planning options: `edge`, `topic`, `partition`, `since`, `until`, `ranges`, `into`, `rekey`."""
    for option in (
        click.option(
            "--rekey",
            metavar="KEY",
            help="Restate every table whose policy uses this key, so that its present version makes all tokens.",
        ),
        click.option("--restate", is_flag=True, help="Replace rows of the lake table only, under the present policy."),
        click.option("--into", metavar="NAME", default="", help="A new generation: <topic>.NAME and <table>_NAME."),
        click.option("--missing", is_flag=True, help="Only what central never got. This is the default."),
        click.option(
            "--ranges",
            type=click.Path(dir_okay=False, path_type=Path),
            help="A YAML list of windows, each with edge, topic, partition, from, to.",
        ),
        click.option("--to", "until", metavar="WHEN", help="End, exclusive; by default where the hub stands."),
        click.option("--from", "since", metavar="WHEN", help="ISO time, how long ago (2h, PT2H, P1D), or an offset."),
        click.option("--partition", type=int, help="One partition."),
        click.option("--topic", type=PATTERN, help="Regular expression on the whole topic name; all by default."),
        click.option("--edge", help="One edge; all by default."),
    ):
        command = option(command)
    return command


def rate_option(command: Command) -> Command:
    """`--rate`: the parameter is `rate: int | None`."""
    return click.option(
        "--rate", metavar="RECORDS", callback=_rate, help="Records a second at most, over all slots, as 5000."
    )(command)


def _rate(_context: click.Context, _option: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = _RATE.fullmatch(value)
    if found is None or int(found[1]) < 1:
        raise click.BadParameter("is records a second, as 5000")
    return int(found[1])


@backfill.command(
    epilog="""\b
Examples:
  aggregator backfill plan --edge eu --topic 'orders.*' --from 2026-11-01T00:00Z --to PT-2H
  aggregator backfill plan --topic orders --into v2 -o json > plan.json"""
)
@config_option
@ask_options
@rate_option
@output_option
def plan(config: Path, *, rate: int | None, output: str, **asked: Any) -> None:
    """Show what a backfill would write, partition by partition; writes nothing."""
    hub = load_config(config, os.environ)
    made = _made(hub, _ask(**_rekeyed(hub, **asked)), rate)
    emit(made.plain(), output, lambda: plan_lines(made))


@backfill.command(
    epilog="""\b
Examples:
  aggregator backfill run --edge eu --topic orders --from P1D --yes
  aggregator backfill run --topic orders --into v2 --rate 5000
  aggregator backfill run --plan plan.json --yes

\b
Exit codes: 0 finished, or nothing to do; 1 failed, cancelled or stopped before its end; 4 some flows were held, or an
edge did not answer; 5 planned records could not be read any more; 6 other processes took over again and again."""
)
@config_option
@ask_options
@rate_option
@click.option(
    "--plan", "file", type=click.Path(dir_okay=False, path_type=Path), help="What `plan -o json` wrote, and only that."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--master", help="Spark master, instead of the configuration's.")
def run(config: Path, *, rate: int | None, file: Path | None, yes: bool, master: str | None, **asked: Any) -> None:
    """Plan a backfill and carry it out; joins the same one if it is under way already."""
    hub = load_config(config, os.environ)
    if file is not None and any(value not in (None, "") and value is not False for value in asked.values()):
        raise click.UsageError("--plan says all that a backfill needs: say either, not both")
    wanted = plan_of(file) if file else _ask(**_rekeyed(hub, **asked))
    raise SystemExit(launch(hub, wanted, rate=rate, yes=yes, master=master))


def launch(hub: HubConfig, wanted: "Ask | Plan", *, rate: int | None, yes: bool, master: str | None) -> int:
    """Resume the running backfill of the same request, if there is one; then plan and run what remains.

    Args:
        hub: The hub.
        wanted: The request, or an earlier plan, which is carried out unchanged.
        rate: Records a second at most.
        yes: Do not ask.
        master: Spark master, instead of the configuration's.

    Returns:
        The exit code.

    Raises:
        click.UsageError: there is no terminal to ask on.
    """
    from aggregator.backfill.plan import Plan
    from aggregator.backfill.submission import start
    from aggregator.cli.backfill.settle import settle_if_stuck
    from aggregator.state.decisions import DecisionKind

    settle_if_stuck(hub)
    exact = isinstance(wanted, Plan)
    if not isinstance(wanted, Plan):
        joined = _joined(hub, wanted)
        if joined is not None:
            code = run_to_end(hub, joined, master)
            # Relative times mean another window by now. A restate would only repeat the same work.
            if code or joined.plan.mode.value == "restate":
                return code
        wanted = _made(hub, wanted, rate)
    for line in plan_lines(wanted):
        progress(line)
    if not wanted.writes:
        return 0
    confirm("Write this?", yes=yes)
    decide(hub, DecisionKind.BACKFILL, [wanted.id], by=claimed(), reason=json.dumps(dict(wanted.ask), sort_keys=True))
    return run_to_end(hub, start(hub, wanted, _signed(), rate=rate, exact=exact), master)


@backfill.command(name="list", epilog="\b\nExample:\n  aggregator backfill list -o json")
@config_option
@output_option
def list_(config: Path, output: str) -> None:
    """Every backfill of this hub, and how far it has come."""
    from aggregator.backfill.progress import watched_backfills

    known = watched_backfills(load_config(config, os.environ))
    rows = [one.plain() for one in known]
    emit(rows, output, lambda: backfill_lines(known) if known else ["no backfills"])


@backfill.command(epilog="\b\nExample:\n  aggregator backfill show 3f2a -o json")
@config_option
@click.argument("id_", metavar="ID")
@output_option
def show(config: Path, id_: str, output: str) -> None:
    """One backfill: its plan, and what became of it; the beginning of its ID is enough."""
    from aggregator.backfill.progress import watched_backfills
    from aggregator.backfill.submission import known_backfill

    hub = load_config(config, os.environ)
    id_ = known_backfill(hub, id_).plan.id
    found = next(one for one in watched_backfills(hub) if one.plan.id == id_)
    emit(found.plain() | {"plan": found.plan.plain()}, output, lambda: shown_lines(found))


@backfill.command(epilog="\b\nExample:\n  aggregator backfill resume 3f2a")
@config_option
@click.argument("id_", metavar="ID")
@click.option("--master", help="Spark master, instead of the configuration's.")
def resume(config: Path, id_: str, master: str | None) -> None:
    """Go on with a backfill that was stopped, killed or cancelled."""
    from aggregator.backfill.submission import known_backfill, revived
    from aggregator.cli.backfill.settle import settle_if_stuck
    from aggregator.state.decisions import DecisionKind

    hub = load_config(config, os.environ)
    settle_if_stuck(hub)
    found = known_backfill(hub, id_)
    decide(hub, DecisionKind.BACKFILL, [found.plan.id], by=claimed(), reason="resumed")
    raise SystemExit(run_to_end(hub, revived(hub, found), master))


@backfill.command(epilog="\b\nExample:\n  aggregator backfill cancel 3f2a")
@config_option
@click.argument("id_", metavar="ID")
def cancel(config: Path, id_: str) -> None:
    """Stop a backfill; a running one ends cleanly within seconds, and what it has written stays."""
    from aggregator.backfill.backfill_state import BackfillState
    from aggregator.backfill.store import cancel as ask_to_stop
    from aggregator.backfill.submission import known_backfill
    from aggregator.state.decisions import DecisionKind
    from aggregator.state.names import HubNames

    hub = load_config(config, os.environ)
    found = known_backfill(hub, id_)
    if found.state is BackfillState.FINISHED:
        raise FatalError(f"backfill {found.plan.id} has finished", hint="what it wrote stays; there is nothing to stop")
    decide(hub, DecisionKind.CANCEL, [found.plan.id], by=claimed())
    ask_to_stop(hub.central, HubNames(hub.hub), found.plan.id, _signed())
    progress(f"backfill {found.plan.id} is cancelled; aggregator backfill resume {found.plan.id} takes that back")


@backfill.command(
    epilog="""\b
Example:
  aggregator backfill settle

\b
Exit codes: 0 nothing of a backfill is undecided; 4 something is, and is named; 6 a backfill runs: it does the same."""
)
@config_option
def settle(config: Path) -> None:
    """End transactions that Kafka left undecided in a backfill, whichever it was.

    What had been committed becomes visible, once; what had been aborted does not. `run` and `resume` do the same where
    it keeps them from beginning.
    """
    from aggregator.cli.backfill.settle import settle_transactions

    raise SystemExit(settle_transactions(load_config(config, os.environ)))


def run_to_end(hub: HubConfig, found: "Backfill", master: str | None) -> int:
    """Run one backfill in this process to its end; the exit code says how it ended."""
    from aggregator.cli.backfill.run import report_outcome, run_backfill

    if found.end is not None:
        return report_outcome(found)
    if master:
        hub = hub.model_copy(update={"spark": hub.spark.model_copy(update={"master": master})})
    return run_backfill(hub, found)


def plan_of(file: Path) -> "Plan":
    """Read a plan file, JSON or YAML.

    Raises:
        ConfigError: it cannot be read.
        FatalError: it is none, or was changed.
    """
    from aggregator.backfill.plan import Plan

    body = _document(file)
    if not isinstance(body, dict):
        raise ConfigError(f"{file}: is no plan", hint="aggregator backfill plan … -o json > plan.json makes one")
    return Plan.of(body)


def _document(file: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError, RecursionError) as error:
        raise ConfigError(f"{file}: cannot be read ({type(error).__name__})", hint="a YAML or JSON file") from None


def _made(hub: HubConfig, ask: "Ask", rate: int | None) -> "Plan":
    from aggregator.backfill.plan_builder import make_plan

    return make_plan(hub, ask, now_ms=utc_now_ms(), rate=rate)


def _joined(hub: HubConfig, ask: "Ask") -> "Backfill | None":
    from aggregator.backfill.submission import unfinished

    found = unfinished(hub, ask.digest)
    if found is not None:
        when = iso(found.started.at_ms)
        progress(f"backfill {found.plan.id} of {found.started.by}, {when}, asks the same and is not finished: joined")
    return found


def _rekeyed(hub: HubConfig, *, rekey: str | None, **asked: Any) -> dict[str, Any]:
    """`--rekey` as the restate that it is: of the topics that have a table and a policy with this key.

    Raises:
        click.UsageError: something else is asked for, too; or nothing uses the key.
    """
    from aggregator.privacy.policy.cross_check import read_policies

    if rekey is None:
        return asked
    if asked["topic"] or asked["ranges"] or asked["missing"] or asked["into"]:
        raise click.UsageError("--rekey says which topics, and restates them: leave --topic, --into and the like out")
    policies = read_policies(hub, utc_today())
    uses = {path: policy.keys() for path, policy in policies.items()}
    found = [rule.match for rule in hub.topics if rule.lake and rekey in uses[rule.policy]]
    if not found:
        raise click.UsageError(f"--rekey: no topic that has a table uses a key called {rekey}")
    return {**asked, "topic": "|".join(f"(?:{pattern})" for pattern in found), "restate": True}


def _ask(
    *,
    edge: str | None,
    topic: str | None,
    partition: int | None,
    since: str | None,
    until: str | None,
    ranges: Path | None,
    missing: bool,
    into: str,
    restate: bool,
) -> "Ask":
    from aggregator.backfill.request import Ask, Mode, Window

    if missing + bool(into) + restate > 1:
        raise click.UsageError("--missing, --into and --restate are three places to write to: choose one")
    now = datetime.now(UTC)
    if ranges is None:
        windows = [Window(edge, topic, partition, _bound("--from", since, now), _bound("--to", until, now))]
    else:
        if any(value is not None for value in (edge, topic, partition, since, until)):
            raise click.UsageError("--ranges names the windows: leave --edge, --topic, --from and the like out")
        body = _document(ranges)
        try:
            windows = [Window.of(one, now) for one in body]
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{ranges}: a window {error}", hint="a list of {edge, topic, partition, from, to}"
            ) from None
    return Ask(tuple(windows), Mode.INTO if into else Mode.RESTATE if restate else Mode.MISSING, into)


def _bound(option: str, text: str | None, now: datetime) -> "Bound | None":
    from aggregator.backfill.request import Bound

    try:
        return None if text is None else Bound.parse(text, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _signed() -> "Signed":
    from aggregator.backfill.backfill_state import Signed

    return Signed(claimed(), utc_now_ms())
