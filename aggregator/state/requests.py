"""The requests topic holds the decisions that people, and rules in their place, have made for the driver to carry out.

Invariant: a decision about a gap has its gap as its key, and is never changed or withdrawn. The next pause or
resumption of an edge replaces the former one. A damaged request is named and not carried out. Nothing is lost by that:
its flow or range stays held, or its edge is paused. A rule's decision is written by the slot, in the transaction that
goes on behind the gap.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from msgspec import Struct

from aggregator.coordinates import EdgePartition, Position
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord, latest_by_key
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Moment, TypedDecoder, is_flow, unreadable
from aggregator.state.cluster_acceptances import ClusterAcceptance, damaged_acceptances, fold_acceptances
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.pauses import Pause, damaged_pauses, fold_pauses
from aggregator.state.releases import damaged_releases

VERSION = 1
_GAPS = "gap/"


def encode(decision: GapDecision) -> tuple[str, bytes]:
    """Key and value of a decision's record."""
    body = asdict(decision) | {"v": VERSION, "source": str(decision.source), "position": list(decision.position)}
    return decision.key, json.dumps(body, sort_keys=True).encode()


class _Gap(Struct):
    kind: GapKind
    start: Count
    end: Count | None
    since_ms: Moment
    leader_epoch: Count | None = None


class _Decision(Struct, tag_field="v", tag=VERSION):
    source: str
    position: tuple[Count, Count]
    gap: _Gap
    by: str
    at_ms: Moment
    reason: str
    automatic: bool = False


_DECISIONS = TypedDecoder(_Decision)


def decode(record: LogRecord, topic: str) -> GapDecision:
    """Decode one decision.

    Raises:
        FatalError: not a decision of this version; names the record.
    """
    try:
        body = _DECISIONS.decode(record.value)
        if is_flow(body.source):
            gap = Gap(body.gap.kind, body.gap.start, body.gap.end, body.gap.since_ms, body.gap.leader_epoch)
            at = EdgePartition.parse(body.source), Position(*body.position)
            made = GapDecision(*at, gap, body.by, body.at_ms, body.reason, body.automatic)
            if gap.is_of(made.position) and _about(made.key) == _about(record.key):
                return made
        fault = CorruptRecord("of another flow")
    except CorruptRecord as error:
        fault = error
    what, hint = unreadable(fault, "replace it by a correct record, or by a tombstone, of the same key")
    raise FatalError(f"{topic} offset {record.offset}: the request {record.key} is {what}", hint=hint)


def _about(key: str) -> str:
    """A key without the kind of its gap, which earlier versions spelled otherwise."""
    return key.removeprefix(_GAPS).partition("/")[2]


def by_flow(decisions: Iterable[GapDecision]) -> Mapping[EdgePartition, tuple[GapDecision, ...]]:
    """Group decisions by flow."""
    found: dict[EdgePartition, tuple[GapDecision, ...]] = {}
    for decision in decisions:
        found[decision.source] = (*found.get(decision.source, ()), decision)
    return found


@dataclass(frozen=True, slots=True)
class Requests:
    """What the topic says: every decision about a gap, and the newest pause or resumption of each edge.

    `acceptances` are the newest words about the clusters that names stand for. `damaged` names the requests that nobody
    can read, in sentences.
    """

    decisions: tuple[GapDecision, ...] = ()
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    acceptances: Mapping[str, ClusterAcceptance] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()


def fold_requests(records: Collection[LogRecord], topic: str) -> Requests:
    """What these records say, the last of each key; whatever is damaged is named.

    A gap that was decided under an earlier word for its kind, and once more under today's, is one decision.
    """
    decisions = dict[str, GapDecision]()
    of_each = (damaged_pauses, damaged_releases, damaged_acceptances)
    damaged = [sentence for damaged_of in of_each for sentence in damaged_of(records, topic)]
    for record in latest_by_key(records, _GAPS):
        try:
            found = decode(record, topic)
            decisions[found.key] = found
        except FatalError as error:
            damaged.append(f"{error.message}: its flow stays held; {error.hint}")
    return Requests(tuple(decisions.values()), fold_pauses(records), fold_acceptances(records), tuple(damaged))
