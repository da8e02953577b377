"""Schema ids that a registry did not know, remembered for a while, and how long may be spent on asking about such.

Invariant: what was missing a moment ago is asked again once per batch; a flood of senseless ids costs a bounded share
of the asker's time, however far away the registry is. Takes the time as an argument.
"""

from collections import deque

# Long enough that a batch full of senseless ids is through before the first ones are asked about again; while a flood
# makes flows wait for a longer time than that, so much longer as it lasts, but not for ever: an id may become known.
_REMEMBERED_S, _LONGEST_S = 60.0, 600.0
# More than this share of its time would leave a slot too little for its other flows, and for its transaction.
_SPENT_S = 2.0
_WITHIN_S = 5.0


class NegativeCache:
    """Ids by when they were missing."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._spent: deque[tuple[float, float]] = deque()
        self._flooded_s = -_LONGEST_S

    def add(self, schema_id: int, now_s: float, took_s: float) -> None:
        """The registry has no such id, and took so long to say so."""
        self._at.pop(schema_id, None)
        self._at[schema_id] = now_s
        while not self._holds(next(iter(self._at.values())), now_s):
            del self._at[next(iter(self._at))]
        self._spent.append((now_s, took_s))

    def remembers(self, schema_id: int, now_s: float) -> bool:
        """Whether it was missing a while ago."""
        return schema_id in self._at and self._holds(self._at[schema_id], now_s)

    def _holds(self, missed_s: float, now_s: float) -> bool:
        return now_s - max(missed_s, min(self._flooded_s, missed_s + _LONGEST_S - _REMEMBERED_S)) < _REMEMBERED_S

    def flooded(self, now_s: float) -> bool:
        """Whether too much of the last seconds went into ids that were missing."""
        while self._spent and now_s - self._spent[0][0] > _WITHIN_S:
            self._spent.popleft()
        if sum(took_s for _, took_s in self._spent) <= _SPENT_S:
            return False
        self._flooded_s = now_s
        return True
