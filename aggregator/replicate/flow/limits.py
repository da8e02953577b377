"""This module reads from the settings of a central topic which records the topic accepts.

Invariant: pure. The settings are read once for each epoch. A record beyond a limit becomes a dead letter before it is
produced. If central refused it, the whole transaction of its slot would abort.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from aggregator.kafka.client.record_size import MAX_RECORD_BYTES
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.privacy.policy.cross_check import COMPACT

# What a slot's producer puts into one batch, unless a topic takes less.
BATCH_BYTES = 1_000_000
# Kafka's default for the largest record.
_RECORD_BYTES = 1_048_588
# Brokers before 3.6 know only this setting. Those before 4.0 use it if the other two set no bound.
_EITHER_WAY = "message.timestamp.difference.max.ms"
_SIZE = "max.message.bytes"
# The timestamp of a record that has none; a broker does not compare it.
_NONE = -1


def is_compacted(settings: Mapping[str, str]) -> bool:
    """Whether a topic of these settings takes no record without a key."""
    return COMPACT in settings.get("cleanup.policy", "")


def record_size_settings(edge: Mapping[str, str], known: TopicSpec | None) -> dict[str, str]:
    """What a new central topic needs for the largest records of its edges; nothing where Kafka's default is enough.

    Args:
        edge: Settings of one of the edge topics.
        known: What is needed for those before it.
    """
    before = int(known.settings.get(_SIZE, 0)) if known is not None else 0
    largest = max(before, min(MAX_RECORD_BYTES, int(edge.get(_SIZE, 0))))
    return {_SIZE: str(largest)} if largest > _RECORD_BYTES else {}


class TopicLimits(NamedTuple):
    """Describes the bounds that one topic sets to its records.

    Attributes:
        record_bytes: The size of the largest record that it takes.
        requires_key: Whether every record needs a key.
        before_ms: How far a timestamp may lie behind the broker's clock; None: as far as it likes.
        after_ms: How far a timestamp may lie ahead of the broker's clock; None: as far as it likes.
    """

    record_bytes: int = _RECORD_BYTES
    requires_key: bool = False
    before_ms: int | None = None
    after_ms: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Read the limits from the settings of a topic."""
        stamped = settings.get("message.timestamp.type") == "LogAppendTime"

        def bound(*names: str) -> int | None:
            """The first of these settings that bounds anything, as brokers take them."""
            values = (int(settings.get(name, 2**63 - 1)) for name in names)
            return None if stamped else next((value for value in values if value < 2**62), None)

        return cls(
            int(settings.get(_SIZE, _RECORD_BYTES)),
            is_compacted(settings),
            bound("message.timestamp.before.max.ms", _EITHER_WAY),
            bound("message.timestamp.after.max.ms", _EITHER_WAY),
        )

    @property
    def bounds_timestamps(self) -> bool:
        """Whether any timestamp is refused."""
        return self.before_ms is not None or self.after_ms is not None

    def refused_timestamps(self, timestamps_ms: NDArray[np.int64], now_ms: int) -> NDArray[np.bool_]:
        """Which timestamps the topic refuses at this time; 0 is the time of delivery.

        Args:
            timestamps_ms: Since 1970.
            now_ms: The present.
        """
        far: NDArray[np.bool_] = np.zeros(len(timestamps_ms), np.bool_)
        if self.before_ms is not None:
            far |= (timestamps_ms < now_ms - self.before_ms) & (timestamps_ms != 0) & (timestamps_ms != _NONE)
        if self.after_ms is not None:
            far |= timestamps_ms > now_ms + self.after_ms
        return far
