"""This module answers a probe from the beats of a hub's processes on this machine."""

from collections.abc import Sequence
from enum import StrEnum

from aggregator.health.beats import Beat, Stage


class ProbeQuestion(StrEnum):
    """Names the questions that a probe may ask."""

    LIVE = "live"
    READY = "ready"
    LEADING = "leading"


# The stages in which each question is answered with yes.
_STAGES = {
    ProbeQuestion.LIVE: frozenset(Stage),
    ProbeQuestion.READY: frozenset({Stage.STANDBY, Stage.LEADING}),
    ProbeQuestion.LEADING: frozenset({Stage.LEADING}),
}


def why_unhealthy(question: ProbeQuestion, beats: Sequence[Beat], now_s: float) -> str:
    """Why the answer is no; empty if it is yes.

    Args:
        question: The question to answer.
        beats: The last of each process.
        now_s: The present on the clock of the beats.
    """
    fresh = [beat for beat in beats if beat.is_fresh(now_s)]
    moving = [beat for beat in fresh if not beat.hanging]
    if any(beat.stage in _STAGES[question] for beat in moving):
        return ""
    if moving:
        return f"it is {moving[0].stage}"
    if fresh:
        return f"{fresh[0].hanging} stands still"
    return "it does not run here, or stands still"
