"""This module keeps the flows of one slot in columns; each slot makes the plans of its own flows from them.

The slots do so in parallel, which saves the driver the time for up to 200,000 plans.

Invariant: frozen. Every column has one value for each flow, in the same order.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from aggregator.coordinates import EdgePartition
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.schema_fingerprints import Fingerprints
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord


@dataclass(frozen=True, slots=True)
class TopicTerms:
    """The part of a `FlowPlan` that is the same for all partitions of a topic."""

    central_topic: str
    by_key: bool
    limits: TopicLimits
    skips_gaps: bool
    fingerprints: Fingerprints = ()


@dataclass(frozen=True, slots=True)
class FlowTable(Collection[FlowPlan]):
    """Holds one slot's flows; iterating over them makes their plans.

    Attributes:
        epoch: The epoch that they are for.
        slot: Number of the slot.
        sources: Edge partitions.
        entries: Start of each flow, by its winning record or its rule.
        until: Offset at which each flow is done; None: never.
        terms: Terms of each flow's topic.
        fresh: Flows whose position is new, each with the decision of a rule that it rests on, if any.
    """

    epoch: int
    slot: int
    sources: Sequence[EdgePartition]
    entries: Sequence[LedgerRecord]
    until: Sequence[int | None]
    terms: Sequence[TopicTerms]
    fresh: Mapping[EdgePartition, GapDecision | None]

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[FlowPlan]:
        for source, entry, until, terms in zip(self.sources, self.entries, self.until, self.terms, strict=True):
            yield FlowPlan(
                source,
                structs.replace(entry, epoch=self.epoch, slot=self.slot),
                is_new_position=source in self.fresh,
                central_topic=terms.central_topic,
                by_key=terms.by_key,
                limits=terms.limits,
                until=until,
                skips_gaps=terms.skips_gaps,
                decision=self.fresh.get(source),
                fingerprints=terms.fingerprints,
            )

    def __contains__(self, plan: object) -> bool:
        return any(plan == own for own in self)
