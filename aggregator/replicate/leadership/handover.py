"""A handover writes the hub's positions into MirrorMaker 2's offsets topic, after all writers of the hub were fenced.

Invariant: before the ledger is read, the handover takes the driver's id and fences the id of every slot, as the opening
of an epoch does. The offsets are committed under the driver's id. If a hub starts in between, it owns that id, and
nothing is written.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import EdgePartition
from aggregator.errors import FatalError
from aggregator.kafka.cluster.topics import partition_count, topic_names
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.mirrormaker.connect_offsets import SourceOffsets, source_offsets
from aggregator.mirrormaker.handover import HandedOver
from aggregator.state.control_log import read_control
from aggregator.state.ledger import LedgerRecord
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames


def known_offsets(cluster: ClusterConfig, names: Collection[MirrorMaker2]) -> dict[MirrorMaker2, SourceOffsets]:
    """The contents of those offsets topics that exist.

    Args:
        cluster: Central.
        names: Whose.

    Raises:
        AggregatorError: central does not answer, or a record is damaged.
    """
    there = topic_names(cluster)
    topics = {one.offsets_topic for one in names} & there.keys()
    logs = {topic: read_to_end(cluster, topic, range(there[topic])) for topic in sorted(topics)}
    return {
        one: source_offsets(logs[one.offsets_topic], one.connector, one.source)
        for one in names
        if one.offsets_topic in logs
    }


class Handover:
    """Owns the driver's transactional id, so no hub of this name can write."""

    def __init__(self, writer: TransactionalWriter, ledger: Mapping[EdgePartition, LedgerRecord]) -> None:
        self._writer = writer
        self.ledger = ledger

    def write(self, offsets: Collection[HandedOver]) -> None:
        """Write all of them, or none.

        Raises:
            Fenced: a hub was started meanwhile.
            RetryError: central refused, or did not answer.
        """
        self._writer.begin()
        for one in offsets:
            if one.record is not None:
                place = -1 if one.record.partition is None else one.record.partition
                self._writer.produce(one.names.offsets_topic, one.record.key, one.record.value, partition=place)
        self._writer.commit()


@contextmanager
def handing_over(config: HubConfig) -> Iterator[Handover]:
    """Take the hub's ids, read where every flow stands, and write in their name.

    Raises:
        FatalError: something undecided hides where the flows stand.
        AggregatorError: central does not answer, or a hub takes an id back.
    """
    names = HubNames(config.hub)
    writer = TransactionalWriter(config.central, names.driver_id)
    try:
        writer.open()
        epoch = read_control(config.central, names).epoch
        if epoch is None:
            raise FatalError(f"no hub named {config.hub} has run", hint="see `hub:` in the configuration")
        ids = max(epoch.ids, partition_count(config.central, names.ledger))  # control may have been made anew
        for slot in range(ids):
            _fence(config.central, names.slot_id(slot))
        yield Handover(writer, read_ledger(config.central, names, partitions=ids))
    finally:
        writer.close()


def _fence(cluster: ClusterConfig, transactional_id: str) -> None:
    writer = TransactionalWriter(cluster, transactional_id)
    try:
        writer.open()
    finally:
        writer.close()
