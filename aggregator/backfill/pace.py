"""Decides how fast a backfill may go: at its own rate while live flows keep up, else at a small share of their rate.

Invariant: pure. Times come with the observations. A backfill yields only to flows that move: a stopped hub and a held
flow do not slow it. A yielding backfill never stands still.
"""

from dataclasses import dataclass

# A flow that keeps up is one transaction behind. Half a second's worth of records is more than that.
_BEHIND_S = 0.5
_FEW_RECORDS = 500
_SHARE = 0.02
_LEAST_PER_S = 200.0
_GROWTH = 1.5
# More than any slot can do.
_FREE_PER_S = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Load:
    """The live flows that have moved since the last look.

    Attributes:
        per_s: Records a second that they took.
        behind: Records that they still have before them.
    """

    per_s: float = 0.0
    behind: int = 0

    @property
    def keeps_up(self) -> bool:
        """Whether no more records wait than are always under way."""
        return self.behind <= max(_FEW_RECORDS, self.per_s * _BEHIND_S)


def next_rate(before: float | None, asked: float | None, load: Load) -> float | None:
    """The new bound in records per second; None: no bound.

    Args:
        before: The bound until now.
        asked: The highest bound that the request allows.
        load: The load of the live flows.
    """
    if not load.keeps_up:
        least = max(_LEAST_PER_S, load.per_s * _SHARE)
        return least if asked is None else min(asked, least)
    grown = None if before is None else before * _GROWTH
    if grown is None or grown > (asked or _FREE_PER_S):
        return asked
    return grown
