"""Finds which rights the hub's principals lack, by name and operation, before a flow stands still because of one.

Invariant: this module only reads. All clusters are asked at the same time; one that does not answer is left out, and
costs its time-out once. Rights that only the creation or the widening of a topic needs are not checked here. The code
that creates or widens topics reports them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.coordinates import CENTRAL
from aggregator.errors import Unreachable
from aggregator.kafka.cluster.authorized_operations import authorized
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.probes.transactional_rights import writable
from aggregator.replicate.discovery.edge_topic import is_internal
from aggregator.state.names import HubNames
from aggregator.state.rights import (
    ALTER,
    CREATE,
    OWN,
    TAKEOVER,
    TOPIC,
    TRANSACTIONAL_ID,
    Right,
    central_rights,
    edge_rights,
)
from aggregator.threads import map_concurrently

_TIMEOUT_S = 5.0


class MissingRights(NamedTuple):
    """Rights that a principal of the hub does not have on one topic or transactional id.

    Attributes:
        cluster: `central`, or `edge:<name>`, as `acls print --for` takes it.
        topic: Its name, or that of the transactional id.
        operations: Those that are missing; of a hidden topic, those that are needed.
        hidden: The cluster does not even say whether the topic is there.
        own: It is one that the hub keeps at central; nothing goes without it.
        kind: `topic` or `transactional-id`.
    """

    cluster: str
    topic: str
    operations: tuple[str, ...]
    hidden: bool
    own: bool
    kind: str = TOPIC

    @property
    def sentence(self) -> str:
        """A sentence that says which rights are lacking."""
        rights = ", ".join(self.operations)
        if self.kind == TRANSACTIONAL_ID:
            return f"{self.cluster}: the hub's principal lacks {rights} on transactional id {self.topic}"
        if self.hidden:
            return f"{self.cluster} hides topic {self.topic}: the hub's principal needs {rights} on it"
        return f"{self.cluster}: the hub's principal lacks {rights} on topic {self.topic}"

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for lacking rights."""
        name = {"topic": None, "transactional_id": None} | {self.kind.replace("-", "_"): self.topic}
        return {"cluster": self.cluster, **name, "lacks": list(self.operations), "hidden": self.hidden}

    @property
    def hint(self) -> str:
        """The command that prints the rights to grant."""
        return f"aggregator acls print --for {self.cluster}"


def lacking_rights(config: HubConfig) -> tuple[MissingRights, ...]:
    """Ask every cluster what the hub's principal may do with the topics that the configuration speaks of."""

    def one(edge: str) -> list[MissingRights]:
        return _of_edge(config, edge) if edge else _of_central(config)

    return tuple(lacking for found in map_concurrently(one, ["", *config.edges]).values() for lacking in found)


def _of_edge(config: HubConfig, edge: str) -> list[MissingRights]:
    def takes(name: str) -> bool:
        return not is_internal(name) and rule_for(config, edge, name) is not None

    there = _names(config.edges[edge])
    return [] if there is None else _of(config.edges[edge], f"edge:{edge}", edge_rights(config, edge), there, takes)


def _of_central(config: HubConfig) -> list[MissingRights]:
    rights, there = central_rights(config), _names(config.central)
    if there is None:
        return []
    found = _of(config.central, CENTRAL, rights, there, lambda name: _is_filled(config, name))
    return [*found, *(_ids(config, rights) if HubNames(config.hub).control in there else ())]


def _ids(config: HubConfig, rights: Sequence[Right]) -> Iterator[MissingRights]:
    """Transactional ids of a hub that has run, as their coordinators say; before, brokers may have no topic for it."""
    names = HubNames(config.hub)
    needed = [one for one in rights if one.kind == TRANSACTIONAL_ID]
    # For slots the question uses an id that no slot has. For MirrorMaker 2's tasks it uses the first task's id: the
    # question takes that id from nobody.
    name_of = {
        one: one.name if not one.prefixed else f"{one.name}0" if one.why == TAKEOVER else names.unused_id
        for one in needed
    }
    asked = [name for name in name_of.values() if name != names.unused_id]
    answers = writable(config.central, asked, unused=names.unused_id, longest_ms=None, timeout_s=_TIMEOUT_S)
    for one in needed:
        if not answers.get(name_of[one], True):
            shown = f"{one.name}*" if one.prefixed else one.name
            # A right on each slot's own id is also sufficient.
            yield MissingRights(
                CENTRAL, shown, one.operations, hidden=False, own=not one.prefixed, kind=TRANSACTIONAL_ID
            )


def _is_filled(config: HubConfig, name: str) -> bool:
    """Whether some edge's topic goes to this one."""
    for edge in config.edges:
        for rule in config.topics:
            before, _, after = rule.central.replace("{edge}", edge).partition("{topic}")
            topic = name[len(before) : len(name) - len(after)]
            if name == before + topic + after and rule_for(config, edge, topic) is rule:
                return True
    return False


def _names(cluster: ClusterConfig) -> Collection[str] | None:
    """Topics that a cluster shows; None where it does not answer, which is said wherever it is needed."""
    try:
        return topic_names(cluster, timeout_s=_TIMEOUT_S)
    except Unreachable:
        return None


def _of(
    cluster: ClusterConfig, place: str, rights: Sequence[Right], there: Collection[str], takes: Callable[[str], bool]
) -> list[MissingRights]:
    needed = _needed(rights, there, takes)
    try:
        may = authorized(cluster, needed, timeout_s=_TIMEOUT_S)
    except Unreachable:
        return []  # reported wherever the cluster is needed
    own = {one.name for one in rights if one.why == OWN}
    return [
        MissingRights(place, name, missing, have is None, name in own)
        for name, have in sorted(may.items())
        if (missing := tuple(one for one in needed[name] if one not in (have or ())))
    ]


def _needed(
    rights: Sequence[Right], there: Collection[str], takes: Callable[[str], bool]
) -> dict[str, tuple[str, ...]]:
    """Operations by topic; of the names that begin so those that are there."""
    needed: dict[str, tuple[str, ...]] = {}
    for right in rights:
        names = (
            [name for name in there if name.startswith(right.name) and takes(name)] if right.prefixed else [right.name]
        )
        if right.kind == TOPIC:
            needed |= dict.fromkeys(names, tuple(one for one in right.operations if one not in (CREATE, ALTER)))
    return needed
