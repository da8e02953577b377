"""This module specifies a topic that must exist: its partitions and settings.

Invariant: values only. No client is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000


def inherited(broker: Mapping[str, str]) -> dict[str, str]:
    """The topic settings that a broker gives by default, as far as the hub uses them.

    Args:
        broker: A broker's own settings; empty where it does not tell them.
    """
    found = {}
    if largest := broker.get("message.max.bytes"):
        found["max.message.bytes"] = largest
    units = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    for name, factor in units:
        text = broker.get(name) or ""
        if text.lstrip("-").isdecimal():
            found["retention.ms"] = str(int(text) * factor if int(text) > 0 else -1)
            break
    return found


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that must be there with at least this many partitions.

    Attributes:
        name: Of the topic.
        partitions: At least so many.
        settings: It is made with.
        dispensable: Names of settings that undo a default of newer brokers: one that knows no such setting needs none.
    """

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    dispensable: frozenset[str] = frozenset()

    def bare(self) -> Self:
        """The specification without its dispensable settings."""
        kept = {name: value for name, value in self.settings.items() if name not in self.dispensable}
        return replace(self, settings=kept, dispensable=frozenset())
