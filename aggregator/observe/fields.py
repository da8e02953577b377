"""Sums the counts per field that the slots reported: the newest report of every slot process, over all processes.

Invariants: pure. A record that the hub did not write changes nothing, and is counted. Half of a report changes nothing
either. Counters of one process are cumulative and replace each other; those of different processes add up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from msgspec import Struct

from aggregator.coordinates import SchemaName
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Moment, Number, TypedDecoder
from aggregator.privacy.batch.strip import PolicyId, ReportRow
from aggregator.replicate.flow.field_counts import KIND
from aggregator.state.telemetry import kind_of

_COUNTS = ("seen", "null", "transformed", "rejected")
# Stands in place of a session for all sessions that are over.
_PAST = ""
_MARK = f'"{KIND}"'.encode()
# No hub has more topics and sessions than this.
_MAX_PLACES = 100_000


class _Row(NamedTuple):
    """A `ReportRow` in its transmitted form, with counts that can be added up without a limit."""

    schema_id: SchemaName | None
    path: str
    type: str
    tags: tuple[str, ...]
    because: str
    operator: str
    privacy_class: str
    seen: Count
    null: Count
    transformed: Count
    rejected: Count
    unclassified: bool


class FieldSum(NamedTuple):
    """One leaf with its counts over all slots. The counts inside `row` are those of a single slot."""

    row: ReportRow
    seen: int
    null: int
    transformed: int
    rejected: int


@dataclass(frozen=True, slots=True)
class TopicFields:
    """One topic of one edge: the policy that the newest slot applies, and every leaf. A leaf counts as unclassified by
    that policy only.
    """

    policy: PolicyId
    key_versions: Mapping[str, int]
    fields: tuple[FieldSum, ...]


@dataclass(slots=True)
class _PartialReport:
    """The newest report of one session of a slot about one topic. It is complete when all its parts have arrived."""

    number: int
    at_ms: int
    policy: PolicyId
    keys: dict[str, int]
    count: int
    parts: dict[int, list[ReportRow]] = field(default_factory=dict)


class _Fields(Struct, tag_field="kind", tag=KIND, rename={"session": "life"}):
    edge: str
    topic: str
    session: str
    policy: PolicyId
    keys: dict[str, int]
    number: Number
    parts: Number
    part: Number
    rows: list[_Row]
    at_ms: Moment


_DECODER = TypedDecoder(_Fields)


class FieldFeed:
    """Takes telemetry records, in order.

    Attributes:
        since_ms: When the oldest of what is known was told.
        damaged: How many were none of ours.
    """

    def __init__(self) -> None:
        self._whole: dict[tuple[str, str, str], _PartialReport] = {}
        self._half: dict[tuple[str, str, str], _PartialReport] = {}
        self.since_ms: int | None = None
        self.damaged = 0

    def ingest(self, value: bytes | None) -> None:
        """Take one telemetry record; whatever is not of fields is left alone."""
        if value is None or _MARK not in value or kind_of(value) != KIND:
            return
        try:
            self._add(_DECODER.decode(value))
        except CorruptRecord:
            self.damaged += 1

    def _add(self, said: _Fields) -> None:
        place = (said.edge, said.topic, said.session)
        report = self._half.get(place)
        if report is None and len(self._half) >= _MAX_PLACES:
            raise CorruptRecord("of more topics than a hub has")
        if report is None or report.number != said.number:
            report = _PartialReport(said.number, said.at_ms, said.policy, said.keys, said.parts)
        report.parts[said.part] = [ReportRow._make(row) for row in said.rows]
        self._half[place] = report
        if len(report.parts) == report.count:
            self._whole[place] = report
            self.since_ms = min(report.at_ms, self.since_ms or report.at_ms)

    def settle(self, silent_ms: int) -> None:
        """Merge the sessions that have been silent for so long, so that a feed that is kept for days stays small."""
        newest_ms = max((report.at_ms for report in self._whole.values()), default=0)
        past: dict[tuple[str, str], list[_PartialReport]] = {}
        for (edge, topic, session), report in list(self._whole.items()):
            if session == _PAST or report.at_ms < newest_ms - silent_ms:
                past.setdefault((edge, topic), []).append(self._whole.pop((edge, topic, session)))
        for (edge, topic), reports in past.items():
            last = max(reports, key=lambda report: report.at_ms)
            rows = [
                one.row._replace(**{name: getattr(one, name) for name in _COUNTS}) for one in _summed(reports).fields
            ]
            self._whole[edge, topic, _PAST] = replace(last, count=1, parts={0: rows})
        self._half = {at: report for at, report in self._half.items() if report.at_ms >= newest_ms - silent_ms}

    def topics(self) -> dict[tuple[str, str], TopicFields]:
        """Edge and topic to what is known of its fields."""
        by_topic: dict[tuple[str, str], list[_PartialReport]] = {}
        for (edge, topic, _), report in self._whole.items():
            by_topic.setdefault((edge, topic), []).append(report)
        return {place: _summed(reports) for place, reports in by_topic.items()}


def _summed(reports: list[_PartialReport]) -> TopicFields:
    newest = max(reports, key=lambda report: report.at_ms)
    sums: dict[tuple[Any, ...], FieldSum] = {}
    for report in reports:
        for row in (row for part in sorted(report.parts) for row in report.parts[part]):
            # A field that only a former policy left unclassified no longer counts as such.
            is_open = row.unclassified and report.policy == newest.policy
            place = (*row[:7], is_open)
            before = sums.get(place, FieldSum(row, 0, 0, 0, 0))
            counts = (a + b for a, b in zip(before[1:], row[7:11], strict=True))
            sums[place] = FieldSum(row._replace(unclassified=is_open), *counts)
    return TopicFields(newest.policy, newest.keys, tuple(sums.values()))
