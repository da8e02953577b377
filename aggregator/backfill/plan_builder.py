"""Makes a plan: gathers the facts, then plans every flow that is asked for.

Invariant: this module only reads. An edge that is asked for and does not answer is an error, and never makes the plan
smaller.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aggregator.backfill.backfill_state import Backfill, BackfillState
from aggregator.backfill.facts import CentralFacts, asked_flows, look_at_edge, read_central
from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.planner import EdgePartitionState, plan_partition
from aggregator.backfill.ranges import by_incarnation, holds, split
from aggregator.backfill.request import Ask, Bound, Mode
from aggregator.backfill.store import generated_by, passed_by, read_backfills
from aggregator.backfill.target import refuse_former, refuse_live, target_config
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.count_text import format_count
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.lake.cycle.sources import lake_sources
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.retention import deleted_at_once
from aggregator.replicate.flow.limits import is_compacted
from aggregator.replicate.identity.identities import require_own_clusters
from aggregator.state.control_log import read_control
from aggregator.state.dead_letters import Letter
from aggregator.state.names import HubNames
from aggregator.threads import map_concurrently

# A slot reaches this rate easily, strip included. If a rate is given, the estimate uses that rate.
_RECORDS_A_SECOND = 50_000


def make_plan(config: HubConfig, ask: Ask, *, now_ms: int, rate: float | None = None) -> Plan:
    """Ask central and the edges what they have, and plan a backfill.

    Args:
        config: The hub's configuration.
        ask: The request that the plan answers.
        now_ms: The present; central's retention is judged by it.
        rate: Records a second at most; for the estimate of its time.

    Raises:
        FatalError: nothing of the hub is asked for, the generation's name is taken, or central's records are damaged.
        Unreachable: central or an edge that is asked for does not answer.
    """
    central = read_central(config)
    flows = asked_flows(config, central.ledger, ask)
    if ask.mode is Mode.RESTATE:
        flows = [source for source in flows if config.lake and lake_sources(config, [source])]
    backfills = read_backfills(config.central, HubNames(config.hub), for_writing=True)
    into = _generation(ask, flows, backfills.values())
    where = target_config(config, ask.mode, into)
    names = {source: target(where, source.edge, source.topic) for source in flows}
    if ask.letters is not None or ask.mode is Mode.RESTATE:
        central.require_own_letters(flows)
    if ask.letters is not None:  # an edge without any letters need not answer
        flows = [source for source in flows if asked_letters(ask, central, source, names[source])]
        names = {source: names[source] for source in flows}
    if ask.mode is not Mode.MISSING:
        refuse_live(config, central.ledger, names.values(), replay=ask.letters is not None)
        noted = read_control(config.central, HubNames(config.hub)).targets
        refuse_former(noted, [one.plan for one in backfills.values()], names.values())
    shown = _read_edges(config, flows, ask)
    scene = _PlanInputs(ask, central, tuple(backfills.values()), _settings(where, names), now_ms)
    found = [_partition(scene, source, shown.get(source), names[source]) for source in flows]
    records = sum(one.records for one in found)
    seconds = records / min(rate or _RECORDS_A_SECOND, _RECORDS_A_SECOND * config.replication.slots)
    gone = tuple(gone_letters(ask, central, found)) if ask.letters is not None else ()
    plan = Plan(config.hub, ask.plain(), ask.digest, ask.mode, into, tuple(found), seconds, gone)
    while plan.id in backfills and backfills[plan.id].end is not None:
        plan = replace(plan, round=plan.round + 1)
    return plan


def _generation(ask: Ask, flows: Collection[EdgePartition], backfills: Iterable[Backfill]) -> str:
    """The generation's name for the topics. A restate has its own topics, which are of no use after it.

    Raises:
        FatalError: there is no table to restate.
    """
    if ask.mode is not Mode.RESTATE:
        return ask.into
    if not flows:
        raise FatalError("none of these flows feeds a table", hint="a restate replaces rows of the lake: see `lake:`")
    over = (BackfillState.FINISHED, BackfillState.CANCELLED)
    before = [one for one in backfills if one.plan.ask_digest == ask.digest and one.state in over]
    return f"restate-{ask.digest[:8]}-{len(before)}"


def _read_edges(config: HubConfig, flows: list[EdgePartition], ask: Ask) -> dict[EdgePartition, EdgePartitionState]:
    edges = {edge: list(some) for edge, some in itertools.groupby(flows, lambda source: source.edge)}
    require_own_clusters(config, edges)
    answers = map_concurrently(lambda edge: look_at_edge(config, edge, edges[edge], ask), edges)
    return {source: shown for answer in answers.values() for source, shown in answer.items()}


def _settings(where: HubConfig, names: Mapping[EdgePartition, str]) -> Mapping[str, Mapping[str, str]]:
    """Settings of each central topic; of one that is not there yet, those that it will have."""
    control = HubNames(where.hub).control  # it has no retention of its own, so it shows the brokers' default
    there = set(names.values()) & set(topics.topic_names(where.central))
    found = topic_settings.settings(where.central, there | {control})
    default = {"retention.ms": found[control].get("retention.ms", "-1")}
    for source, name in names.items():
        rule = rule_for(where, source.edge, source.topic)
        if name not in there:
            found[name] = default | (rule.central_config if rule else {})
    return found


@dataclass(frozen=True, slots=True)
class _PlanInputs:
    ask: Ask
    central: CentralFacts
    backfills: tuple[Backfill, ...]
    settings: Mapping[str, Mapping[str, str]]
    now_ms: int


def _partition(scene: _PlanInputs, source: EdgePartition, shown: EdgePartitionState | None, name: str) -> PartitionPlan:
    ask, central = scene.ask, scene.central
    if shown is None:
        why = "the edge does not show this partition"
        return PartitionPlan(source, "", name, (), OffsetRange(0, 0), warnings=(why,))
    bare = PartitionPlan(source, shown.topic_id, name, (), shown.log)
    generated = generated_by(scene.backfills, ask.mode, bare)
    at_central = central.flow(source, passed_by(scene.backfills, ask.mode, bare), name, generated)
    shown = replace(shown, sampled=replace(shown.sampled, refusal=_refusal(scene, shown, name)))
    letters = asked_letters(ask, central, source, name)
    only = None if letters is None else at_central.present(letters)
    plan = plan_partition(ask.mode, at_central, shown, name, only=only)
    there = [one for one in (only or frozenset()) - at_central.replayed(ask.mode) if holds(plan.effective, one)]
    if there:
        count = format_count(len(there), "dead letter")
        why = f"{count} not written: {name} has the records, or left them out by its policy, since it was a generation"
        plan = replace(plan, warnings=(*plan.warnings, why))
    if source in central.doubted:
        why = f"its dead letters are not believed: it has {central.doubted[source]}"
        plan = replace(plan, warnings=(*plan.warnings, why))
    return plan


def _refusal(scene: _PlanInputs, shown: EdgePartitionState, name: str) -> str:
    """The reason why the backfill must not write into a central topic; empty if there is none."""
    settings = scene.settings[name]
    if scene.ask.mode is Mode.MISSING and is_compacted(settings):
        return f"{name} is compacted: a late record would stand for younger ones of its key; use --into"
    keeps_ms = int(settings.get("retention.ms", -1)) if "delete" in settings.get("cleanup.policy", "delete") else -1
    oldest_ms = shown.sampled.oldest_ms
    return deleted_at_once(oldest_ms, keeps_ms, now_ms=scene.now_ms, central_name=name) or ""


def _known(ask: Ask, central: CentralFacts, source: EdgePartition, name: str) -> Sequence[Letter]:
    """Dead letters on their way to the topic that is written."""
    return central.own_letters.get((source, name), ()) if ask.mode is Mode.INTO else central.letters.get(source, ())


def asked_letters(
    ask: Ask, central: CentralFacts, source: EdgePartition, name: str
) -> frozenset[tuple[int, int]] | None:
    """Incarnation and offset of the dead letters that are asked for, if only these are."""
    if ask.letters is None:
        return None
    keys = set(ask.letters.keys)
    return frozenset(
        (one.incarnation, one.offset)
        for one in _known(ask, central, source, name)
        if not one.resolved_by and ask.letters.reason in (None, one.reason) and (not keys or one.key in keys)
    )


def gone_letters(ask: Ask, central: CentralFacts, found: Iterable[PartitionPlan]) -> Iterable[str]:
    """Dead letters that are asked for and whose records the edge no longer has, whatever else is written or not."""
    for one in found:
        wanted = asked_letters(ask, central, one.source, one.central) or frozenset()
        is_known = one.topic_id == central.ledger[one.source].topic_id
        at_edge = by_incarnation(split(central.flow(one.source).segments, [one.log]) if is_known else ())
        for letter in _known(ask, central, one.source, one.central):
            is_asked = (letter.incarnation, letter.offset) in wanted and _is_within(ask, letter)
            if is_asked and not holds(at_edge.get(letter.incarnation, ()), letter.offset):
                yield letter.key


def _is_within(ask: Ask, letter: Letter) -> bool:
    """Whether a window takes a letter, by what it says itself: no log shows any more where its record lay."""
    return any(
        window.takes(letter.source)
        and not (window.since and _is_before(letter, window.since))
        and not (window.until and not _is_before(letter, window.until))
        for window in ask.windows
    )


def _is_before(letter: Letter, bound: Bound) -> bool:
    if bound.time is not None:
        return letter.timestamp_ms < bound.time.timestamp() * 1000
    return bound.offset is not None and letter.offset < bound.offset
