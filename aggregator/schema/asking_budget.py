"""How much of its time an asker may spend on schema ids that a registry does not have.

Invariant: a flood of senseless ids costs a bounded share of the asker's time, however far away the registry is. Takes
the time as an argument.
"""

from collections import deque

# More than this share of its time would leave a slot too little for its other flows, and for its transaction.
_SPENT_S = 2.0
_WITHIN_S = 5.0


class AskingBudget:
    """What the last questions took."""

    def __init__(self) -> None:
        self._spent: deque[tuple[float, float]] = deque()

    def spend(self, now_s: float, took_s: float) -> None:
        """A question that found nothing new, or listed what there is, took so long."""
        self._spent.append((now_s, took_s))

    def is_spent(self, now_s: float) -> bool:
        """Whether too much of the last seconds went into such questions."""
        while self._spent and now_s - self._spent[0][0] > _WITHIN_S:
            self._spent.popleft()
        return sum(took_s for _, took_s in self._spent) > _SPENT_S
