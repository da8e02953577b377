"""This module tells from a flow's recent positions and ends whether it moves, falls behind or is stuck, at any rate.

Invariant: pure. Offsets are compared with offsets that were seen earlier. Seconds are those of the watcher's own clock
at the moments when it looked. No record timestamp takes part, because the clocks that wrote them may be wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

# A flow is judged by this much of its past, in about ten looks (an idea of LinkedIn's Burrow).
WINDOW_S = 30.0


class FlowSample(NamedTuple):
    """One look at a flow: `at_s` on a clock that only goes forward, its position, the edge's last stable offset."""

    at_s: float
    next_offset: int
    end_offset: int

    @property
    def lag_records(self) -> int:
        """Offsets that wait, an upper bound of records."""
        return max(0, self.end_offset - self.next_offset)


@dataclass(frozen=True, slots=True)
class Track:
    """The recent past of one flow within one incarnation of its topic.

    Attributes:
        incarnation: Incarnation and topic id; offsets of another incarnation are not comparable.
        samples: In the order of time, the oldest just outside the window.
    """

    incarnation: tuple[int, str]
    samples: tuple[FlowSample, ...] = ()

    def with_sample(self, incarnation: tuple[int, str], sample: FlowSample, *, window_s: float = WINDOW_S) -> Self:
        """The track with one more look at its end; it begins anew with another incarnation."""
        if incarnation != self.incarnation:
            return type(self)(incarnation, (sample,))
        outside = sum(one.at_s <= sample.at_s - window_s for one in self.samples)
        return type(self)(incarnation, (*self.samples[max(0, outside - 1) :], sample))

    @property
    def spans_s(self) -> float:
        """Seconds from the first to the last look."""
        return self.samples[-1].at_s - self.samples[0].at_s if self.samples else 0.0

    @property
    def lag_records(self) -> int:
        """Records that wait at the edge, by the newest sample."""
        return self.samples[-1].lag_records if self.samples else 0

    @property
    def waited_s(self) -> float:
        """How long the oldest record has been seen to wait: a lower bound, at most the window."""
        if not self.lag_records:
            return 0.0
        last = self.samples[-1]
        return last.at_s - next(one.at_s for one in self.samples if one.end_offset > last.next_offset)

    @property
    def stood_s(self) -> float:
        """How long the end has been seen at its place: a lower bound, at most the window."""
        if not self.samples:
            return 0.0
        last = self.samples[-1]
        return last.at_s - next(one.at_s for one in self.samples if one.end_offset == last.end_offset)

    @property
    def gained_per_s(self) -> float:
        """By how many records a second the backlog shrinks; negative while it grows."""
        if self.spans_s <= 0:
            return 0.0
        return (self.samples[0].lag_records - self.lag_records) / self.spans_s

    def is_stuck(self, window_s: float = WINDOW_S) -> bool:
        """Whether something waited during the whole window and the position did not move at all."""
        first = self.samples[0] if self.samples else None
        return (
            first is not None
            and self.spans_s >= window_s
            and first.lag_records > 0
            and all(one.next_offset == first.next_offset for one in self.samples)
        )

    def is_behind(self, window_s: float = WINDOW_S) -> bool:
        """Whether, at no look within the window, the position had passed the end of the look before it."""
        steps = zip(self.samples, self.samples[1:], strict=False)
        return self.spans_s >= window_s and all(later.next_offset < before.end_offset for before, later in steps)

    @property
    def drains_s(self) -> float:
        """Seconds until the backlog is empty, at the speed of the window; infinite while it does not shrink."""
        if not self.lag_records:
            return 0.0
        return self.lag_records / self.gained_per_s if self.gained_per_s > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Movement:
    """Sums up the movement of all flows of one edge.

    Attributes:
        flows: How many were looked at.
        lag_records: What waits in all of them.
        stuck: Flows that wait and have not moved for the window.
        behind: Flows that have not caught up for the window, the stuck ones left out.
        waited_s: The longest that a record has been seen to wait.
        gained_per_s: Waiting records that became fewer per second, over all flows that are behind.
    """

    flows: int = 0
    lag_records: int = 0
    stuck: int = 0
    behind: int = 0
    waited_s: float = 0.0
    gained_per_s: float = 0.0

    @classmethod
    def of(cls, tracks: Iterable[Track], *, window_s: float = WINDOW_S) -> Self:
        """Sum up the tracks of one edge.

        Args:
            tracks: Tracks of one edge, without the flows that are held for a known reason.
            window_s: See `Track.is_behind`.
        """
        every = list(tracks)
        stuck = [one for one in every if one.is_stuck(window_s)]
        behind = [one for one in every if one.is_behind(window_s) and not one.is_stuck(window_s)]
        return cls(
            len(every),
            sum(one.lag_records for one in every),
            len(stuck),
            len(behind),
            max((one.waited_s for one in every), default=0.0),
            sum(one.gained_per_s for one in behind),
        )


NOTHING_WAITS = Movement()
