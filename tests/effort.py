"""How much of a search a test does: a part in daily work, all of it in `make search`."""

import pytest
from hypothesis import settings


def examples(most: int) -> int:
    """How many examples a property draws: at most as many as the profile `daily` says, where that is in force."""
    daily = settings.get_profile("daily").max_examples
    return min(most, daily) if settings.default.max_examples == daily else most


def turns(few: int, most: int) -> list:
    """Numbers of the turns that a test takes: the first few in daily work, the others in a search alone."""
    return [*range(few), *(pytest.param(turn, marks=pytest.mark.search) for turn in range(few, most))]
