"""The interface of stripping: a whole batch in, a whole batch out, plus what was rejected and why.

Invariant: an output list never holds an input value that the plan did not keep; at a rejected index the output is
None and the caller writes a dead letter. Implementations: `kernel` (compiled, what runs), `reference` (fastavro).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from aggregator.errors import Reason

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one edge topic, as three parallel lists of equal length."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]


class Rejection(NamedTuple):
    """Why one record of a batch can not be delivered; never its content."""

    reason: Reason
    schema_id: int | None = None


@dataclass(slots=True)
class Stripped:
    """What is left of a batch: lists as long as the input's.

    Attributes:
        keys: Transformed keys.
        values: Stripped values under the central schema id; None for a tombstone and for a rejected record.
        headers: Allowed headers only, in their order; to be read only, because records without any share a list.
        rejected: Index in the batch to the reason.
        suppressed: Indices that a `drop_record` rule removed; counted, not dead.
        counts: (path, operator) to the number of values that the operator removed or changed in this batch.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[tuple[str, bytes | None]]]
    rejected: dict[int, Rejection] = field(default_factory=dict)
    suppressed: set[int] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class Strip(Protocol):
    """Strips batches of one edge topic. One instance lives as long as its slot's epoch and may cache."""

    def strip(self, batch: Batch) -> Stripped:
        """Apply the plan to every record of the batch.

        Raises:
            RetryError: the registry does not answer and a schema is not cached; nothing of the batch was decided.
            HoldError: this topic can not go on (the derived schema is refused at central, for example).
        """
        ...
