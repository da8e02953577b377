"""This module keeps the newest report of each running slot; slots report once a second.

Invariant: pure. Nothing is decided by these reports. A report of an older epoch, or a report that is some seconds old,
does not come from a running slot. A record that is not a report is counted and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct
from msgspec import field as struct_field

from aggregator.kafka.readers.typed_decoder import (
    Amount,
    CorruptRecord,
    Count,
    Difference,
    Number,
    TypedDecoder,
    is_flow,
)
from aggregator.state.traffic import Traffic

_STALE_S = 10.0
# No hub has more slots.
_MAX_SLOTS = 1000


class StandStill(NamedTuple):
    """Why a flow is not read: a reason that metrics count by, and a sentence."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The newest report of one slot.

    Attributes:
        slot: Its number.
        epoch: In which epoch.
        transactions: Committed since its producer began.
        held: Flows that stand still, as `edge/topic/partition`, with a word and a sentence why.
        waiting: Flows that try again after a while, with what they wait for.
        ages_ms: By edge: how old the newest record was, by its own time, when it went into a transaction.
        rss_bytes: Memory of its worker.
        cpu_s: CPU time of its worker.
        clients: The numbers of its Kafka clients, by name: `central`, `edge <name>`.
        aborts: Transactions that failed and were begun again, since the slot's task began.
        aborted: Why the last one of them failed; empty while there was none.
        session: A new value whenever its counters began at zero again.
        read: By edge: bytes that its reader received, on the wire.
        written: By edge: bytes of its records in committed transactions, before compression.
        limited: Edges of which it took less since its last word, because of their `rate_limit`.
    """

    slot: int
    epoch: int
    transactions: int
    held: Mapping[str, StandStill] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    ages_ms: Mapping[str, int] = field(default_factory=dict)
    rss_bytes: int = 0
    cpu_s: float = 0.0
    clients: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    aborts: int = 0
    aborted: str = ""
    session: str = ""
    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    limited: tuple[str, ...] = ()


class _ReportBody(Struct):
    slot: Number
    epoch: Number
    transactions: Count
    held: dict[str, StandStill]
    waiting: dict[str, str]
    rss_bytes: Count
    cpu_s: Amount
    ages_ms: dict[str, Difference] = struct_field(default_factory=dict)
    clients: dict[str, dict[str, Amount]] = struct_field(default_factory=dict)
    aborts: Count = 0
    aborted: str = ""
    session: str = struct_field(default="", name="life")
    read: dict[str, Count] = struct_field(default_factory=dict)
    written: dict[str, Count] = struct_field(default_factory=dict)
    limited: tuple[str, ...] = ()


class _Kind(Struct):
    kind: str = ""


_WORDS, _KINDS = TypedDecoder(_ReportBody), TypedDecoder(_Kind)


def kind_of(value: bytes | None) -> str:
    """The kind of a telemetry record; empty for a slot's regular report, and for a record that is none of ours."""
    try:
        return _KINDS.decode(value).kind
    except CorruptRecord:
        return ""


class SlotFeed:
    """Takes telemetry records, in order.

    Attributes:
        damaged: How many were none of ours.
        traffic: Bytes of each edge.
    """

    def __init__(self) -> None:
        self._heard: dict[int, tuple[float, SlotReport]] = {}
        self.traffic = Traffic()
        self.damaged = 0

    def ingest(self, value: bytes | None, now_s: float, at_s: float | None = None) -> None:
        """Take one telemetry record that has arrived now; whatever is no report of a slot is left alone.

        Args:
            value: The record's.
            now_s: The present.
            at_s: When it was written, on the same clock, where it lay there for a while.
        """
        if kind_of(value):
            return
        try:
            report = _slot_report(value)
        except CorruptRecord:
            self.damaged += 1
        else:
            self._heard.pop(report.slot, None)
            self._heard[report.slot] = (now_s, report)
            if len(self._heard) > _MAX_SLOTS:
                del self._heard[next(iter(self._heard))]
            self.traffic.ingest(report.slot, report.session, report.read, report.written, now_s, at_s=at_s)

    def slots(self, now_s: float, *, after_s: float = float("-inf")) -> tuple[SlotReport, ...]:
        """The slots that run, by number; with `after_s` only those that have said something since then."""
        fresh = [
            report for heard_s, report in self._heard.values() if now_s - heard_s <= _STALE_S and heard_s > after_s
        ]
        newest = max((report.epoch for report in fresh), default=0)
        return tuple(sorted((report for report in fresh if report.epoch == newest), key=lambda report: report.slot))


def _slot_report(value: bytes | None) -> SlotReport:
    said = _WORDS.decode(value)
    if not all(map(is_flow, (*said.held, *said.waiting))):
        raise CorruptRecord("of no flow")
    return SlotReport(
        said.slot,
        said.epoch,
        said.transactions,
        said.held,
        said.waiting,
        said.ages_ms,
        said.rss_bytes,
        said.cpu_s,
        said.clients,
        said.aborts,
        said.aborted,
        said.session,
        said.read,
        said.written,
        said.limited,
    )
