"""Hands flows back to MirrorMaker 2: converts the hub's positions into source offsets from which it continues.

Invariant: pure. Each flow of a rule has one record, at the position in its ledger record. Heartbeats have none. If the
hub has not read the present log of a flow yet, the offset that MirrorMaker 2 had for the former log is removed.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import EdgePartition
from aggregator.mirrormaker.connect_offsets import OffsetRecord, SourceOffsets, offset_record
from aggregator.state.ledger import LedgerRecord


class HandedOver(NamedTuple):
    """One source partition, and the position from which MirrorMaker 2 continues with it.

    Attributes:
        source: The flow.
        names: Names of the MirrorMaker 2 that copies the edge.
        position: The next offset that it reads.
        record: The record to write to the offsets topic; None: the topic has none and needs none.
        note: The hub's knowledge that MirrorMaker 2 lacks.
    """

    source: EdgePartition
    names: MirrorMaker2
    position: int
    record: OffsetRecord | None
    note: str


def names_of(config: HubConfig, edge: str, topic: str) -> MirrorMaker2 | None:
    """The names of the MirrorMaker 2 that copied an edge topic.

    Those of its rule's `start`, else those of MirrorMaker 2's dedicated mode.

    None where no rule takes the topic.
    """
    rule = rule_for(config, edge, topic) if edge in config.edges else None
    if rule is None:
        return None
    return (rule.start if isinstance(rule.start, MirrorMaker2) else MirrorMaker2()).at(edge)


def handed_over(
    config: HubConfig,
    ledger: Mapping[EdgePartition, LedgerRecord],
    known: Mapping[MirrorMaker2, SourceOffsets],
    edge: str | None,
) -> Iterator[HandedOver]:
    """Every flow that a rule takes, in order.

    Args:
        config: The hub.
        ledger: Winning records.
        known: Present contents of the offsets topics that exist.
        edge: One edge; None selects all.
    """
    for source, entry in sorted(ledger.items()):
        names = names_of(config, source.edge, source.topic)
        if names is None or edge not in (None, source.edge):
            continue
        before = known.get(names, SourceOffsets())
        at = (source.topic, source.partition)
        record = offset_record(before, names.connector, names.source, at, entry.next_offset)
        forgotten = record.value is None and at not in before.positions
        yield HandedOver(source, names, entry.next_offset, None if forgotten else record, _note(entry))


def _note(entry: LedgerRecord) -> str:
    if entry.gap is not None:
        return f"a gap of kind {entry.gap.kind} is open here: MirrorMaker 2 passes over it in silence"
    return f"of these {entry.dead:,} are dead letters, which it does not deliver" if entry.dead else ""
