"""This module computes how long to wait before a retry: longer after each failure, up to a bound.

Invariant: pure. Randomness is an argument, for callers that would otherwise disturb each other and keep failing at the
same moments.
"""

from dataclasses import dataclass

# With more steps every pause has reached its bound, and the power could overflow a float.
_MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """Computes the pauses between attempts at one task.

    Attributes:
        first_s: Pause after the first failure, in seconds.
        most_s: Longest pause, in seconds.
        growth: Factor by which each pause is longer than the one before.
    """

    first_s: float
    most_s: float
    growth: float = 2.0

    def pause_s(self, failures: int, *, chance: float = 0.0) -> float:
        """The pause after a number of failures in a row, in seconds.

        Args:
            failures: Number of failures in a row; at least 1.
            chance: Random number from 0 to 1; at 1, the pause is halved.
        """
        whole = min(self.most_s, self.first_s * self.growth ** min(failures - 1, _MAX_STEPS))
        return whole * (1 - chance / 2)

    def pause_after_s(self, waited_s: float) -> float:
        """The pause for a caller that knows only the seconds since the first failure. Pauses double them."""
        return min(self.most_s, self.first_s + waited_s)
