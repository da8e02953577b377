"""This module decides the state of one edge from observations, gives the reason in words, and says when it may change.

Invariants: pure. Arrival at central and the watcher's own clock decide, never the edge's clock. The worst finding
becomes the state at once, because it took time to become evident. A better finding becomes the state only after it has
lasted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, Self

from aggregator.count_text import format_count
from aggregator.edges.movement import NOTHING_WAITS, Movement


class AvailabilityState(StrEnum):
    """The state of an edge, from best to worst; a pause is a person's decision and hides the other states."""

    UP = "UP"
    LAGGING = "LAGGING"
    STALLED = "STALLED"
    UNREACHABLE = "UNREACHABLE"
    LOSING_DATA = "LOSING_DATA"
    PAUSED = "PAUSED"


SEVERITY = {state: place for place, state in enumerate(AvailabilityState)}


@dataclass(frozen=True, slots=True)
class Patience:
    """Says how long silence and recovery have to last before they count.

    Attributes:
        beat_s: Seconds between two heartbeats.
        first_beat_s: The hub's own start: Spark's, the first epoch's, the first transaction's.
        settle_s: How long a better finding lasts before it becomes the state.
    """

    beat_s: float = 1.0
    first_beat_s: float = 30.0
    settle_s: float = 4.0

    @property
    def silent_s(self) -> float:
        """Seconds without a beat and an answer: three beats, and one of the two seconds that a beat may take."""
        return 3 * self.beat_s + 1.0

    @property
    def stalled_s(self) -> float:
        """Seconds without a beat from an edge that answers; a change of epoch takes one or two of them."""
        return 3 * self.beat_s + 2.0


@dataclass(frozen=True, slots=True)
class Observation:
    """Holds what was seen of an edge at one moment; ages are in seconds of the watcher's clock.

    Attributes:
        watched_s: Age of the watching.
        answered_s: Age of the edge's last answer; None: it has not answered once.
        beat_s: Age of the last beat's arrival at central; None: no beat is known.
        beat_came: One has arrived since the watching began.
        beats: Whether somebody is expected to write beats; without them the answers decide alone.
        movement: Movement of the flows that are not held.
        gaps: Flows that want offsets which the edge no longer has, and about which nobody has decided.
        expiring_flows: Flows whose unread records the edge will delete before they are read, at the window's speed.
        left_s: Time until the first of those records is deleted.
        trouble: What the edge's last error said.
        paused: Who paused the edge and why; empty: nobody.
        hub_waits: Why no slot can deliver anything now, though the edge is well; empty: each can.
        limited: The rate that its readers are held to, in words, while it holds something back; empty: nothing does.
    """

    watched_s: float
    answered_s: float | None
    beat_s: float | None
    beat_came: bool = True
    beats: bool = True
    movement: Movement = NOTHING_WAITS
    gaps: int = 0
    expiring_flows: int = 0
    left_s: float = 0.0
    trouble: str = ""
    paused: str = ""
    hub_waits: str = ""
    limited: str = ""


class AvailabilityFinding(NamedTuple):
    """A state and the sentence that says why."""

    state: AvailabilityState
    reason: str


def judge(seen: Observation, patience: Patience) -> AvailabilityFinding:
    """Decide what one observation means by itself."""
    if seen.paused:
        return AvailabilityFinding(AvailabilityState.PAUSED, seen.paused)
    if seen.gaps:
        return AvailabilityFinding(
            AvailabilityState.LOSING_DATA,
            f"{format_count(seen.gaps, 'flow')} wanted offsets that the edge no longer has",
        )
    found = _expiry_finding(seen) or _contact(seen, patience) or _progress(seen)
    if seen.hub_waits and found.state is AvailabilityState.STALLED:
        return AvailabilityFinding(AvailabilityState.LAGGING, seen.hub_waits)
    return _explained(found, seen.limited)


def _explained(found: AvailabilityFinding, limited: str) -> AvailabilityFinding:
    """A finding beside the limit that the edge is held to."""
    return found._replace(reason=f"{found.reason}; {limited}") if limited else found


def _expiry_finding(seen: Observation) -> AvailabilityFinding | None:
    """Whether the edge is about to delete what is not read yet."""
    if not seen.expiring_flows:
        return None
    when = f"in {_seconds(seen.left_s)}" if seen.left_s > 0 else "at any moment"
    return AvailabilityFinding(
        AvailabilityState.LOSING_DATA,
        f"the edge deletes unread records of {format_count(seen.expiring_flows, 'flow')}, the first {when}, sooner than"
        " they are read",
    )


def _contact(seen: Observation, patience: Patience) -> AvailabilityFinding | None:
    """Whether the edge is silent: to questions and in beats, or in beats alone."""
    unanswered_s = min(seen.watched_s, _age(seen.answered_s))
    unbeaten_s = min(seen.watched_s, _age(seen.beat_s))
    silent_s = min(unanswered_s, unbeaten_s) if seen.beats else unanswered_s
    if silent_s > patience.silent_s:
        nothing = "neither a heartbeat nor an answer" if seen.beats else "no answer"
        since = f" for {_seconds(silent_s)}" if isfinite(silent_s) else ""
        return AvailabilityFinding(AvailabilityState.UNREACHABLE, f"{nothing}{since}{_because(seen.trouble)}")
    if not seen.beats or (seen.beat_came and unbeaten_s <= patience.stalled_s):
        return None
    if not seen.beat_came and unbeaten_s <= patience.first_beat_s:
        return AvailabilityFinding(
            AvailabilityState.LAGGING, "its first heartbeat since the hub's start, or the end of a pause, is awaited"
        )
    since = "has arrived yet" if seen.beat_s is None else f"has arrived for {_seconds(seen.beat_s)}"
    return AvailabilityFinding(
        AvailabilityState.STALLED,
        f"the edge answers, but no heartbeat {since}: does its slot run, and may `heartbeats` be written?",
    )


def _progress(seen: Observation) -> AvailabilityFinding:
    moved = seen.movement
    if moved.stuck:
        return AvailabilityFinding(
            AvailabilityState.STALLED,
            f"records of {format_count(moved.stuck, 'flow')} wait and have not moved for"
            f" {_seconds(moved.waited_s)}{_because(seen.trouble)}",
        )
    if moved.behind:
        waits = (
            f"{format_count(moved.lag_records, 'record')} waiting, the oldest for {_seconds(moved.waited_s)} at least"
        )
        if moved.gained_per_s > 0:
            left = _seconds(moved.lag_records / moved.gained_per_s)
            return AvailabilityFinding(AvailabilityState.LAGGING, f"{waits}; catching up, about {left} to go")
        return AvailabilityFinding(AvailabilityState.LAGGING, f"{waits}; more arrive than are delivered")
    return AvailabilityFinding(
        AvailabilityState.UP, "heartbeats arrive" if seen.beats else "it answers; nobody writes heartbeats"
    )


@dataclass(frozen=True, slots=True)
class Availability:
    """Holds the state of an edge, and the better states that it may reach.

    Attributes:
        state: As it is shown; None before the first finding.
        reason: Why, in words.
        since_ms: When it began, by central's clock.
        better_since_s: Of every better state: since when nothing worse was found, on the watcher's clock.
    """

    state: AvailabilityState | None = None
    reason: str = ""
    since_ms: int = 0
    better_since_s: Mapping[AvailabilityState, float] = field(default_factory=dict)

    def with_finding(self, finding: AvailabilityFinding, *, now_s: float, now_ms: int, settle_s: float) -> Self:
        """The availability after one more finding.

        Args:
            finding: What was found now.
            now_s: Seconds on the watcher's clock, which only goes forward.
            now_ms: Central's present.
            settle_s: How long a better finding must last.
        """
        found, reason = finding
        if found is self.state:
            return replace(self, reason=reason, better_since_s={})
        if (
            self.state is None
            or AvailabilityState.PAUSED in (found, self.state)
            or SEVERITY[found] > SEVERITY[self.state]
        ):
            return type(self)(found, reason, now_ms)
        better_since_s = {
            state: self.better_since_s.get(state, now_s)
            for state in AvailabilityState
            if SEVERITY[found] <= SEVERITY[state] < SEVERITY[self.state]
        }
        lasted = [state for state, since_s in better_since_s.items() if now_s - since_s >= settle_s]
        if not lasted:
            return replace(self, reason=_recovering(self.reason), better_since_s=better_since_s)
        best = min(lasted, key=SEVERITY.__getitem__)
        left = {state: since_s for state, since_s in better_since_s.items() if SEVERITY[state] < SEVERITY[best]}
        return type(self)(best, reason if best is found else _recovering(self.reason), now_ms, left)


_RECOVERS = "recovering; it was: "


def _recovering(reason: str) -> str:
    return f"{_RECOVERS}{reason.removeprefix(_RECOVERS)}"


def _age(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _because(trouble: str) -> str:
    return f" ({trouble})" if trouble else ""


def _seconds(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
