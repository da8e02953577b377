"""One dead letter against its edge: whether the record can still be read.

Invariant: reads only; coordinates, never a value.
"""

from aggregator.backfill.facts import read_central
from aggregator.config.model import HubConfig
from aggregator.kafka import ends, topics
from aggregator.kafka.letters import Letter


def readable(config: HubConfig, letter: Letter) -> str:
    """`yes`, or why not.

    Raises:
        Unreachable: central, or the letter's edge, does not answer.
    """
    source = letter.source
    central = read_central(config)
    if source.edge not in config.edges or source not in central.ledger:
        return "no: the hub does not know this flow any more"
    entry, cluster = central.ledger[source], config.edges[source.edge]
    shown = topics.described(cluster, [source.topic]).get(source.topic)
    if shown is None or source.partition >= shown.partitions:
        return "no: the edge does not show this partition"
    standing = central.standing(source)
    lives = any(at == letter.incarnation and letter.offset in range(*part) for at, part in standing.lives)
    if shown.topic_id != entry.topic_id or not lives:
        return "no: it belongs to a former life of the topic"
    at = (source.topic, source.partition)
    if letter.offset < ends.start_offsets(cluster, [at])[at]:
        return "no: retention, or a deletion of records, took it"
    return "yes"
