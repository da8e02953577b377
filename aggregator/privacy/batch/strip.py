"""The interface of stripping: it takes a whole batch, and returns the stripped batch with rejections and reasons.

Invariant: an output list never holds an input value that the plan did not keep. At a rejected index the output is None,
and the caller writes a dead letter. Implementations: `kernel` (compiled, what runs), `reference` (fastavro).
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from aggregator.bytes_column import BytesColumn
from aggregator.coordinates import SchemaName
from aggregator.errors import AggregatorError, Reason, Unreachable
from aggregator.header_columns import Headers, HeaderTable


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one edge topic, as parallel sequences of equal length; cells are never taken apart.

    Attributes:
        keys: Their keys.
        values: Their values.
        headers: Their headers.
        source_partition: Identifies the partition that they were read from; None if they come from none.
        offsets: Theirs in it, ascending; empty where they come from none.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    source_partition: Hashable = None
    offsets: Sequence[int] = ()


class Rejection(NamedTuple):
    """The reason why one record of a batch cannot be delivered, never its content."""

    reason: Reason
    schema_id: SchemaName | None = None


class SchemaIdsPending(Unreachable):
    """A batch names schema ids for which the topic still waits; nothing of the batch was decided.

    Args:
        message: Which, and until when.
        place: Of the first record that cannot go on; what stands before it can go on alone.
        is_soon: What is waited for is under way.
        hint: As of every error.
    """

    def __init__(self, message: str, place: int, *, is_soon: bool, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.place, self.is_soon = place, is_soon

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class SchemaIdsUnasked(SchemaIdsPending):
    """A batch names schema ids about which nothing is known yet; nothing of the batch was decided.

    Args:
        place: As above.
        count: Of such ids.
        why: What a registry met with.
        is_away: A registry does not answer; if it does, questions are under way, and the answers may be there soon.
    """

    def __init__(self, place: int, count: int, why: AggregatorError | None = None, *, is_away: bool = False) -> None:
        ids = "1 schema id waits" if count == 1 else f"{count:,} schema ids wait"
        super().__init__(
            f"{ids} for the registry's answer{'' if why is None else f'; {why.message}'}",
            place,
            is_soon=not is_away,
            hint=(why.hint if why else "") or "see what writes to the topic; the flow goes on by itself",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class FoundSchema(NamedTuple):
    """The meaning of a schema id on a topic.

    Attributes:
        fingerprint: Of the schema and all its tags.
        subject: The topic's own that has it.
        accepted: The policy says that it may mean this since its registry was rebuilt.
    """

    fingerprint: str
    subject: str
    accepted: bool


@dataclass(slots=True)
class Stripped:
    """The results of a batch: as long as the input.

    Attributes:
        keys: Transformed keys.
        values: Stripped values under the central schema id; None for a tombstone and for a rejected record.
        headers: Allowed headers only, in their order.
        rejected: Index in the batch to the reason.
        suppressed: Indices of the records that `drop_record` left out. They are counted, and are never in `rejected`.
        further: Place of a tombstone to the keys that it has under other versions of the policy's key.
        counts: (path, operator) to the number of values that the operator removed or changed in this batch.
        schemas: `key/<id>` or `value/<id>` to what the id means, of those that the batch has.
        sealed: `<key>/<version>` to the number of values at most that went into AES-GCM envelopes under it.
    """

    keys: BytesColumn
    values: BytesColumn
    headers: HeaderTable
    rejected: dict[int, Rejection] = field(default_factory=dict)
    suppressed: set[int] = field(default_factory=set)
    further: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    schemas: dict[str, FoundSchema] = field(default_factory=dict)
    sealed: Mapping[str, int] = field(default_factory=dict)


class PolicyId(NamedTuple):
    """Name, version and hash of a policy; the hash covers its meaning, in hex."""

    name: str
    version: int
    hash: str


class ReportRow(NamedTuple):
    """One leaf of one writer schema, or record keys: the rule that fired, and what it has met since the strip was made.

    Attributes:
        schema_id: Writer schema; None for what has none.
        path: Where the leaf lies, under `@key` in a record key; never a name that only the data has.
        type: Its type, with the logical one.
        tags: Its own and inherited tags.
        because: Which rule decided.
        operator: What happens to it.
        privacy_class: What that leaves.
        seen: Values met in records that are well formed, nulls included, whatever became of the records afterwards.
        null: How many of them were null.
        transformed: How many of them the operator changed or removed.
        rejected: Records lost because the operator failed for a value here, or the key is not what its format says.
        unclassified: Neither a tag nor a path that the policy has speaks of it.
    """

    schema_id: SchemaName | None
    path: str
    type: str
    tags: tuple[str, ...]
    because: str
    operator: str
    privacy_class: str
    seen: int
    null: int
    transformed: int
    rejected: int
    unclassified: bool


class Strip(Protocol):
    """Strips batches of one edge topic. One instance lives as long as its slot's epoch and may cache."""

    @property
    def policy(self) -> PolicyId:
        """The id of the policy that the strip applies."""
        ...

    def key_versions(self) -> Mapping[str, int]:
        """Name of each key that the policy uses to the version that makes new tokens."""
        ...

    def report(self) -> list[ReportRow]:
        """Every leaf of every schema met so far, in the order in which they were met; then the record keys."""
        ...

    def strip(self, batch: Batch) -> Stripped:
        """Apply the plan to every record of the batch.

        Raises:
            RetryError: the registry does not answer and a schema is not cached; nothing of the batch was decided.
            SchemaIdsPending: the same, and what stands before a place can go on.
            HoldError: this topic cannot go on (the derived schema is refused at central, for example).
        """
        ...
