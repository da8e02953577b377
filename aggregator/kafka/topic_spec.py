"""What a topic is to be: its partitions and settings.

Invariant: a value alone; no client is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self


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
        """Without what is dispensable."""
        kept = {name: value for name, value in self.settings.items() if name not in self.dispensable}
        return replace(self, settings=kept, dispensable=frozenset())
