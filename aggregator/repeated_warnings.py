"""This module logs a lasting fault when it begins, and then once an hour with the number of times it was met.

Invariant: pure. A fault that is over is forgotten, and is logged as new when it begins again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

AGAIN_S = 3600.0


@dataclass(slots=True)
class _Met:
    began_s: float
    said_s: float
    count: int


@dataclass(slots=True)
class RepeatedWarnings:
    """Remembers which warnings were said, and when.

    Args:
        again_s: Seconds after which a lasting fault is reported again.
    """

    again_s: float = AGAIN_S
    _met: dict[str, _Met] = field(default_factory=dict)

    def due(self, found: Mapping[str, str], now_s: float) -> dict[str, str]:
        """The sentences that are due to be said now, by the subject of each.

        Args:
            found: Present faults: a sentence by the subject of each.
            now_s: Time on a clock that only goes forward, in seconds.
        """
        said = dict[str, str]()
        for key, sentence in found.items():
            met = self._met.get(key)
            if met is None:
                self._met[key] = _Met(now_s, now_s, 1)
                said[key] = sentence
                continue
            met.count += 1
            if now_s - met.said_s >= self.again_s:
                met.said_s = now_s
                hours = round((now_s - met.began_s) / 3600)
                said[key] = f"still so after {hours} h, met {met.count:,} times: {sentence}"
        self._met = {key: met for key, met in self._met.items() if key in found}
        return said
