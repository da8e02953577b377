"""A backfill's plan: for each edge partition what was asked for, what is available, and exactly what will be written.

Invariant: a plan is frozen once it is made. Its id follows from what it writes and where, so the same plan has the same
id, whoever makes it. Its JSON is the record at central and the plan file of a scheduler.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from aggregator.backfill.ranges import Ranges, offset_count, offsets_of
from aggregator.backfill.request import Mode
from aggregator.coordinates import CentralPartition, EdgePartition, IncarnationRange, OffsetRange
from aggregator.errors import FatalError

VERSION = 1


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Describes what a backfill writes for one edge partition.

    Attributes:
        source: The edge partition.
        topic_id: Life of the edge topic that the plan speaks of.
        central: The central topic that its records go to.
        asked: Offsets that the request covers, as far as the log goes or went.
        log: The log at the edge: first offset, last stable offset.
        effective: Asked offsets that the edge still has and the hub has passed.
        taken: Wanted offsets that retention, or a deletion, has already removed.
        already_backfilled: Offsets of the effective that the target has, that were decided (dead, suppressed), or that
            are markers.
        ahead: Asked offsets that the live flow has not reached: it will deliver them itself.
        segments: The segments that will be written.
        letters: How many of these are dead letters.
        records: An estimate: of a sparse log, less than its offsets.
        bytes: An estimate, from a sample of the edge's records.
        warnings: What the reader should know.
    """

    source: EdgePartition
    topic_id: str
    central: str
    asked: Ranges
    log: OffsetRange
    effective: Ranges = ()
    taken: Ranges = ()
    already_backfilled: int = 0
    ahead: int = 0
    segments: tuple[IncarnationRange, ...] = ()
    letters: int = 0
    records: int = 0
    bytes: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def offsets(self) -> int:
        """The number of offsets that the backfill reads from the partition."""
        return offset_count(offsets_of(self.segments))

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`; ranges are [start, end)."""
        return {
            "edge": self.source.edge,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "topic_id": self.topic_id,
            "central": self.central,
            "asked": [list(one) for one in self.asked],
            "at_edge": list(self.log),
            "effective": [list(one) for one in self.effective],
            "retention_took": [list(one) for one in self.taken],
            "already_there": self.already_backfilled,
            "left_to_live": self.ahead,
            "write": [[at, *offsets] for at, offsets in self.segments],
            "letters": self.letters,
            "records": self.records,
            "bytes": self.bytes,
            "warnings": list(self.warnings),
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Build a partition's plan from the data that `plain` returned.

        Raises:
            KeyError, TypeError, ValueError: it did not make this.
        """
        return cls(
            EdgePartition(body["edge"], body["topic"], int(body["partition"])),
            body["topic_id"],
            body["central"],
            _ranges(body["asked"]),
            OffsetRange(*body["at_edge"]),
            _ranges(body["effective"]),
            _ranges(body["retention_took"]),
            int(body["already_there"]),
            int(body["left_to_live"]),
            tuple(IncarnationRange(int(at), OffsetRange(int(start), int(end))) for at, start, end in body["write"]),
            int(body["letters"]),
            int(body["records"]),
            int(body["bytes"]),
            tuple(body["warnings"]),
        )


def _ranges(pairs: list[list[int]]) -> Ranges:
    return tuple(OffsetRange(int(start), int(end)) for start, end in pairs)


@dataclass(frozen=True, slots=True)
class Plan:
    """Describes what a backfill writes, partition by partition.

    Attributes:
        hub: The hub's name.
        ask: The request that the plan answers.
        ask_digest: Digest of the request; the same words give the same digest.
        mode: The place where its records go.
        into: Name of the generation.
        partitions: The plans of the partitions, in order.
        seconds: The estimated duration.
        gone: Dead letters that were asked for and that no edge has any more, by coordinates.
        round: How often the same was carried out before: a letter that died again may be replayed again.
    """

    hub: str
    ask: Mapping[str, Any]
    ask_digest: str
    mode: Mode
    into: str
    partitions: tuple[PartitionPlan, ...]
    seconds: float = 0.0
    gone: tuple[str, ...] = ()
    round: int = 0

    @property
    def id(self) -> str:
        """Twelve characters that follow from what is written and where."""
        text = json.dumps(
            [
                self.hub,
                self.mode,
                self.into,
                self.round,
                [
                    [str(one.source), one.topic_id, one.central, one.plain()["write"]]
                    for one in self.partitions
                    if one.segments
                ],
            ]
        )
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @property
    def writes(self) -> tuple[PartitionPlan, ...]:
        """The partitions that have something to write."""
        return tuple(one for one in self.partitions if one.segments)

    @property
    def mark(self) -> CentralPartition:
        """The position that a table has with the commit of this restate, and with nothing else."""
        return CentralPartition(self.into, self.id, 0)

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json` and of the plan file."""
        return {
            "v": VERSION,
            "id": self.id,
            "hub": self.hub,
            "ask": dict(self.ask),
            "ask_digest": self.ask_digest,
            "mode": self.mode.value,
            "into": self.into or None,
            "records": sum(one.records for one in self.partitions),
            "bytes": sum(one.bytes for one in self.partitions),
            "seconds": round(self.seconds, 1),
            "partitions": [one.plain() for one in self.partitions],
            "gone": list(self.gone),
            "round": self.round,
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Build a plan from the data that `plain` returned.

        Raises:
            FatalError: it did not make this, or somebody changed what is written.
        """
        try:
            plan = cls(
                body["hub"],
                body["ask"],
                body["ask_digest"],
                Mode(body["mode"]),
                body["into"] or "",
                tuple(PartitionPlan.of(one) for one in body["partitions"]),
                float(body["seconds"]),
                tuple(body["gone"]),
                int(body["round"]),
            )
            whole = body["v"] == VERSION and plan.id == body["id"]
        except (KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise FatalError(
                "this is no plan of a backfill, or it was changed after it was made",
                hint="make it anew: aggregator backfill plan … -o json > plan.json",
            )
        return plan
