"""How a state looks: a word, a sign and a tone, so that none is told by colour alone.

Invariant: every state of `edges.availability` has its own sign; the signs are symbols of `templates/signs.svg`.
"""

from typing import NamedTuple

from aggregator.edges.availability import BADNESS, State


class Look(NamedTuple):
    """A state as it is shown.

    Attributes:
        word: In capitals and spaces, as a person reads it.
        sign: Name of its symbol.
        tone: Class of the style sheet: `good`, `warn`, `bad` or `rest`.
    """

    word: str
    sign: str
    tone: str


_LOOKS = {
    State.UP: Look("Up", "up", "good"),
    State.LAGGING: Look("Lagging", "lagging", "warn"),
    State.STALLED: Look("Stalled", "stalled", "bad"),
    State.UNREACHABLE: Look("Unreachable", "unreachable", "bad"),
    State.LOSING_DATA: Look("Losing data", "losing", "bad"),
    State.PAUSED: Look("Paused", "paused", "rest"),
}

UNWATCHED = Look("Not watched", "unwatched", "rest")


def look_of(state: str) -> Look:
    """How a state looks; one of another version of the hub keeps its name."""
    try:
        return _LOOKS[State(state)]
    except ValueError:
        return Look(state, "stalled", "bad")


def badness(state: str) -> int:
    """Grows with the need to look; a pause is somebody's decision."""
    try:
        return 0 if state == State.PAUSED else BADNESS[State(state)]
    except ValueError:
        return max(BADNESS.values())
