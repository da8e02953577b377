"""This module writes and reads a rule about gaps as text: `topics PATTERN at EDGES: on_gap skip`, or `hold`.

The decisions topic holds these texts.

Invariant: only this module writes and reads this form. Any other text in a decision about gaps does not come from a
rule.
"""

from collections.abc import Collection
from typing import NamedTuple

from aggregator.state.decisions import ChainLink, DecisionKind

_TOPICS, _AT, _ON_GAP = "topics ", " at ", ": on_gap "
_SKIP, _HOLD = "skip", "hold"
_EVERY = "every edge"


class SkipRule(NamedTuple):
    """What one rule of the configuration says about gaps.

    Attributes:
        match: The rule's pattern.
        edges: Of which it speaks; None: of all.
        skips: Whether gaps are passed over from then on.
    """

    match: str
    edges: tuple[str, ...] | None
    skips: bool

    @classmethod
    def of(cls, match: str, edges: Collection[str] | None, *, skips: bool) -> "SkipRule":
        """Make the record of what a rule says of gaps."""
        return cls(match, None if edges is None else tuple(sorted(edges)), skips)

    @property
    def about(self) -> str:
        """The text in a decision. It always names the edges, so that no pattern can be taken for them."""
        edges = _EVERY if self.edges is None else ",".join(self.edges)
        return f"{_TOPICS}{self.match}{_AT}{edges}{_ON_GAP}{_SKIP if self.skips else _HOLD}"


def skip_rule(link: ChainLink) -> SkipRule | None:
    """The rule that a link is about; None where it is about something else."""
    head, on_gap, how = link.about.rpartition(_ON_GAP)
    match, at, edges = head.removeprefix(_TOPICS).rpartition(_AT)
    if (
        link.kind is not DecisionKind.GAP
        or not (on_gap and at and head.startswith(_TOPICS))
        or how not in (_SKIP, _HOLD)
    ):
        return None
    return SkipRule(match, None if edges == _EVERY else tuple(filter(None, edges.split(","))), how == _SKIP)
