"""Examines a hub's clusters: reads everything about them at the same time, and derives the findings.

Invariant: this module only reads. Each cluster is asked in a process of its own, beside the others, and each question
has a time limit. The findings of other clusters do not depend on whether one cluster answers, or on what it answers.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.patterns import branches
from aggregator.coordinates import CENTRAL, HEARTBEATS
from aggregator.doctor import cluster as condition
from aggregator.doctor import facts, flows, machine, reach, registries, rights
from aggregator.doctor.central import CentralView, read_central
from aggregator.doctor.child_processes import DEFECT, ChildQuestions, Ended, Question, Tell
from aggregator.doctor.finding import MACHINE, Finding, failed
from aggregator.doctor.records import Records, read_records
from aggregator.doctor.registries import RegistryView
from aggregator.errors import AggregatorError, kind_and_place
from aggregator.kafka.client.principal import ANONYMOUS, principal_of
from aggregator.kafka.probes import inspection
from aggregator.kafka.probes.cluster_view import ClusterView, Topics
from aggregator.machine_clock import utc_now_ms
from aggregator.plan.schemas import central_registry
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.discovery import snapshot
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, is_internal, start_of
from aggregator.schema.registries import open_registry
from aggregator.state.names import HubNames

_LOOK_S = 10.0
_SNAPSHOT_S = 30.0
# All questions to one cluster together take less time.
_CLUSTER_S = 150.0
# The key of central beside the edges. No edge has this name.
_CENTRAL_KEY = ""


@dataclass(slots=True)
class ClusterSeen:
    """Holds what was read of one cluster. It is filled step by step, so a step that fails leaves the earlier ones.

    Attributes:
        reach: The way to it.
        view: The cluster's description of itself; None if nobody could ask.
        topics: Topics that were asked for by name.
        shown: An edge's topics that are replicated; None: it does not tell.
        skew_ms: The cluster's clock minus the clock of its heartbeats' writer.
        ahead_ms: The cluster's newest timestamp minus this machine's present.
        records: Newest records of an edge.
        registry: The edge's registry; None if the configuration names none.
        trouble: Questions that were not answered: check, what is so, and what mends it.
    """

    reach: reach.Reach
    view: ClusterView | None = None
    topics: Topics = field(default_factory=Topics)
    shown: DiscoveredTopics | None = None
    skew_ms: int | None = None
    ahead_ms: int | None = None
    records: Records = field(default_factory=Records)
    registry: RegistryView | None = None
    trouble: list[tuple[str, str, str]] = field(default_factory=list)

    def ask(self, check: str, question: Callable[[], None], tell: "Tell[ClusterSeen]") -> None:
        """Ask a question, note what goes wrong, and tell all that is known by then."""
        try:
            question()
        except AggregatorError as error:
            self.trouble.append((check, error.message, error.hint))
        tell(self)


def examine(
    config: HubConfig, policies: Mapping[Path, Policy], environ: Mapping[str, str] = os.environ
) -> list[Finding]:
    """Look at everything that a hub needs.

    Args:
        config: The hub.
        policies: Policies of the rules, by path.
        environ: Environment for Java and the folders.
    """
    now_ms = utc_now_ms()
    questions: dict[str, Question[ClusterSeen]] = {
        edge: partial(_edge, config, policies, edge) for edge in config.edges
    }
    asked = ChildQuestions(questions | {_CENTRAL_KEY: partial(_central, config)}, timeout_s=_CLUSTER_S)
    ours = facts.machine(config, environ)
    clusters = config.edges | {_CENTRAL_KEY: config.central}
    seen = {name: _read_or_trouble(clusters[name], one) for name, one in asked.results().items()}
    central = seen.pop(_CENTRAL_KEY)
    ledger_view = _ledger_view(
        config, central, {edge: one.shown for edge, one in seen.items() if one.shown is not None}, now_ms
    )
    former_ids = _former_ids(central, seen, ledger_view)
    ids = _judged(CENTRAL, lambda: _identities({CENTRAL: central} | seen, former_ids))
    central_id = central.view.cluster_id if central.view is not None else ""
    others = {
        edge for edge, one in seen.items() if one.view is not None and central_id and one.view.cluster_id == central_id
    }
    others |= former_ids.keys()
    return list(
        chain(
            _judged(MACHINE, lambda: machine.findings(facts.compared(ours, config, ledger_view.checks))),
            ids,
            _judged(CENTRAL, lambda: _of_central(config, central, ledger_view, now_ms)),
            chain.from_iterable(
                _judged(edge, partial(_of_edge, config, edge, one, ledger_view, now_ms, is_itself=edge not in others))
                for edge, one in seen.items()
            ),
        )
    )


def _judged(cluster: str, findings: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a cluster. If what it tells cannot be judged to the end, that is a finding itself."""
    found: list[Finding] = []
    try:
        found.extend(findings())
    except Exception as error:  # noqa: BLE001 - a setting may hold anything, and the others' findings stand
        found.append(failed(cluster, "answers", f"what it tells cannot be judged ({kind_and_place(error)})", DEFECT))
    return found


def _read_or_trouble(cluster: ClusterConfig, one: Ended) -> ClusterSeen:
    """What was read of a cluster, with the trouble that its answers caused in the reading process."""
    seen: ClusterSeen = one.answer or ClusterSeen(reach.Reach({}))
    if one.end:
        seen.trouble.append(_crash_trouble(cluster, one.end))
    if one.error is not None:
        seen.trouble.append(("answers", one.error.message, one.error.hint))
    return seen


def _crash_trouble(cluster: ClusterConfig, end: str) -> tuple[str, str, str]:
    servers = cluster.bootstrap_servers
    what = f"whoever read the answers of {servers} {end}: librdkafka cannot read what it gets, as damaged metadata"
    then = (
        f"see what lies between here and the brokers (a proxy, a load balancer), and compare: kafka-topics"
        f" --bootstrap-server {servers} --describe; a hub that reads these answers ends in the same way"
    )
    return "protocol", what, then


def _ledger_view(
    config: HubConfig, central: ClusterSeen, shown: Mapping[str, DiscoveredTopics], now_ms: int
) -> CentralView:
    """Central's view of the topics that the edges show; empty if central cannot be asked."""
    view = central.view
    if view is None:
        return CentralView()

    def read(tell: Tell[CentralView]) -> None:
        tell(read_central(config, view, shown, now_ms))

    told = ChildQuestions({CENTRAL: read}, timeout_s=_CLUSTER_S).results()[CENTRAL]
    if told.error is not None:
        central.trouble.append(("topics", told.error.message, told.error.hint))
        return CentralView()
    if told.end:
        central.trouble.append(_crash_trouble(config.central, told.end))
    ledger_view: CentralView = told.answer or CentralView()
    if ledger_view.trouble is not None:
        central.trouble.append(("ledger", *ledger_view.trouble))
    return ledger_view


def _former_ids(central: ClusterSeen, seen: Mapping[str, ClusterSeen], ledger_view: CentralView) -> dict[str, str]:
    """The former id of each name for which another cluster answers that nobody has accepted."""
    known = ledger_view.known
    if known is None:
        return {}
    answers = {_CENTRAL_KEY: central, **seen}
    changed = [
        name
        for name, one in answers.items()
        if one.view is not None and one.view.cluster_id and not known.accepts(name, one.view.cluster_id)
    ]
    return {name or CENTRAL: known.kept[name] for name in changed}


def _identities(seen: Mapping[str, ClusterSeen], former_ids: Mapping[str, str]) -> Iterator[Finding]:
    views = {name: one.reach.view for name, one in seen.items() if one.reach.view is not None}
    elsewhere = {
        name: {
            str(address): one.view.cluster_id
            for address, one in seen[name].reach.sign_ins.items()
            if one.view is not None and one.view.cluster_id not in ("", view.cluster_id)
        }
        for name, view in views.items()
    }
    return condition.identity(views, elsewhere, former_ids)


def _central(config: HubConfig, tell: Tell[ClusterSeen]) -> None:
    seen = _cluster(config.central, tell)
    if config.schemas is not None:
        seen.registry = facts.registry(config.schemas, lambda: central_registry(config), {}, written=True)
        tell(seen)


def _cluster(cluster: ClusterConfig, tell: Tell[ClusterSeen]) -> ClusterSeen:
    """The way to a cluster, and what it tells of itself."""
    seen = ClusterSeen(facts.reach(cluster, lambda found: tell(ClusterSeen(found))))
    tell(seen)
    known, brokers = seen.reach.view, seen.reach.brokers
    if known is not None and brokers:

        def look() -> None:
            seen.view = inspection.look(cluster, known, brokers[0], timeout_s=_LOOK_S)

        seen.ask("protocol", look, tell)
    return seen


def _edge(config: HubConfig, policies: Mapping[Path, Policy], edge: str, tell: Tell[ClusterSeen]) -> None:
    """Everything of one edge, one question after the other."""
    cluster = config.edges[edge]
    seen = _cluster(cluster, tell)
    if seen.view is not None:

        def discover() -> None:
            seen.shown = facts.with_timeout(lambda: snapshot(config, edge, {}), _SNAPSHOT_S, f"topics of {edge}")

        def name() -> None:
            shown = seen.shown or DiscoveredTopics({})
            asked = {*shown.topics, *shown.unanswered, *_named(config, edge), HEARTBEATS}
            seen.topics = inspection.topics(cluster, sorted(asked), timeout_s=_LOOK_S)

        def sample() -> None:
            shown = seen.shown or DiscoveredTopics({})
            seen.records = read_records(config, policies, edge, shown)

        seen.ask("topics", discover, tell)
        seen.ask("topics", name, tell)
        seen.ask("records", sample, tell)
        if seen.shown is not None and HEARTBEATS in seen.shown.topics:
            seen.skew_ms, seen.ahead_ms = facts.skew_ms(cluster, HEARTBEATS)
    if cluster.schemas is not None:
        reference, client = cluster.schemas, cluster.schemas_client
        seen.registry = facts.registry(
            reference, lambda: open_registry(reference, client), seen.records.ids, written=False
        )
    tell(seen)


def _named(config: HubConfig, edge: str) -> Iterator[str]:
    """Topics that rules name letter by letter: of these a cluster says whether we may not see them."""
    for rule in config.topics:
        for branch in branches(rule.match):
            name = branch.literal
            if branch.is_literal and name and not is_internal(name) and start_of(config, edge, name) is not None:
                yield name


def _of_central(config: HubConfig, seen: ClusterSeen, ledger_view: CentralView, now_ms: int) -> Iterator[Finding]:
    view, servers = seen.view, config.central.bootstrap_servers
    if view is None:
        yield from _common(CENTRAL, seen, now_ms)
        return
    principal = _principal(config.central, seen)
    needs, ledger, there = tuple(ledger_view.needs), HubNames(config.hub).ledger, ledger_view.topics
    needed = [need for need in needs if need.name == ledger]
    if any(rights.missing_operations(need, principal, view, there) for need in needed):  # so it cannot be read
        seen.trouble = [one for one in seen.trouble if one[0] != "ledger"]
    yield from _common(CENTRAL, seen, now_ms)
    yield from rights.findings(CENTRAL, principal, view, there, needs, writable=ledger_view.writable)
    yield from condition.transactions(view, ledger_view.state, ledger_view.timeout_ms)
    yield from condition.replication(view, config.replication_factor, ledger_view.topics.views, servers)
    yield from condition.own_topics(ledger_view.topics.views, ledger_view.own, servers)
    yield from condition.clock(CENTRAL, ledger_view.skew_ms, ledger_view.ahead_ms)


def _of_edge(
    config: HubConfig, edge: str, seen: ClusterSeen, ledger_view: CentralView, now_ms: int, *, is_itself: bool
) -> Iterator[Finding]:
    """Everything of an edge; of a cluster that is not its own only the way to it."""
    cluster = config.edges[edge]
    yield from _common(edge, seen, now_ms)
    if seen.view is None or not is_itself:
        return
    shown, denied = seen.shown, seen.topics.denied
    wanted = {*(shown.topics if shown else ()), *(shown.unanswered if shown else ()), *denied} - {HEARTBEATS}
    needs = rights.edge_needs(config, edge, wanted)
    yield from rights.findings(edge, _principal(cluster, seen), seen.view, seen.topics, needs)
    if shown is not None:
        yield from flows.topics(edge, config, shown, denied)
        servers = config.central.bootstrap_servers
        yield from flows.sizes(edge, config, shown, ledger_view.targets, servers)
        if ledger_view.holds is not None:
            yield from flows.retention(edge, config, ledger_view.holds, ledger_view.targets, servers)
            yield from flows.takeover(edge, ledger_view.holds)
    yield from condition.clock(edge, seen.skew_ms, seen.ahead_ms)


def _principal(cluster: ClusterConfig, seen: ClusterSeen) -> rights.Principal:
    """The hub's principal there; brokers may map only the names of certificates and of Kerberos."""
    name = principal_of(cluster)
    is_certain = seen.reach.mechanism not in ("GSSAPI", "") or name == ANONYMOUS
    return rights.Principal(name, cluster.bootstrap_servers, is_certain)


def _common(name: str, seen: ClusterSeen, now_ms: int) -> Iterator[Finding]:
    """The findings that central and edges share."""
    yield from reach.findings(name, seen.reach, now_ms)
    yield from (failed(name, *trouble) for trouble in seen.trouble)
    yield from condition.version(name, seen.reach.bootstrap)
    yield from registries.findings(name, seen.registry, seen.records.unframed)
