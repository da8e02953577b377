"""Finds the central topics that an edge topic's flows were written to before their rule named the present one.

Invariant: pure. Records in a former topic were delivered, and are looked for there as long as the topic exists.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from aggregator.audit.findings import FlowAudit
from aggregator.audit.omissions import LAKE, Omission
from aggregator.coordinates import Partition
from aggregator.state.control import Target


class FormerTopics(NamedTuple):
    """The central topics that the hub has recorded as targets.

    Attributes:
        written: Where flows were ever written to.
    """

    written: Collection[Target] = ()

    def of(self, edge: str, topic: str, central: str) -> list[str]:
        """The central topics of an edge topic other than its present one."""
        return sorted({one.central for one in self.written if (one.edge, one.topic) == (edge, topic)} - {central})

    def by_key(self, edge: str, topic: str) -> bool:
        """Whether a record of any of its partitions may lie in any partition of one of them."""
        return any(one.by_key for one in self.written if (one.edge, one.topic) == (edge, topic))

    def into(self, central: str) -> set[tuple[str, str]]:
        """Edge and topic of all that was ever written to a central topic."""
        return {(one.edge, one.topic) for one in self.written if one.central == central}


def lacking(table: str, tp: Partition, position: int | None) -> Omission:
    """Why a table lacks the records in a flow's former topic.

    Args:
        table: Its name.
        tp: A partition of the former topic.
        position: Up to where the table has got it; None: it never took from there.
    """
    if position is None:
        why = f"they lie in {tp[0]}, where this flow was written before, and table {table} never took"
        why += " from there: the table that its rule named then may have them"
        return Omission(LAKE, "former_topic", why, final=True)
    why = (
        f"table {table} stands at offset {position} of central {tp[0]}-{tp[1]}, from which no rule feeds it any more:"
        " name it as `central:` again, drain, and go back"
    )
    return Omission(LAKE, "former_topic", why)


def with_gone_topics(flow: FlowAudit, gone: Iterable[str]) -> FlowAudit:
    """Say of records that were not found that they may have lain in a former topic that is no more.

    Args:
        flow: What was found.
        gone: Its former topics that central no longer has.
    """
    if not (names := " and ".join(gone)):
        return flow
    told = (
        f"{names}, where this flow was written before, {'are' if ' and ' in names else 'is'} no more at central:"
        f" --from with the time when the flow was first written to the present one leaves out what lay there"
    )
    findings = (
        replace(one, note=f"{one.note}; {told}" if one.note else told)
        if one.kind == "missing" and one.place != "edge"
        else one
        for one in flow.findings
    )
    return replace(flow, findings=tuple(findings))
