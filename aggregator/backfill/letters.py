"""Selects dead letters for a person, and checks at an edge whether the record of one letter can still be read.

Invariant: this module only reads. It shows coordinates, never a value.
"""

from collections.abc import Iterator

from aggregator.backfill.facts import read_central
from aggregator.backfill.request import Mode
from aggregator.backfill.target import target_config
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.replicate.discovery.central_topics import target
from aggregator.state.dead_letters import Letter
from aggregator.state.letter_log import read_letters
from aggregator.state.names import HubNames


def known_letters(config: HubConfig, into: str = "") -> Iterator[Letter]:
    """The letters of the live flows, or of a generation, each with its resolution if it has one.

    Args:
        config: The hub.
        into: Name of the generation; empty for the live flows.

    Raises:
        FatalError: a later version wrote a letter.
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    if not into:
        yield from read_letters(config.central, names)
        return
    where = target_config(config, Mode.INTO, into)
    for letter in read_letters(config.central, names, of_backfills=True):
        source = letter.source
        ruled = rule_for(where, source.edge, source.topic) is not None
        if ruled and letter.central == target(where, source.edge, source.topic):
            yield letter


def replay_status(config: HubConfig, letter: Letter) -> str:
    """`yes` if the record of a dead letter can still be read, else `no` and the reason.

    Raises:
        Unreachable: central, or the letter's edge, does not answer.
    """
    source = letter.source
    central = read_central(config)
    if source.edge not in config.edges or source not in central.ledger:
        return "no: the hub does not know this flow any more"
    if source in central.doubted:
        return f"no: its flow has {central.doubted[source]}"
    entry, cluster = central.ledger[source], config.edges[source.edge]
    shown = topics.described(cluster, [source.topic]).get(source.topic)
    if shown is None or source.partition >= shown.partitions:
        return "no: the edge does not show this partition"
    is_there = central.flow(source).present([(letter.incarnation, letter.offset)])
    if shown.topic_id != entry.topic_id or not is_there:
        return "no: it belongs to a former life of the topic"
    at = (source.topic, source.partition)
    if letter.offset < ends.start_offsets(cluster, [at])[at]:
        return "no: retention, or a deletion of records, took it"
    return "yes"
