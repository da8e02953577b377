"""An examination: everything that is read of a hub's clusters, side by side, and the findings of it.

Invariant: reads only. Clusters are asked beside each other, each question within its bound, and what one does not
answer keeps no finding of another back.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.patterns import branches
from aggregator.coordinates import HEARTBEATS
from aggregator.doctor import cluster as condition
from aggregator.doctor import facts, flows, machine, reach, registries, rights
from aggregator.doctor.central import CentralView, read_central
from aggregator.doctor.finding import CENTRAL, Finding, failed
from aggregator.doctor.records import Records, read_records
from aggregator.doctor.registries import RegistryView
from aggregator.errors import AggregatorError
from aggregator.kafka.client.principal import ANONYMOUS, principal_of
from aggregator.kafka.probes import inspection
from aggregator.kafka.probes.cluster_view import ClusterView, Topics
from aggregator.plan.schemas import central_registry
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.discovery import snapshot
from aggregator.replicate.discovery.edge_topic import EdgeShown, is_internal, start_of
from aggregator.schema.registry import open_registry

_LOOK_S = 10.0
_SNAPSHOT_S = 30.0


@dataclass(slots=True)
class ClusterSeen:
    """What was read of one cluster; filled step by step, so that a step that fails leaves the ones before it.

    Attributes:
        reach: The way to it.
        view: What it tells of itself; None: nobody could ask.
        topics: Topics that were asked for by name.
        shown: An edge's topics that are replicated; None: it does not tell.
        skew_ms: Its clock less that of its heartbeats' writer.
        ahead_ms: Its newest stamp less this machine's present.
        records: Newest records of an edge.
        registry: None: the configuration names none.
        trouble: Questions that were not answered: check, what is so, and what mends it.
    """

    reach: reach.Reach
    view: ClusterView | None = None
    topics: Topics = field(default_factory=Topics)
    shown: EdgeShown | None = None
    skew_ms: int | None = None
    ahead_ms: int | None = None
    records: Records = field(default_factory=Records)
    registry: RegistryView | None = None
    trouble: list[tuple[str, str, str]] = field(default_factory=list)

    def ask(self, check: str, question: Callable[[], None]) -> bool:
        """Whether a question was answered; what went wrong is noted."""
        try:
            question()
        except AggregatorError as error:
            self.trouble.append((check, error.message, error.hint))
            return False
        return True


def examine(
    config: HubConfig, policies: Mapping[Path, Policy], environ: Mapping[str, str] = os.environ
) -> list[Finding]:
    """Look at everything that a hub needs.

    Args:
        config: The hub.
        policies: Policies of the rules, by path.
        environ: For Java and the folders.
    """
    now_ms = int(time.time() * 1000)
    with ThreadPoolExecutor(len(config.edges) + 2) as pool:
        here = pool.submit(facts.machine, config, environ)
        edges = {edge: pool.submit(_edge, config, policies, edge) for edge in config.edges}
        middle = pool.submit(_central, config)
        seen = {edge: one.result() for edge, one in edges.items()}
        central = middle.result()
        ours = here.result()
    told = _told(config, central, {edge: one.shown for edge, one in seen.items() if one.shown is not None}, now_ms)
    return list(
        chain(
            machine.findings(ours),
            _of_central(config, central, told, now_ms),
            chain.from_iterable(_of_edge(config, edge, one, told, now_ms) for edge, one in seen.items()),
            _identities({CENTRAL: central} | seen),
        )
    )


def _told(config: HubConfig, central: ClusterSeen, shown: Mapping[str, EdgeShown], now_ms: int) -> CentralView:
    """What central says of what the edges show; nothing where it cannot be asked."""
    told, view = CentralView(), central.view
    if view is not None:

        def read() -> None:
            nonlocal told
            told = read_central(config, view, shown, now_ms)

        central.ask("topics", read)
    if told.trouble is not None:
        central.trouble.append(("ledger", *told.trouble))
    return told


def _identities(seen: Mapping[str, ClusterSeen]) -> Iterator[Finding]:
    views = {name: one.reach.view for name, one in seen.items() if one.reach.view is not None}
    elsewhere = {
        name: {
            str(address): one.view.cluster_id
            for address, one in seen[name].reach.sign_ins.items()
            if one.view is not None and one.view.cluster_id not in ("", view.cluster_id)
        }
        for name, view in views.items()
    }
    return condition.identity(views, elsewhere)


def _central(config: HubConfig) -> ClusterSeen:
    seen = _cluster(config.central)
    if config.schemas is not None:
        seen.registry = facts.registry(config.schemas, lambda: central_registry(config), {}, written=True)
    return seen


def _cluster(cluster: ClusterConfig) -> ClusterSeen:
    """The way to a cluster, and what it tells of itself."""
    seen = ClusterSeen(facts.reach(cluster))
    known, brokers = seen.reach.view, seen.reach.brokers
    if known is not None and brokers:

        def look() -> None:
            seen.view = inspection.look(cluster, known, brokers[0], patience_s=_LOOK_S)

        seen.ask("protocol", look)
    return seen


def _edge(config: HubConfig, policies: Mapping[Path, Policy], edge: str) -> ClusterSeen:
    """Everything of one edge, one question after the other."""
    cluster = config.edges[edge]
    seen = _cluster(cluster)
    if seen.view is not None:

        def discover() -> None:
            seen.shown = facts.bounded(lambda: snapshot(config, edge, {}), _SNAPSHOT_S, f"topics of {edge}")

        def name() -> None:
            shown = seen.shown or EdgeShown({})
            asked = {*shown.topics, *shown.unanswered, *_named(config, edge), HEARTBEATS}
            seen.topics = inspection.topics(cluster, sorted(asked), patience_s=_LOOK_S)

        def sample() -> None:
            shown = seen.shown or EdgeShown({})
            seen.records = read_records(config, policies, edge, shown)

        seen.ask("topics", discover)
        seen.ask("topics", name)
        seen.ask("records", sample)
        if seen.shown is not None and HEARTBEATS in seen.shown.topics:
            seen.skew_ms, seen.ahead_ms = facts.skew_ms(cluster, HEARTBEATS)
    if cluster.schemas is not None:
        reference, client = cluster.schemas, cluster.schemas_client
        seen.registry = facts.registry(
            reference, lambda: open_registry(reference, client), seen.records.ids, written=False
        )
    return seen


def _named(config: HubConfig, edge: str) -> Iterator[str]:
    """Topics that rules name letter by letter: of these a cluster says whether we may not see them."""
    for rule in config.topics:
        for branch in branches(rule.match):
            name = branch.literal
            if branch.whole and name and not is_internal(name) and start_of(config, edge, name) is not None:
                yield name


def _of_central(config: HubConfig, seen: ClusterSeen, told: CentralView, now_ms: int) -> Iterator[Finding]:
    yield from _common(CENTRAL, seen, now_ms)
    view = seen.view
    if view is None:
        return
    servers = config.central.bootstrap_servers
    yield from rights.findings(
        CENTRAL, _principal(config.central, seen), view, told.topics, told.needs, writable=told.writable
    )
    yield from condition.transactions(view, told.state, told.timeout_ms)
    yield from condition.replication(view, config.replication_factor, told.topics.views, servers)
    yield from condition.own_topics(told.topics.views, told.own, servers)
    yield from condition.clock(CENTRAL, told.skew_ms, told.ahead_ms)


def _of_edge(config: HubConfig, edge: str, seen: ClusterSeen, told: CentralView, now_ms: int) -> Iterator[Finding]:
    cluster = config.edges[edge]
    yield from _common(edge, seen, now_ms)
    if seen.view is None:
        return
    shown, denied = seen.shown, {n: w for n, w in seen.topics.refused.items() if "AUTHORIZATION" in w}
    wanted = {*(shown.topics if shown else ()), *(shown.unanswered if shown else ()), *denied} - {HEARTBEATS}
    needs = rights.edge_needs(config, edge, wanted)
    yield from rights.findings(edge, _principal(cluster, seen), seen.view, seen.topics, needs)
    if shown is not None:
        yield from flows.topics(edge, config, shown, denied)
        servers = config.central.bootstrap_servers
        yield from flows.sizes(edge, config, shown, told.targets, servers)
        if told.holds is not None:
            yield from flows.retention(edge, config, told.holds, told.targets, servers)
    yield from condition.clock(edge, seen.skew_ms, seen.ahead_ms)


def _principal(cluster: ClusterConfig, seen: ClusterSeen) -> rights.Principal:
    """Who the hub is there: brokers may map the names of certificates and of Kerberos, and no others."""
    name = principal_of(cluster)
    is_certain = seen.reach.mechanism not in ("GSSAPI", "") or name == ANONYMOUS
    return rights.Principal(name, cluster.bootstrap_servers, is_certain)


def _common(name: str, seen: ClusterSeen, now_ms: int) -> Iterator[Finding]:
    """What is asked of central and of edges alike."""
    yield from reach.findings(name, seen.reach, now_ms)
    yield from (failed(name, *trouble) for trouble in seen.trouble)
    yield from condition.version(name, seen.reach.bootstrap)
    yield from registries.findings(name, seen.registry, seen.records.unframed)
