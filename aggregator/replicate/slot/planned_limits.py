"""This module notices that a central topic no longer takes what its epoch was planned for.

The limits of a topic are read once for each epoch. If an operator raises one, records that central would take now would
go on becoming dead letters. So a slot asks the topic again before a record dies by a limit, and after a refusal.

Invariant: other limits are another plan, so the epoch ends. Nothing of the records in question was produced.
"""

from collections.abc import Iterable

from aggregator.errors import RetryError
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.ports import SlotPorts
from aggregator.replicate.slot.refused_topics import RefusedTopics

# A question takes some milliseconds, and every record of a topic may be too large.
_ASK_EVERY_S = 10.0


class LimitsChanged(RetryError):
    """A central topic takes something else than the epoch was planned for; the next epoch goes by it."""


def require_planned_after(refused: RefusedTopics, flows: Iterable[FlowPlan], ports: SlotPorts) -> None:
    """Ask central about the topics that refused what their settings limit; errors as of `require_planned`."""
    for topic, limits in {plan.central_topic: plan.limits for plan in flows}.items():
        if refused.is_about_limits(topic):
            require_planned(ports, topic, limits)


def require_planned(ports: SlotPorts, topic: str, planned: TopicLimits) -> None:
    """Ask central what a topic takes.

    Args:
        ports: Ports of the slot.
        topic: Name of the central topic.
        planned: Limits of the topic when the epoch opened.

    Raises:
        LimitsChanged: it takes something else now.
        Unreachable: central does not answer.
    """
    if ports.read_limits(topic) != planned:
        raise LimitsChanged(f"what {topic} takes was changed", hint="nothing to do: the next epoch goes by it")


class PlannedLimits:
    """Asks for each topic at most every ten seconds."""

    def __init__(self, ports: SlotPorts) -> None:
        self._ports = ports
        self._asked_s: dict[str, float] = {}

    def require(self, topic: str, planned: TopicLimits) -> None:
        """Ask as `require_planned` does, unless central answered for this topic a moment ago; the same errors."""
        now_s = self._ports.now()
        if now_s - self._asked_s.get(topic, -_ASK_EVERY_S) >= _ASK_EVERY_S:
            require_planned(self._ports, topic, planned)
            self._asked_s[topic] = now_s
