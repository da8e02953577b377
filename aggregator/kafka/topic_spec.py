"""What a topic is to be: its partitions and settings.

Invariant: a value alone; no client is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that must be there with at least this many partitions."""

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
