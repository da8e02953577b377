"""Decides where a backfill's records go: makes its configuration, in which topics and tables may carry a generation's
name.

Invariant: a generation differs from the live flows only by name. Rules, policies and registries are the present ones. A
generation whose topic a live flow of the hub writes is refused: into a live topic goes only what is missing there.
"""

from collections.abc import Iterable

from aggregator.backfill.plan import Plan
from aggregator.backfill.request import Mode
from aggregator.config.collisions import reserved_names
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.errors import FatalError
from aggregator.replicate.discovery.central_topics import target
from aggregator.state.control import Target

# A topic of a restate loses no record on the way to the table, whatever the record's age or key.
_WHOLE = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def target_config(config: HubConfig, mode: Mode, into: str) -> HubConfig:
    """The configuration with which a backfill of this mode delivers; it writes no heartbeats.

    Args:
        config: The hub.
        mode: Where its records go.
        into: Name of the generation; of a restate, the name of the topics that it passes through.
    """
    quiet: dict[str, object] = {"heartbeats": config.heartbeats.model_copy(update={"emit": False})}
    if mode is Mode.MISSING:
        return config.model_copy(update=quiet)
    if mode is Mode.INTO and config.lake:
        tables = {f"{name}_{into}": settings for name, settings in config.lake.tables.items()}
        quiet["lake"] = config.lake.model_copy(update={"tables": config.lake.tables | tables})
    rules = tuple(
        rule.model_copy(
            update={
                "central": f"{rule.central}.{into}",
                "lake": f"{rule.lake}_{into}" if rule.lake and mode is Mode.INTO else rule.lake,
                "start": "earliest",
                "central_config": rule.central_config | (_WHOLE if mode is Mode.RESTATE else {}),
            }
        )
        for rule in config.topics
    )
    return config.model_copy(update=quiet | {"topics": rules})


def written(config: HubConfig, where: HubConfig, flows: Iterable[EdgePartition]) -> frozenset[str]:
    """Central topics that the hub or the backfill writes: a record of ours in an edge topic of the name is a cycle.

    Args:
        config: The hub.
        where: The hub, as the backfill delivers.
        flows: Edge partitions that the hub replicates.
    """
    return frozenset(
        target(some, flow.edge, flow.topic)
        for flow in flows
        for some in (config, where)
        if flow.topic == HEARTBEATS or rule_for(some, flow.edge, flow.topic) is not None
    )


def refuse_live(config: HubConfig, flows: Iterable[EdgePartition], targets: Iterable[str], *, replay: bool) -> None:
    """Refuse targets of a generation that are taken.

    Args:
        config: The hub.
        flows: Edge partitions that the hub replicates.
        targets: Central topics of the generation.
        replay: Whether the request asks for the generation's dead letters.

    Raises:
        FatalError: a live flow writes one of them, or it is one of the hub's own.
    """
    live = written(config, config, flows) | set(reserved_names(config.hub, list(config.edges)))
    taken = sorted(live & set(targets))
    if taken:
        otherwise = "choose another name with --into; what is missing in a live topic comes with --missing"
        late = "replay a generation's letters before a rule names it; now, make another one: backfill run --into"
        raise FatalError(
            f"{taken[0]} is written by the hub itself: a second copy of its records must not go there",
            hint=late if replay else otherwise,
        )


def refuse_former(noted: Iterable[Target], plans: Iterable[Plan], targets: Iterable[str]) -> None:
    """Refuse targets of a generation that may have been written under a former rule.

    Args:
        noted: Where live flows were ever written, from the control topic.
        plans: Of all backfills; one of `Mode.MISSING` writes where a rule says.
        targets: Central topics of the generation.

    Raises:
        FatalError: one of them may have been; nobody knows which of the flows' records it holds.
    """
    late = {one.central for plan in plans if plan.mode is Mode.MISSING for one in plan.writes}
    taken = sorted((late | {one.central for one in noted}) & set(targets))
    if taken:
        raise FatalError(
            f"{taken[0]} may have been written by the hub itself, as a former rule said: a second copy of its records"
            " must not go there",
            hint="make another generation: backfill run --into with another name",
        )
