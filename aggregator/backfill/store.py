"""Reads and writes what central knows of all backfills: their plans, cancellations, ends, and how far each has come.

Invariant: a plan lies in `H.backfill.requests` under its id and never changes. A backfill's progress is in
`H.backfill.ledger`, committed with its records, and nowhere else. The state of a backfill is derived from these.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import Struct

from aggregator.backfill.backfill_state import Backfill, End, Signed
from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.ranges import split
from aggregator.backfill.request import Mode
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, IncarnationRange
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.log import read_to_end, read_visible
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import (
    Amount,
    CorruptRecord,
    Count,
    DamagedRecords,
    Moment,
    TypedDecoder,
    unreadable,
)
from aggregator.state.ledger import LedgerRecord, readable_winners
from aggregator.state.ledger_log import ledger_log
from aggregator.state.names import HubNames
from aggregator.state.request_log import write

VERSION = 1
_PLAN, _CANCEL, _END, _REMOVED, _POLICIES = "backfill/", "cancel/", "end/", "removed/", "policies/"
# Less than a broker's default limit of a million bytes for one record.
_PLAN_BYTES = 900_000
_MEND = "replace it by a correct record, or by a tombstone, of the same key"
_MEND_PLAN = (
    "write the plan once more under the same key, as it was; a tombstone does not replace it once the backfill has"
    " written anything, because its records would come twice"
)


@dataclass(slots=True)
class KnownBackfills:
    """Collects the records of all backfills as they arrive: requests and positions, each in log order."""

    plans: dict[str, tuple[Plan, Signed, float | None]] = field(default_factory=dict)
    cancelled: dict[str, Signed] = field(default_factory=dict)
    ended: dict[str, End] = field(default_factory=dict)
    removed: dict[str, dict[str, int]] = field(default_factory=dict)
    policies: dict[str, dict[str, str]] = field(default_factory=dict)
    entries: dict[str, dict[EdgePartition, LedgerRecord]] = field(default_factory=dict)

    def take_requests(self, records: Iterable[LogRecord], topic: str) -> None:
        """Take in records of the requests for backfills.

        Raises:
            FatalError: a record is damaged, and none of its key came later.
        """
        damaged = DamagedRecords()
        for record in records:
            kind, _, id_ = record.key.partition("/")
            try:
                self._take(f"{kind}/", id_, record.value)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, FatalError) as error:
                mend = _MEND_PLAN if f"{kind}/" == _PLAN else _MEND
                what, hint = unreadable(error if isinstance(error, CorruptRecord) else CorruptRecord(), mend)
                told = f"{topic} offset {record.offset}: the request {record.key} is {what}"
                damaged.add(record.key, FatalError(told, hint=hint))
            else:
                damaged.mend(record.key)
        damaged.require_none()

    def take_positions(self, records: Iterable[LogRecord], topic: str) -> None:
        """Take in how far each backfill has come.

        Raises:
            FatalError: a ledger record is damaged; whatever can be read is taken in before.
        """
        arrived = defaultdict(list)
        for record in records:
            arrived[record.key.rpartition("/")[2]].append(record)
        damaged = DamagedRecords()
        for id_, some in arrived.items():
            known = self.entries.setdefault(id_, {})
            for source, entry in readable_winners(some, topic, damaged, backfill=id_).items():
                if source not in known or entry.epoch >= known[source].epoch:
                    known[source] = entry
        damaged.require_none()

    @property
    def without_plan(self) -> list[str]:
        """The ids of backfills that have written, and whose plan was not read."""
        return sorted(id_ for id_, entries in self.entries.items() if entries and id_ not in self.plans)

    def require_plans(self, topic: str) -> None:
        """Refuse to go on where a backfill has written, and nobody knows its plan: what it brought would come again.

        Args:
            topic: The name of the requests, for the sentence.

        Raises:
            FatalError: a plan is not there.
        """
        for id_ in self.without_plan:
            flow = min(self.entries[id_])
            told = f"{topic} lacks the plan of backfill {id_}, which has written records of {flow}"
            raise FatalError(
                told, hint=f"write {_PLAN}{id_} there once more: without it those records would come twice"
            )

    def backfills(self) -> dict[str, Backfill]:
        """Every backfill by id, the oldest first."""
        return {
            id_: Backfill(
                plan,
                signed,
                rate,
                self.cancelled.get(id_),
                self.ended.get(id_),
                self.entries.get(id_, {}),
                removed=self.removed.get(id_, {}),
                policies=self.policies.get(id_, {}),
            )
            for id_, (plan, signed, rate) in self.plans.items()
        }

    def _take(self, kind: str, id_: str, value: bytes | None) -> None:
        match kind:
            case "cancel/" if value is None:
                self.cancelled.pop(id_, None)
            case _ if value is None:
                return
            case "backfill/":
                asked = _ASKED.decode(value)
                plan = Plan.of(asked.plan)
                if plan.id != id_:
                    raise CorruptRecord("of another plan")
                self.plans.setdefault(id_, (plan, Signed(asked.by, asked.at_ms), asked.rate))
            case "cancel/":
                signed = _SIGNED.decode(value)
                self.cancelled[id_] = Signed(signed.by, signed.at_ms)
            case "end/":
                ended = _ENDED.decode(value)
                self.ended[id_] = End(ended.at_ms, {flow: tuple(ranges) for flow, ranges in ended.lost.items()})
            case "removed/":
                self.removed[id_] = _COUNTS.decode(value)
            case "policies/":
                self.policies.setdefault(id_, _WORDS.decode(value))


class _Signed(Struct):
    by: str
    at_ms: Moment


class _Asked(_Signed):
    plan: dict[str, Any]
    rate: Amount | None


class _End(Struct):
    at_ms: Moment
    lost: dict[str, list[tuple[Count, Count]]]


_SIGNED, _ASKED, _ENDED = TypedDecoder(_Signed), TypedDecoder(_Asked), TypedDecoder(_End)
_COUNTS, _WORDS = TypedDecoder(dict[str, Count]), TypedDecoder(dict[str, str])


def read_backfills(
    cluster: ClusterConfig, names: HubNames, *, partitions: int = 0, for_writing: bool = False
) -> dict[str, Backfill]:
    """Read every backfill by id, the oldest first; empty before the first backfill.

    Args:
        cluster: Central.
        names: The hub's own names.
        partitions: Number of the ledger's partitions that are known to exist.
        for_writing: Whether what no backfill has brought is to be written, so that no plan may be missing.

    Raises:
        FatalError: a record is damaged, a plan is gone whose backfill has written, or an end stays stuck.
        Unreachable: central does not answer.
    """
    own = names.backfills()
    if not topics.partition_count(cluster, own.requests):
        return {}
    known = KnownBackfills()
    known.take_requests(read_to_end(cluster, own.requests, [0]), own.requests)
    known.take_positions(ledger_log(cluster, own, partitions=partitions), own.ledger)
    if known.without_plan:  # begun since the requests were read
        known.take_requests(read_to_end(cluster, own.requests, [0]), own.requests)
    if for_writing:
        known.require_plans(own.requests)
    return known.backfills()


def read_plans(cluster: ClusterConfig, names: HubNames) -> dict[str, Plan]:
    """Plans of every backfill by id, the oldest first, whatever became of them.

    Raises:
        FatalError: a record is damaged, or an end stays stuck.
        Unreachable: central does not answer.
    """
    own = names.backfills()
    if not topics.partition_count(cluster, own.requests):
        return {}
    known = KnownBackfills()
    known.take_requests(read_visible(cluster, own.requests, [0]), own.requests)
    return {id_: plan for id_, (plan, *_) in known.plans.items()}


def passed_by(backfills: Iterable[Backfill], mode: Mode, one: PartitionPlan) -> tuple[IncarnationRange, ...]:
    """The offsets of an edge partition that backfills have passed and that must not be written again.

    Into one topic nothing is written twice; and what any backfill has brought to a live topic is not missing, whatever
    that topic is called by now.

    Args:
        backfills: Backfills that count.
        mode: Mode of the backfill that wants to write.
        one: Plan of the partition to write: source, topic id and central topic.
    """
    found: list[IncarnationRange] = []
    for backfill in backfills:
        for other in backfill.plan.writes:
            same = other.central == one.central or mode is backfill.plan.mode is Mode.MISSING
            if same and (other.source, other.topic_id) == (one.source, one.topic_id):
                found += split(other.segments, backfill.passed(other))
    return tuple(found)


def generated_by(backfills: Iterable[Backfill], mode: Mode, one: PartitionPlan) -> tuple[IncarnationRange, ...]:
    """What generations have passed into the topic that a backfill is about to write, if a rule names it by now.

    A record that died in the live topic may have come into a generation, because the generation read it in between.

    Args:
        backfills: Backfills that count.
        mode: Mode of the backfill that wants to write.
        one: Plan of the partition to write.
    """
    generations = [backfill for backfill in backfills if backfill.plan.mode is Mode.INTO]
    return passed_by(generations, mode, one) if mode is Mode.MISSING else ()


def submit(cluster: ClusterConfig, names: HubNames, plan: Plan, signed: Signed, rate: float | None) -> None:
    """Write a plan to the topic of backfills.

    Raises:
        FatalError: it is too long for one record.
        Unreachable: central did not take it.
    """
    body = {"v": VERSION, "plan": plan.plain(), "rate": rate} | asdict(signed)
    value = json.dumps(body, separators=(",", ":")).encode()
    if len(value) > _PLAN_BYTES:
        raise FatalError(
            f"the plan has {sum(len(one.segments) for one in plan.writes)} parts, too many for one record at central",
            hint="narrow it, by --from and --to, --topic or --reason, and run it in pieces",
        )
    write(cluster, names.backfills(), [(f"{_PLAN}{plan.id}", value)])


def cancel(cluster: ClusterConfig, names: HubNames, id_: str, signed: Signed) -> None:
    """Ask a backfill to stop for good.

    Raises:
        Unreachable: central did not take it.
    """
    write(cluster, names.backfills(), [(f"{_CANCEL}{id_}", json.dumps({"v": VERSION} | asdict(signed)).encode())])


def revive(cluster: ClusterConfig, names: HubNames, id_: str) -> None:
    """Take back the cancellation of a backfill.

    Raises:
        Unreachable: central did not take it.
    """
    write(cluster, names.backfills(), [(f"{_CANCEL}{id_}", None)])


def note_removed(cluster: ClusterConfig, names: HubNames, id_: str, removed: Mapping[str, int]) -> None:
    """Say what a restate takes out of tables, by flow; before its commit, so that nobody can be missing it after that.

    Raises:
        Unreachable: central did not take it.
    """
    write(cluster, names.backfills(), [(f"{_REMOVED}{id_}", json.dumps(dict(removed)).encode())])


def note_policies(cluster: ClusterConfig, names: HubNames, id_: str, policies: Mapping[str, str]) -> None:
    """Say under which policies a restate begins; the first word holds.

    Raises:
        Unreachable: central did not take it.
    """
    write(cluster, names.backfills(), [(f"{_POLICIES}{id_}", json.dumps(dict(policies)).encode())])


def finish(cluster: ClusterConfig, names: HubNames, id_: str, end: End) -> None:
    """Say that a backfill has nothing left to do.

    Raises:
        Unreachable: central did not take it.
    """
    write(cluster, names.backfills(), [(f"{_END}{id_}", json.dumps({"v": VERSION} | asdict(end)).encode())])


def is_cancel(record: LogRecord, id_: str) -> bool:
    """Whether a request cancels this backfill or, without a value, takes its cancellation back."""
    return record.key == f"{_CANCEL}{id_}"
