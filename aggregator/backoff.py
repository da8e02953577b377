"""This module computes how long to wait before a retry: longer after each failure, up to a bound.

Invariant: pure. Randomness is an argument, for callers that would otherwise disturb each other and keep failing at the
same moments.
"""

from dataclasses import dataclass

# With more steps every pause has reached its bound, and the power could overflow a float.
_STEPS_MOST = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """Computes the pauses between attempts at one task.

    Attributes:
        first_s: After the first failure, in seconds.
        most_s: No pause is longer.
        growth: By how much a pause is longer than the one before.
    """

    first_s: float
    most_s: float
    growth: float = 2.0

    def pause_s(self, failures: int, *, chance: float = 0.0) -> float:
        """The pause after so many failures in a row, in seconds.

        Args:
            failures: 1 after the first.
            chance: From 0 to 1; at 1, half of the pause is left out.
        """
        whole = min(self.most_s, self.first_s * self.growth ** min(failures - 1, _STEPS_MOST))
        return whole * (1 - chance / 2)

    def pause_after_s(self, waited_s: float) -> float:
        """The same for who knows no count: seconds since the first failure, doubled by each pause."""
        return min(self.most_s, self.first_s + waited_s)
