"""Limits the time that a slot's loop spends waiting for answers of a schema registry.

Invariants: the loop waits for at most two seconds of any five, over all topics together. Topics that asked recently
share four fifths of that time equally, and the rest is for new topics. No topic takes more than half of the time that
is left. A topic without time left is not refused: its question is asked in the background. The time is an argument.
"""

from collections import Counter, defaultdict, deque

# A larger share would leave a slot too little time for its other flows and for its transaction.
_WITHIN_TIMES = 2.5
_SHARED = 0.8


class AskingBudget:
    """Bounds how long a loop may wait for a registry, by what its last waits took.

    Args:
        most_s: Longest wait, in seconds, within any time that is 2.5 times as long.
    """

    def __init__(self, most_s: float = 2.0) -> None:
        self._most_s = most_s
        self._spent: deque[tuple[float, float, str]] = deque()
        self._total_s, self._totals_s, self._counts = 0.0, defaultdict[str, float](float), Counter[str]()

    def spend(self, now_s: float, took_s: float, topic: str) -> None:
        """A topic has waited for so long, until now."""
        self._spent.append((now_s, took_s, topic))
        self._total_s += took_s
        self._totals_s[topic] += took_s
        self._counts[topic] += 1

    def left_s(self, now_s: float, topic: str) -> float:
        """How long a topic may wait now, in seconds."""
        while self._spent and now_s - self._spent[0][0] > _WITHIN_TIMES * self._most_s:
            _, took_s, of = self._spent.popleft()
            self._total_s -= took_s
            self._totals_s[of] -= took_s
            self._counts[of] -= 1
            if not self._counts[of]:
                del self._totals_s[of], self._counts[of]
        if not self._spent:  # what was rounded adds up no further
            self._total_s = 0.0
        share_s = _SHARED * self._most_s / len(self._counts.keys() | {topic})
        return max(0.0, min((self._most_s - self._total_s) / 2, share_s - self._totals_s.get(topic, 0.0)))
