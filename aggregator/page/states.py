"""Decides how a state looks: a word, a sign and a tone, so that no state is shown by colour alone.

Invariant: every state of `edges.availability` has its own sign. The signs are symbols of `templates/signs.svg`.
"""

from typing import NamedTuple

from aggregator.edges.availability import SEVERITY, AvailabilityState


class Badge(NamedTuple):
    """The look of a state: a badge with a word and a sign.

    Attributes:
        label: In capitals and spaces, as a person reads it.
        sign: Name of its symbol.
        tone: Class of the style sheet: `good`, `warn`, `bad` or `rest`.
    """

    label: str
    sign: str
    tone: str


_BADGES = {
    AvailabilityState.UP: Badge("Up", "up", "good"),
    AvailabilityState.LAGGING: Badge("Lagging", "lagging", "warn"),
    AvailabilityState.STALLED: Badge("Stalled", "stalled", "bad"),
    AvailabilityState.UNREACHABLE: Badge("Unreachable", "unreachable", "bad"),
    AvailabilityState.LOSING_DATA: Badge("Losing data", "losing", "bad"),
    AvailabilityState.PAUSED: Badge("Paused", "paused", "rest"),
}

UNWATCHED = Badge("Not watched", "unwatched", "rest")
STARTING = Badge("Starting", "unwatched", "rest")
# For an edge whose last observation is too old for a state.
STALE = Badge("Not current", "unwatched", "rest")


def badge_of(state: str) -> Badge:
    """The badge of a state; one of another version of the hub keeps its name."""
    try:
        return _BADGES[AvailabilityState(state)]
    except ValueError:
        return Badge(state, "stalled", "bad")


def badness(state: str) -> int:
    """Grows with the need to look; a pause is somebody's decision."""
    try:
        return 0 if state == AvailabilityState.PAUSED else SEVERITY[AvailabilityState(state)]
    except ValueError:
        return max(SEVERITY.values())
