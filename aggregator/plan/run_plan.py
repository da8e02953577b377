"""Plans what a run would do now: topics to create, flows and where they go, schemas to register, tables to make.

Invariants: this module only reads, and makes no decisions of its own: topics, flows and refusals come from the code
with which `run` plans an epoch. An edge that does not answer is reported and hides no other.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.errors import AggregatorError, FatalError
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.plan.actions import BAD, CREATE, IDLE, NOTHING, WIDEN_TOPIC
from aggregator.plan.flows import (
    FlowStep,
    PlannedFlows,
    TakeoverStep,
    flow_steps,
    silent_steps,
    takeover_steps,
    waiting_steps,
)
from aggregator.plan.prospects import prospects
from aggregator.plan.schemas import (
    FieldRoute,
    SchemaStep,
    central_registry,
    fields_of,
    keys_of,
    newest_schemas,
    paths_of,
    schema_steps,
    value_texts,
)
from aggregator.plan.tables import TableStep, table_steps
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import Snapshots, central_topics, target
from aggregator.replicate.discovery.compacted_keys import losing_keys
from aggregator.replicate.discovery.discovery import BEATS_AT_AN_EDGE, drop_unanswered, snapshot
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic
from aggregator.replicate.discovery.topic_settings import Drift, DriftAction, changes, drifts
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.epoch.takeover import take_over
from aggregator.replicate.identity.clusters import Identity, identities, refuse_central, refuse_duplicate_clusters
from aggregator.replicate.identity.identities import fetch_cluster_ids, known_clusters
from aggregator.replicate.slot.key_checks import require_unreplaced
from aggregator.state.control_log import read_control
from aggregator.state.decisions import decisions_topic
from aggregator.state.internal_topics import internal_topics, offset_topics
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_requests
from aggregator.state.requests import Requests
from aggregator.threads import map_concurrently


@dataclass(frozen=True, slots=True)
class TopicStep:
    """One topic at central, or the heartbeats at an edge. `left_out` are settings that its cluster does not know."""

    cluster: str
    topic: str
    action: str
    partitions: int
    settings: Mapping[str, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HubPlan:
    """Everything that `aggregator plan` shows."""

    hub: str
    unreachable: Mapping[str, str]
    topics: tuple[TopicStep, ...]
    flows: tuple[FlowStep, ...]
    schemas: tuple[SchemaStep, ...]
    tables: tuple[TableStep, ...]
    fields: tuple[FieldRoute, ...]
    drifts: tuple[Drift, ...] = ()
    clusters: tuple[Identity, ...] = ()
    paused: Mapping[str, str] = field(default_factory=dict)
    takeovers: tuple[TakeoverStep, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether a run would create or change something, or `--apply` a setting."""
        return bool(self.changes()) or self.makes

    @property
    def makes(self) -> bool:
        """Whether a run would create or change something."""
        return any(action not in IDLE for action in self._actions())

    def changes(self, *, unbounded: bool = False) -> Mapping[str, Mapping[str, str]]:
        """Settings that `--apply` gives to topics at central; with the word for it also what keeps for ever."""
        return changes(self.drifts, confirmed=True, unbounded=unbounded)

    @property
    def troubled(self) -> bool:
        """Whether somebody does not answer, or a run would hold something or make all of a topic dead letters."""
        bad = any(action in BAD for action in self._actions())
        lost = any(one.lost for one in self.takeovers)
        return bool(self.unreachable or bad or lost) or any(flow.held or flow.dead for flow in self.flows)

    def _actions(self) -> list[str]:
        schemas, tables = [one.action for one in self.schemas], [one.action for one in self.tables]
        return [*(one.action for one in self.topics), *schemas, *tables]

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a plan."""
        return (
            {"pending": self.pending}
            | asdict(self)
            | {
                "drifts": [one.plain() for one in self.drifts],
                "clusters": [one._asdict() for one in self.clusters],
            }
        )


def hub_plan(config: HubConfig, policies: Mapping[Path, Policy], *, now_ms: int, today: date) -> HubPlan:
    """Look at every cluster and plan.

    Args:
        config: The hub.
        policies: Policies of the rules, by path.
        now_ms: The present, for the comparison of record age with retention.
        today: Decides which `keep` has expired.

    Raises:
        Unreachable: central, or a registry, does not answer.
        ConfigError: a policy contradicts itself; one cluster stands under two names; central is another one.
        FatalError: central gives topics no ids.
    """
    shown, unreachable, clusters = _look(config)
    seen = {edge: one.topics for edge, one in shown.items()}
    snapshots = {edge: _with_heartbeats(config, topics) for edge, topics in seen.items()}
    names = HubNames(config.hub)
    have = topics.topic_names(config.central)
    topics.require_ids(config.central, have)
    requests = _asked(config, names, have)
    paused = {edge: one.sentence for edge, one in requests.pauses.items() if one.paused and edge in config.edges}
    read = {edge: topics for edge, topics in snapshots.items() if edge not in paused}
    internal = [*internal_topics(names, config.replication.slots), decisions_topic(names), *offset_topics(config)]
    specs, bare = _as_made(config, central_topics(config, snapshots), have)
    ledger = drop_unanswered(read_ledger(config.central, names), shown)
    begun = take_over(config, ledger, read, fences=False)
    snapshots |= {edge: dict(one) for edge, one in begun.snapshots.items()}
    known = topic_settings.known_settings(config.central, [spec.name for spec in specs if spec.name in have])
    settings = _settings(specs, known, topic_settings.topic_defaults(config.central))
    refused = losing_keys(config, policies, snapshots, settings, now_ms=now_ms)
    opened = partial(plan_flows, epoch=0, drain=False, now_ms=now_ms, decisions=requests.decisions, refused=refused)
    planned = PlannedFlows(opened(config, ledger, begun.snapshots, settings), snapshots, now_ms=now_ms)
    moving = planned.moving(snapshots)
    met = prospects(config, policies, snapshots, moving, settings=settings, central=central_registry(config))
    dead = {at: one.all_dead for at, one in met.items() if one.all_dead}
    steps = [
        *flow_steps(config, snapshots, ledger, planned, met),
        *waiting_steps(config, shown),
        *silent_steps(config, ledger, unreachable),
    ]
    found, trouble = newest_schemas(config, policies, snapshots)
    arriving = moving.keys() - dead.keys()
    schemas = tuple(schema_steps(config, found, arriving, today))
    sources = {*ledger, *(EdgePartition(step.edge, step.topic, 0) for step in steps)}
    fed, plain = {target(config, *at) for at in arriving}, _bare(config, policies, snapshots)
    return HubPlan(
        config.hub,
        unreachable | trouble,
        (*_topic_steps("central", have, [*internal, *specs], bare), *_beats(seen, snapshots)),
        tuple(steps),
        schemas,
        tuple(table_steps(config, sources, value_texts(schemas), have, fed=fed, bare=plain)),
        (*fields_of(found, today), *_listed(config, policies, snapshots, today)),
        tuple(_drifts(config, policies, seen, known, now_ms=now_ms)),
        clusters,
        paused,
        tuple(takeover_steps(begun.topics, snapshots)),
    )


def _asked(config: HubConfig, names: HubNames, have: Mapping[str, int]) -> Requests:
    """What people decided; and the keys are those that the hub has used, as a run asks before its first record.

    Raises:
        ConfigError: a key is another one than this hub has used under its name and version.
    """
    if names.control in have:
        with suppress(FatalError):  # a run names a damaged record; a plan shows the rest
            require_unreplaced(config.keys, read_control(config.central, names).keys)
    return read_requests(config.central, names)


def _bare(config: HubConfig, policies: Mapping[Path, Policy], snapshots: Snapshots) -> set[str]:
    """Central topics whose values have no schema."""
    return {
        target(config, edge, name)
        for edge, shown in snapshots.items()
        for name in shown
        if (rule := rule_for(config, edge, name)) and not policies[rule.policy].view(name).value_format.has_schema
    }


def _drifts(
    config: HubConfig,
    policies: Mapping[Path, Policy],
    seen: Snapshots,
    known: Mapping[str, topic_settings.Settings],
    *,
    now_ms: int,
) -> Iterator[Drift]:
    """Settings that differ; one under which a flow could not run any more is for a person to mend first."""
    shown = {edge: {name: topic.synced_settings for name, topic in topics.items()} for edge, topics in seen.items()}
    settings = {name: one.values for name, one in known.items()}
    own = {name: one.own for name, one in known.items()}
    for one in drifts(config, shown, settings, own):
        then = {one.topic: dict(settings[one.topic]) | {one.setting: one.edge or ""}}
        barred = losing_keys(config, policies, seen, then, now_ms=now_ms) if one.action is not DriftAction.KEEP else {}
        if barred and one.setting == "cleanup.policy":
            yield replace(one, action=DriftAction.KEEP, why=next(iter(barred.values())))
        else:
            yield one


def _listed(
    config: HubConfig, policies: Mapping[Path, Policy], snapshots: Snapshots, today: date
) -> Iterator[FieldRoute]:
    """What is known without a schema: paths of JSON values, values without parts, and record keys."""
    for edge, shown in snapshots.items():
        yield from paths_of(config, policies, edge, sorted(shown), today)
        yield from keys_of(config, policies, edge, sorted(shown), today)


def _look(config: HubConfig) -> tuple[dict[str, DiscoveredTopics], dict[str, str], tuple[Identity, ...]]:
    """What each edge shows whose own cluster answers, why others are not read, and which cluster each name leads to."""

    def one(edge: str) -> DiscoveredTopics | str:
        try:
            return snapshot(config, edge, {})
        except AggregatorError as error:
            return error.message

    central, ids = fetch_cluster_ids(config)
    refuse_duplicate_clusters(central or "", {edge: one for edge, one in ids.items() if one})
    known = known_clusters(config)
    refuse_central(central or "", known)
    clusters = identities(central or "", ids, known)
    foreign_clusters = {one.name: one.why for one in clusters if one.why}
    own = [edge for edge in config.edges if edge not in foreign_clusters]
    looked = map_concurrently(one, own)
    seen = {edge: found for edge, found in looked.items() if not isinstance(found, str)}
    return seen, foreign_clusters | {edge: found for edge, found in looked.items() if isinstance(found, str)}, clusters


def _with_heartbeats(config: HubConfig, shown: Mapping[str, EdgeTopic]) -> dict[str, EdgeTopic]:
    """Add the heartbeats topic that a run would create at the edge before it looks."""
    beats = EdgeTopic(HEARTBEATS, "", (0,), (0,), (0,), (None,))
    return dict(shown) if HEARTBEATS in shown or not config.heartbeats.emit else {**shown, HEARTBEATS: beats}


def _beats(seen: Snapshots, snapshots: Snapshots) -> list[TopicStep]:
    return [
        TopicStep(edge, HEARTBEATS, CREATE, BEATS_AT_AN_EDGE.partitions, BEATS_AT_AN_EDGE.settings)
        for edge, shown in snapshots.items()
        if HEARTBEATS in shown and HEARTBEATS not in seen[edge]
    ]


def _settings(
    specs: Sequence[TopicSpec], known: Mapping[str, topic_settings.Settings], defaults: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    """Settings of the central topics: those that are, and of the others those that they would get."""
    there = {name: one.values for name, one in known.items()}
    return {spec.name: there.get(spec.name, {**defaults, **spec.settings}) for spec in specs}


def _as_made(
    config: HubConfig, specs: Sequence[TopicSpec], have: Mapping[str, int]
) -> tuple[list[TopicSpec], dict[str, frozenset[str]]]:
    """Topics as central would make them, and by name what it would leave out."""
    missing, _ = topics.lacking(have, specs)
    bare = topics.left_out(config.central, missing, replication_factor=config.replication_factor)
    return [spec.bare() if spec.name in bare else spec for spec in specs], bare


def _topic_steps(
    cluster: str, have: Mapping[str, int], specs: Sequence[TopicSpec], bare: Mapping[str, frozenset[str]]
) -> list[TopicStep]:
    missing, short = topics.lacking(have, specs)
    actions = {spec.name: CREATE for spec in missing} | {spec.name: WIDEN_TOPIC for spec in short}
    return [
        TopicStep(
            cluster,
            spec.name,
            actions.get(spec.name, NOTHING),
            spec.partitions,
            dict(spec.settings),
            tuple(sorted(bare.get(spec.name, ()))),
        )
        for spec in specs
    ]
