"""What a rule says of gaps, as the decisions topic has it: `topics PATTERN at EDGES: on_gap skip`, or `hold`.

Invariant: one spelling, made and read here alone; any other text in a decision about gaps is not a rule's.
"""

from collections.abc import Collection
from typing import NamedTuple

from aggregator.state.decisions import Kind, Link

_TOPICS, _AT, _ON_GAP = "topics ", " at ", ": on_gap "
_SKIP, _HOLD = "skip", "hold"
_EVERY = "every edge"


class SkipRule(NamedTuple):
    """One word.

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
        """The word of a rule."""
        return cls(match, None if edges is None else tuple(sorted(edges)), skips)

    @property
    def about(self) -> str:
        """As a decision says it; the edges always stand in it, so that no pattern passes for them."""
        edges = _EVERY if self.edges is None else ",".join(self.edges)
        return f"{_TOPICS}{self.match}{_AT}{edges}{_ON_GAP}{_SKIP if self.skips else _HOLD}"


def skip_rule(link: Link) -> SkipRule | None:
    """The word of a rule, if a link is one."""
    head, on_gap, how = link.about.rpartition(_ON_GAP)
    match, at, edges = head.removeprefix(_TOPICS).rpartition(_AT)
    if link.kind is not Kind.GAP or not (on_gap and at and head.startswith(_TOPICS)) or how not in (_SKIP, _HOLD):
        return None
    return SkipRule(match, None if edges == _EVERY else tuple(filter(None, edges.split(","))), how == _SKIP)
