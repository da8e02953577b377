"""Reads central for the doctor: the hub's own topics, and the topics that its edges lead to.

Invariant: this module only reads. What a run would create or refuse comes from the code with which a run plans an
epoch.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.doctor import facts
from aggregator.doctor.flows import CentralTopic
from aggregator.doctor.rights import central_needs, mirrormaker_topics
from aggregator.errors import AggregatorError
from aggregator.kafka.client.clients import TRANSACTION_TIMEOUT_MS
from aggregator.kafka.cluster.topic_spec import TopicSpec, inherited
from aggregator.kafka.cluster.topics import partition_count
from aggregator.kafka.probes import inspection, transactional_rights
from aggregator.kafka.probes.cluster_view import ClusterView, ProbedTopic, Topics
from aggregator.replicate.discovery.central_topics import central_topics
from aggregator.replicate.discovery.discovery import drop_unanswered
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.epoch.takeover import take_over
from aggregator.replicate.flow.cursor import Hold
from aggregator.replicate.identity.clusters import KnownClusters
from aggregator.replicate.identity.identities import known_clusters
from aggregator.replicate.slot.key_checks import Checks
from aggregator.state.control_log import read_control
from aggregator.state.internal_topics import internal_topics, offset_topics
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames, central_heartbeats
from aggregator.state.rights import TRANSACTIONAL_ID, Right

_LOOK_S, _LEDGER_S, _COORDINATOR_S = 10.0, 30.0, 5.0
_TRANSACTION_STATE = "__transaction_state"


@dataclass(frozen=True, slots=True)
class CentralView:
    """Holds what was found at central.

    Attributes:
        topics: The hub's own topics and the targets, as far as they are there.
        own: The specifications of the hub's own topics.
        needs: Rights that the hub needs.
        targets: Central topics of the edge topics, existing or not.
        holds: Flows that a run would refuse now; None where nobody knows.
        state: The topic of transactions; None where it is not there yet, or not told.
        known: Clusters that the names have stood for; None if the topic may not be read.
        checks: Check values of the keys that the hub has used, by name and version, as far as they may be read.
        writable: Transactional ids of the hub, as far as their coordinators say whether it may write under them.
        timeout_ms: Timeout that the hub's transactions request.
        skew_ms: Central's clock less that of whoever wrote its newest heartbeat, where it is behind.
        ahead_ms: Central's newest timestamp minus this machine's present.
        trouble: The reason why flows could not be planned, and the remedy.
    """

    topics: Topics = field(default_factory=Topics)
    own: tuple[TopicSpec, ...] = ()
    needs: tuple[Right, ...] = ()
    targets: Mapping[str, CentralTopic] = field(default_factory=dict)
    holds: tuple[Hold, ...] | None = None
    state: ProbedTopic | None = None
    known: KnownClusters | None = None
    checks: Checks = field(default_factory=dict)
    writable: Mapping[str, bool] = field(default_factory=dict)
    timeout_ms: int = TRANSACTION_TIMEOUT_MS
    skew_ms: int | None = None
    ahead_ms: int | None = None
    trouble: tuple[str, str] | None = None


def read_central(
    config: HubConfig, view: ClusterView, shown: Mapping[str, DiscoveredTopics], now_ms: int
) -> CentralView:
    """Look at central's topics, and plan as a run would.

    Args:
        config: The hub.
        view: Central's description of itself.
        shown: Edges that answered.
        now_ms: The present.
    """
    names = HubNames(config.hub)
    own = (*internal_topics(names, config.replication.slots), *offset_topics(config))
    snapshots = {edge: one.topics for edge, one in shown.items()}
    specs = {spec.name: spec for spec in central_topics(config, snapshots)}
    asked = {*specs, *(spec.name for spec in own), names.decisions, *mirrormaker_topics(config)}
    found = inspection.topics(config.central, sorted({*asked, _TRANSACTION_STATE}), timeout_s=_LOOK_S)
    state = found.views.get(_TRANSACTION_STATE)
    topics = Topics(
        {name: one for name, one in found.views.items() if name != _TRANSACTION_STATE},
        {name: why for name, why in found.refused.items() if name != _TRANSACTION_STATE},
    )
    targets = {name: _target(spec, topics, view) for name, spec in specs.items()}
    holds, trouble = _planned(config, names, shown, targets, now_ms)
    wanted = {name for topics_at_edge in snapshots.values() for name in topics_at_edge if name != HEARTBEATS}
    needs = tuple(central_needs(config, wanted, asked))
    skew_ms, ahead_ms = _clock(config, [edge for edge in shown if central_heartbeats(edge) in topics.views])
    writable = {} if state is None and _TRANSACTION_STATE not in found.refused else _writable(config, needs, view)
    known: KnownClusters | None = None
    with suppress(AggregatorError):  # missing rights are reported by the check of rights
        known = facts.with_timeout(lambda: known_clusters(config), _LEDGER_S, f"{names.control} at central")
    checks: Checks = {}
    with suppress(AggregatorError):  # missing rights are reported by the check of rights
        checks = facts.with_timeout(lambda: _checks(config, names), _LEDGER_S, f"{names.control} at central")
    return CentralView(
        *(topics, own, needs, targets, holds, state, known, checks, writable),
        skew_ms=skew_ms,
        ahead_ms=ahead_ms,
        trouble=trouble,
    )


def _checks(config: HubConfig, names: HubNames) -> Checks:
    return read_control(config.central, names).keys if partition_count(config.central, names.control) else {}


def _writable(config: HubConfig, needs: Iterable[Right], view: ClusterView) -> Mapping[str, bool]:
    """Transactional ids, asked about where the brokers may have their topic of transactions: a question creates it."""
    ids = [need.name for need in needs if need.kind == TRANSACTIONAL_ID]
    longest = (view.settings or {}).get("transaction.max.timeout.ms", "")
    return transactional_rights.writable(
        config.central,
        ids,
        unused=HubNames(config.hub).unused_id,
        longest_ms=int(longest) if longest.isdecimal() else None,
        timeout_s=_COORDINATOR_S,
    )


def _target(spec: TopicSpec, topics: Topics, view: ClusterView) -> CentralTopic:
    there = topics.views.get(spec.name)
    if there is not None and there.settings is not None:
        return CentralTopic(spec.name, there.settings, exists=True)
    exists = there is not None or spec.name in topics.refused
    return CentralTopic(spec.name, inherited(view.settings or {}) | dict(spec.settings), exists=exists)


def _planned(
    config: HubConfig,
    names: HubNames,
    shown: Mapping[str, DiscoveredTopics],
    targets: Mapping[str, CentralTopic],
    now_ms: int,
) -> tuple[tuple[Hold, ...] | None, tuple[str, str] | None]:
    """Flows that a run would refuse; or why nobody knows."""
    try:
        ledger = facts.with_timeout(lambda: read_ledger(config.central, names), _LEDGER_S, f"{names.ledger} at central")
        known = drop_unanswered(ledger, shown)
        snapshots = {edge: one.topics for edge, one in shown.items()}
        begun = facts.with_timeout(
            lambda: take_over(config, known, snapshots, fences=False), _LEDGER_S, "MirrorMaker 2's offsets at central"
        )
    except AggregatorError as error:
        return None, (error.message, error.hint)
    settings = {name: one.settings for name, one in targets.items()}
    planned = plan_flows(config, known, begun.snapshots, settings, epoch=0, drain=False, now_ms=now_ms)
    return planned.holds, None


def _clock(config: HubConfig, edges: list[str]) -> tuple[int | None, int | None]:
    """What the edges' heartbeats reveal about central's clock.

    A beat may have waited for long before central stamped it, so only a stamp from before the beat says something.
    """
    stamps = [facts.skew_ms(config.central, central_heartbeats(edge)) for edge in edges]
    behind = [skew for skew, _ in stamps if skew is not None]
    ahead = [one for _, one in stamps if one is not None]
    return min([0, *behind]) if behind else None, max(ahead, default=None)
