"""Reads MirrorMaker 1: its consumers' and its producer's properties. Its whitelist was a command-line argument.

Invariant: topics keep their names. A file is a consumer's or a producer's by the properties that only one of the two
clients knows, otherwise by the file's name.
"""

from collections.abc import Mapping, Sequence

from aggregator.mirrormaker.result import FileKey
from aggregator.mirrormaker.scoped_settings import Mirror, ScopedSetting

# Properties that only one of the two clients knows.
_OF_CONSUMERS = (
    "group.id auto.offset.reset zookeeper.connect partition.assignment.strategy max.poll.records consumer.timeout.ms"
    " fetch.min.bytes max.partition.fetch.bytes fetch.message.max.bytes enable.auto.commit auto.commit.enable"
    " key.deserializer value.deserializer isolation.level num.consumer.fetchers"
)
_OF_PRODUCERS = (
    "acks batch.size linger.ms compression.type compression.codec metadata.broker.list buffer.memory max.block.ms"
    " retries max.request.size max.in.flight.requests.per.connection producer.type request.required.acks"
    " key.serializer value.serializer broker.list block.on.buffer.full enable.idempotence"
)
_CONSUMER, _PRODUCER = frozenset(_OF_CONSUMERS.split()), frozenset(_OF_PRODUCERS.split())
_NAMES = ("consumer", "source")
_PRODUCERS = ("producer", "target", "destination")
SOURCE, TARGET = "source", "target"
_LIST = ("whitelist", "topic.whitelist", "topics.whitelist", "include")


def is_consumer(file: str, entries: Sequence[FileKey]) -> bool | None:
    """Whether these are a consumer's properties; False: a producer's; None: nobody can tell."""
    keys = {entry.key for entry in entries}
    score = len(keys & _CONSUMER) - len(keys & _PRODUCER)
    if score:
        return score > 0
    name = file.replace("\\", "/").rpartition("/")[2].lower()
    if any(word in name for word in _NAMES):
        return True
    return False if any(word in name for word in _PRODUCERS) else None


def take_apart(files: Mapping[str, Sequence[FileKey]], consumers: Sequence[str]) -> Mirror:
    """Sort every key by the cluster and the client that it speaks of.

    Args:
        files: The entries of each file, by its name.
        consumers: The files of consumers; each is an edge.
    """
    mirror = Mirror("MirrorMaker 1", keeps_names=True)
    for number in range(len(consumers)):
        mirror.clusters.append(SOURCE if number == 0 else f"{SOURCE}-{number + 1}")
    mirror.flows = [(name, TARGET) for name in mirror.clusters]
    edges = dict(zip(consumers, mirror.clusters, strict=True))
    mirror.clusters.append(TARGET)
    for file, entries in files.items():
        for entry in entries:
            _sort(mirror, entry, edges.get(file, TARGET))
    return mirror


def _sort(mirror: Mirror, entry: FileKey, cluster: str) -> None:
    source = cluster if cluster != TARGET else ""
    if entry.key in _LIST:
        mirror.scoped_settings.append(ScopedSetting(entry, "topics", entry.value, source=source, target=TARGET))
    elif entry.key == "auto.offset.reset" and source:
        mirror.scoped_settings.append(ScopedSetting(entry, entry.key, entry.value, cluster, "consumer", source, TARGET))
    else:
        role = "consumer" if source else "producer"
        mirror.scoped_settings.append(ScopedSetting(entry, entry.key, entry.value, cluster, role))
