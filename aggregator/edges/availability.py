"""Availability: the state of one edge from what was observed, with the reason in words.

Invariant: pure. Arrival at central decides, never the edge's clock; the worst finding wins.
"""

from dataclasses import dataclass
from enum import StrEnum

# Three beats of one second and two seconds for the way.
BEAT_PATIENCE_MS = 5_000
LAGGING_MS = 60_000


class State(StrEnum):
    """How an edge is, best to worst."""

    UP = "UP"
    LAGGING = "LAGGING"
    STALLED = "STALLED"
    UNREACHABLE = "UNREACHABLE"
    LOSING_DATA = "LOSING_DATA"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of an edge at one moment.

    Attributes:
        answers: Whether its brokers answered.
        heartbeat_age_ms: Central's time since the last beat arrived; None before the first.
        lag_ms: Age of the oldest record that is not yet at central; None where it is unknown.
        gaps: Flows whose position the edge no longer has.
    """

    answers: bool
    heartbeat_age_ms: int | None
    lag_ms: int | None
    gaps: int


def judge(seen: Observation) -> tuple[State, str]:
    """Decide an edge's state.

    Returns:
        The state and one sentence that says why.
    """
    if seen.gaps:
        return State.LOSING_DATA, f"{seen.gaps} flows want offsets that the edge no longer has"
    if not seen.answers:
        return State.UNREACHABLE, "no broker of the edge answers"
    if seen.heartbeat_age_ms is None:
        return State.STALLED, "no heartbeat has arrived yet: is the hub running?"
    if seen.heartbeat_age_ms > BEAT_PATIENCE_MS:
        return State.STALLED, f"the last heartbeat is {seen.heartbeat_age_ms / 1000:.0f} s old: is the hub running?"
    if seen.lag_ms is not None and seen.lag_ms > LAGGING_MS:
        return State.LAGGING, f"the oldest waiting record is {seen.lag_ms / 1000:.0f} s old"
    return State.UP, "heartbeats arrive"
