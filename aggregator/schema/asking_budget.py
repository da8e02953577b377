"""How much of its time an asker may spend on schema ids that a registry does not have.

Invariant: a flood of senseless ids costs a bounded share of the asker's time, however far away the registry is. A topic
that has spent nothing lately may always ask, so that the flood of one does not silence the others. Takes the time as an
argument.
"""

from collections import deque

# More than this share of its time would leave a slot too little for its other flows, and for its transaction.
_SPENT_S = 2.0
_WITHIN_S = 5.0


class AskingBudget:
    """What the last questions took."""

    def __init__(self) -> None:
        self._spent: deque[tuple[float, float, str]] = deque()

    def spend(self, now_s: float, took_s: float, topic: str) -> None:
        """A question for a topic that found nothing new, or listed what there is, took so long."""
        self._spent.append((now_s, took_s, topic))

    def is_spent(self, now_s: float, topic: str) -> bool:
        """Whether too much of the last seconds went into such questions, some of it for this topic."""
        while self._spent and now_s - self._spent[0][0] > _WITHIN_S:
            self._spent.popleft()
        is_much = sum(took_s for _, took_s, _ in self._spent) > _SPENT_S
        return is_much and any(of == topic for _, _, of in self._spent)
