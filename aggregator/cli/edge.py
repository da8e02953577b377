"""`aggregator edge list|pause|resume|accept`: shows the edges with their availability, pauses them, and accepts new
clusters.

Invariant: a pause is a request with its author, time and reason. The command writes it to central. The hub carries it
out: its next epoch leaves the edge's flows out. Nothing at the edge is touched.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.arguments import REASON
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.decision import because, claimed, decide
from aggregator.cli.terminal.output import config_option, emit, output_option, progress, table
from aggregator.config.load import load_config
from aggregator.errors import FatalError
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.formatting import ago, share

if TYPE_CHECKING:
    from aggregator.observe.hub_status import EdgeStatus


@click.group(cls=CommandGroup)
def edge() -> None:
    """The edges: how available they are, and letting one rest."""


@edge.command(name="list", epilog="\b\nExample:\n  aggregator edge list -o json")
@config_option
@output_option
def list_(config: Path, output: str) -> None:
    """Every edge with its state, its clock, its availability, and how fast it spends its objective."""
    from aggregator.observe.status import hub_status

    seen = hub_status(load_config(config, os.environ), now_ms=utc_now_ms())
    rows = [
        (one.edge, one.state, ago(one.heartbeat_age_ms), ago(one.skew_ms), *_past(one), one.reason)
        for one in seen.edges
    ]
    heading = ("edge", "state", "last beat", "clock", "1h", "24h", "30d", "burn 1h", "burn 30d", "why")
    emit(seen.plain()["edges"], output, lambda: table(heading, rows))


def _past(one: "EdgeStatus") -> tuple[str, ...]:
    shares = (share(one.availability[window].available) for window in ("1h", "24h", "30d"))
    burns = (one.availability[window].burn for window in ("1h", "30d"))
    return (*shares, *("-" if burn is None else f"{burn:.1f}" for burn in burns))


@edge.command(epilog='\b\nExample:\n  aggregator edge pause eu --reason "brokers are moved tonight"')
@config_option
@click.argument("name")
@click.option("--reason", type=REASON, required=True, help="Why; shown with the edge until it is resumed.")
@click.option("--by", metavar="WHO", help="Who asks for it, as claimed; user@host by default.")
def pause(config: Path, name: str, reason: str, by: str | None) -> None:
    """Pause an edge: its flows stop, the others go on, and no alert is raised."""
    _ask(config, name, by=by, reason=reason, paused=True)
    progress(
        f"{name} is paused; a running hub leaves it alone within seconds, another one when it starts."
        f" aggregator edge resume {name} lets it go on"
    )


@edge.command(epilog="\b\nExample:\n  aggregator edge resume eu")
@config_option
@click.argument("name")
@click.option("--reason", default="", help="Why; kept with the request.")
@click.option("--by", metavar="WHO", help="Who asks for it, as claimed; user@host by default.")
def resume(config: Path, name: str, reason: str, by: str | None) -> None:
    """Let an edge's flows go on from where they stood."""
    _ask(config, name, by=by, reason=reason, paused=False)
    progress(f"{name} is resumed; a running hub goes on within seconds, another one when it starts")


@edge.command(epilog='\b\nExample:\n  aggregator edge accept eu --reason "eu moved to new machines"')
@config_option
@click.argument("name")
@click.option("--cluster", metavar="ID", help="The new cluster's id; by default the one that answers now.")
@click.option("--reason", type=REASON, required=True, help="Why; kept with the decision.")
@click.option("--by", metavar="WHO", help="Who decides, as claimed; user@host by default.")
def accept(config: Path, name: str, cluster: str | None, reason: str, by: str | None) -> None:
    """Say that an edge's name stands for another cluster, from its first answer to a running hub on.

    Until then the former cluster is read on, if it answers; afterwards it is not read any more.
    Its topics have other ids: those of the same names begin a new incarnation and are read from their beginning. What
    the former cluster still held stays unread. A topic that the new cluster does not have is a gap. `central` is
    central, unless an edge has that name.
    """
    from aggregator.replicate.identity.clusters import KEY_OF_CENTRAL, acceptance_fault
    from aggregator.replicate.identity.identities import fetch_cluster_ids, known_clusters
    from aggregator.state.cluster_acceptances import ClusterAcceptance
    from aggregator.state.decisions import DecisionKind
    from aggregator.state.names import HubNames
    from aggregator.state.request_log import submit

    hub = load_config(config, os.environ)
    is_central = name == "central" and name not in hub.edges
    if name not in hub.edges and not is_central:
        raise FatalError(f"no edge {name} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    central, edges = fetch_cluster_ids(hub)
    shown = central if is_central else edges[name]
    if cluster is None and shown is None:
        raise FatalError(f"{name} does not answer", hint="name the new cluster's id with --cluster, or ask again")
    known, who = known_clusters(hub), claimed(by)
    new = cluster if cluster is not None else shown or ""
    asked = ClusterAcceptance(KEY_OF_CENTRAL if is_central else name, new, who, _now_ms(), because(reason))
    if known.stands_for(asked.edge) in (None, new):
        what = f"there is nothing to accept: {name} stands for that cluster, or for none yet"
        raise FatalError(what, hint="aggregator status shows which cluster answers under each name")
    if why := acceptance_fault(asked, known, central or "", edges):
        raise FatalError(why, hint="aggregator doctor shows which cluster answers under each name")
    decide(hub, DecisionKind.CLUSTER, [asked.about], by=asked.by, reason=asked.reason)
    submit(hub.central, HubNames(hub.hub), [asked])
    progress(
        f"{name} is cluster {new} as soon as that answers a running hub; until then the former one may be read."
        " Topics of the same names are read from their beginning, under a new incarnation"
    )


def _ask(config: Path, name: str, *, by: str | None, reason: str, paused: bool) -> None:
    from aggregator.state.decisions import DecisionKind
    from aggregator.state.names import HubNames
    from aggregator.state.pauses import Pause
    from aggregator.state.request_log import read_requests, submit

    hub = load_config(config, os.environ)
    if name not in hub.edges:
        raise FatalError(f"no edge {name} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    names = HubNames(hub.hub)
    known = read_requests(hub.central, names).pauses.get(name)
    if not paused and (known is None or not known.paused):
        raise FatalError(f"{name} is not paused", hint="aggregator edge list shows every edge")
    asked = Pause(name, paused, claimed(by), _now_ms(), because(reason))
    decide(hub, DecisionKind.PAUSE if paused else DecisionKind.RESUME, [name], by=asked.by, reason=asked.reason)
    submit(hub.central, names, [asked])


def _now_ms() -> int:
    return utc_now_ms()
