"""How much of its time a slot's loop may spend on waiting for answers of a registry.

Invariants: over all topics together it waits for two seconds of any five at most. Topics that asked lately have equal
shares of four fifths of that, the rest is for newcomers, and nobody takes more than the half of what is left. Who has
no time left is not refused: its question is asked behind its back. Takes the time as an argument.
"""

from collections import Counter, defaultdict, deque

# More than this share of its time would leave a slot too little for its other flows, and for its transaction.
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
        """Return how long a topic may wait now, in seconds."""
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
