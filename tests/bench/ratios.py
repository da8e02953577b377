"""Ratios of contestants that ran in turns: one for each round, so that whatever else the machine did slowed both."""

import statistics
from collections.abc import Iterable


def spread(ours: Iterable[float], theirs: Iterable[float]) -> dict[str, float]:
    """The first's figure by the second's in the same round: median, least, most."""
    ratios = [mine / yours for mine, yours in zip(ours, theirs, strict=True)]
    return {
        "median": round(statistics.median(ratios), 3),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
    }
