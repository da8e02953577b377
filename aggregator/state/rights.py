"""This module derives from the configuration which rights a principal needs on an edge or at central.

Invariant: pure. The list is complete and minimal. Kafka grants rights on names and prefixes, not on patterns. If the
names of a rule cannot be listed, the rule asks for a prefix, and says so. Rights that another right implies are left
out (Read and Write imply Describe). Tests on brokers with an authorizer prove the list: a hub runs with these rights,
and fails if any one of them is missing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig, OffsetsConfig, TopicRule
from aggregator.config.patterns import PatternBranch, names
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import HEARTBEATS
from aggregator.state.names import HubNames, central_heartbeats, central_topic, checkpoints, offset_syncs

TOPIC, TRANSACTIONAL_ID, GROUP = "topic", "transactional-id", "group"
READ, WRITE, CREATE, ALTER, CONFIGS = "Read", "Write", "Create", "Alter", "DescribeConfigs"
ALTER_CONFIGS, DESCRIBE = "AlterConfigs", "Describe"
# The reason for rights on the hub's own topics; without these topics a hub cannot start.
OWN = "what the hub keeps"
TAKEOVER = "to go on where MirrorMaker 2 stopped"
_POSITIONS = "positions of consumer groups"
# Operations on a topic that the hub owns, and on a topic that it fills.
_OWN = (READ, WRITE, CREATE)
_FILLED = (READ, WRITE, CREATE, ALTER, CONFIGS)
# Operations on a filled topic whose settings the hub also changes; AlterConfigs implies DescribeConfigs.
_SYNCED = (READ, WRITE, CREATE, ALTER, ALTER_CONFIGS)


class Right(NamedTuple):
    """The operations that a principal needs on one resource.

    Attributes:
        kind: `topic`, `transactional-id` or `group`.
        name: Its name, or how names begin.
        prefixed: Whether it is a beginning.
        operations: Operations, in Kafka's names.
        why: For what, in words.
        pattern: The rule's pattern, where the right is wider than that.
    """

    kind: str
    name: str
    prefixed: bool
    operations: tuple[str, ...]
    why: str
    pattern: str = ""


def edge_rights(config: HubConfig, edge: str, topics: Collection[str] = ()) -> list[Right]:
    """The rights that the hub needs on an edge.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        topics: Names of the edge's topics, for rules that do not list them.
    """
    found = [
        Right(TOPIC, one.literal, not one.is_literal, (READ, CONFIGS), "records, and how long they are kept", wide)
        for one, _, wide in _sources(config, edge, topics)
    ]
    operations = (READ, WRITE, CREATE, CONFIGS) if config.heartbeats.emit else (READ, CONFIGS)
    groups = [] if config.offsets is None else _groups(config.offsets, (DESCRIBE,))
    return [*found, Right(TOPIC, HEARTBEATS, False, operations, "heartbeats"), *groups]


def central_rights(config: HubConfig, topics: Collection[str] = ()) -> list[Right]:
    """At central, for the hub itself; arguments as `edge_rights`."""
    own = HubNames(config.hub)
    beats = [central_heartbeats(edge) for edge in config.edges]
    filled = _SYNCED if config.config_sync == "apply" else _FILLED
    settings: Mapping[str, tuple[str, ...]] = {
        own.ledger: (*_OWN, ALTER),  # for more slots
        own.control: _OWN,
        own.requests: _OWN,
        own.decisions: (*_OWN, CONFIGS),  # to see whether its settings would delete decisions
        own.dead_letters: _OWN,
        own.edge_status: _OWN,
        own.telemetry: _OWN,
    }
    return [
        *(Right(TOPIC, name, False, operations, OWN) for name, operations in settings.items()),
        *_filled(config, topics, filled, "records without personal data"),
        *(Right(TOPIC, name, False, (READ, WRITE, CREATE, CONFIGS), "heartbeats") for name in beats),
        *(_positions(config, config.offsets) if config.offsets else ()),
        Right(TRANSACTIONAL_ID, own.driver_id, False, (WRITE,), "one driver at a time"),
        Right(TRANSACTIONAL_ID, own.slot_id(0).removesuffix("0"), True, (WRITE,), "exactly once"),
        Right(TRANSACTIONAL_ID, own.decisions, False, (WRITE,), "who decided what"),
        *dict.fromkeys(_left_by_mirrormaker(config)),
    ]


def _left_by_mirrormaker(config: HubConfig) -> Iterator[Right]:
    """Where flows begin that go on from it; once they have begun, the rule may say `earliest`, and none is needed."""
    for edge in config.edges:
        for rule in config.topics:
            if not isinstance(rule.start, MirrorMaker2) or edge not in (rule.edges or config.edges):
                continue
            names = rule.start.at(edge)
            yield Right(TOPIC, names.offsets_topic, False, (READ,), TAKEOVER)
            yield Right(TOPIC, names.configs_topic, False, (READ,), TAKEOVER)
            yield Right(GROUP, names.group, False, (DESCRIBE,), TAKEOVER)
            yield Right(TRANSACTIONAL_ID, names.transactional_id(0).removesuffix("0"), True, (WRITE,), TAKEOVER)


def _positions(config: HubConfig, asked: OffsetsConfig) -> Iterator[Right]:
    """To tell positions of groups, and to commit them."""
    topics = [checkpoints(edge) for edge in config.edges if asked.checkpoints]
    topics += [offset_syncs(edge) for edge in config.edges if asked.syncs]
    yield from (Right(TOPIC, name, False, _OWN, _POSITIONS) for name in topics)
    if asked.commits:
        yield from _groups(asked, (READ,))


def _groups(asked: OffsetsConfig, operations: tuple[str, ...]) -> list[Right]:
    """On groups, by name where patterns list them, else by how they begin."""
    listed = {one for pattern in asked.groups for one in names(pattern)}
    begins = [one.literal for one in listed if not one.is_literal]
    return [
        Right(GROUP, one.literal, not one.is_literal, operations, _POSITIONS)
        for one in sorted(listed)
        if not any(one.literal.startswith(begin) and one != PatternBranch(begin, is_literal=False) for begin in begins)
    ]


def reader_rights(config: HubConfig, group: str, topics: Collection[str] = ()) -> list[Right]:
    """At central, for whoever reads what arrives there; `group` is the reader's consumer group, empty for none."""
    groups = [Right(GROUP, group, False, (READ,), "positions")] if group else []
    return [*_filled(config, topics, (READ,), "records without personal data"), *groups]


def _filled(config: HubConfig, topics: Collection[str], operations: tuple[str, ...], why: str) -> Iterator[Right]:
    places: dict[PatternBranch, str] = {}
    for edge in config.edges:
        for one, rule, wide in _sources(config, edge, topics):
            before, _, after = central_topic(rule.central, edge, "\0").partition("\0")
            place = PatternBranch(f"{before}{one.literal}{after if one.is_literal else ''}", one.is_literal)
            places.setdefault(place, wide)
    begins = [place.literal for place in places if not place.is_literal]
    for place, wide in places.items():
        if not any(place.literal.startswith(one) and place != PatternBranch(one, is_literal=False) for one in begins):
            yield Right(TOPIC, place.literal, not place.is_literal, operations, why, wide)


def _sources(config: HubConfig, edge: str, topics: Collection[str]) -> Iterator[tuple[PatternBranch, TopicRule, str]]:
    """An edge's topics by rule; with the pattern, where only its beginning is known."""
    for rule in config.topics:
        if rule.edges is not None and edge not in rule.edges:
            continue
        yield from ((one, rule, "" if one.is_literal else rule.match) for one in _of(config, edge, rule, topics))


def _of(config: HubConfig, edge: str, rule: TopicRule, topics: Collection[str]) -> Iterable[PatternBranch]:
    listed = dict.fromkeys((*names(rule.match), *(PatternBranch(name, is_literal=True) for name in topics)))
    for one in listed:
        is_taken = rule_for(config, edge, one.literal) is rule
        if is_taken if one.is_literal else not topics:
            yield one
