"""The topic of edge states holds what the hub found about each edge, and the history from which availability follows.

Invariant: the leading hub writes this topic; the process that runs the lake writes `lake` and `upkeep`. Each key has
one record, which is complete by itself. Central stamps the records (LogAppendTime), so no clocks are compared. A
damaged record, or a record of another version, is counted and skipped. A state is written again within seconds. A lost
day of history counts as time that nobody watched.

Keys: `pulse`, which is written once a second while a hub watches; `refused`; `threads`; `policies`; `lake`;
`upkeep/<table>`; `state/<edge>`; `day/<edge>/<date>`.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from msgspec import Struct, structs

from aggregator.config.model import ClusterConfig
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.tail import LogTail
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Difference, Moment, TypedDecoder, is_flow
from aggregator.state.lake_holds import KEY as LAKE
from aggregator.state.lake_holds import LakeHold, decode_holds
from aggregator.state.lake_upkeep import PREFIX as UPKEEP
from aggregator.state.lake_upkeep import TableUpkeep, decode_upkeep
from aggregator.state.names import HubNames
from aggregator.threads import ThreadStatus

VERSION = 1
PULSE, REFUSED, THREADS, POLICIES = "pulse", "refused", "threads", "policies"
# No hub has more edges, days or tables. The bound limits what a foreign writer in this topic costs its readers.
_MAX_NAMES = 100_000
# The most flows and objections that a record names, so that it stays small.
_MAX_REFUSED, _MAX_OBJECTIONS = 500, 20
_STATE, _DAY = "state/", "day/"
# A pulse is written every second, and takes time to arrive.
_FRESH_MS = 3000
# A hub on a busy machine, or a standby that has just taken over, writes its pulse late.
_LATE_MS, _LATE_PATIENCE_S, _PATIENCE_S = 60_000, 10.0, 3.0
_LOOK_S = 0.05
# Readers read the whole topic. These settings keep its uncompacted part small, at one pulse a second.
SETTINGS = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    "segment.ms": "600000",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}


@dataclass(frozen=True, slots=True)
class EdgeState:
    """The state of one edge as the hub told it.

    Attributes:
        state: One word of `edges.availability.State`.
        reason: Reason for the state.
        since_ms: Time at which it began, by central's clock.
        maintenance: Whether a maintenance window was open.
        skew_ms: The edge's clock less central's; None where nothing told.
        latency_ms: From the writing of the last beat to its arrival at central, by the writer's clock.
        read_bytes: Received from it since the hub's first start, on the wire.
        written_bytes: Of its records, written to central since then, before compression.
    """

    state: str
    reason: str
    since_ms: int
    maintenance: bool = False
    skew_ms: int | None = None
    latency_ms: int | None = None
    read_bytes: int = 0
    written_bytes: int = 0

    def encode(self) -> bytes:
        """Encode the state as the value of its record."""
        return _dump(asdict(self))


@dataclass(frozen=True, slots=True)
class EdgeStatuses:
    """Holds everything that the topic says.

    Attributes:
        pulse_ms: Central's stamp of the newest pulse; None before the first, and after a last one that said so.
        states: States by edge.
        days: Rows [start_ms, end_ms, state, excused] by edge and day.
        refused: Flows that no slot of the newest epoch got, as `edge/topic/partition`, with a word and a sentence why.
        threads: Threads of the leading hub; none after its last word.
        objections: Why the leading hub did not take policies that changed; empty where it goes by those of the files.
        lake: What kept the lake's tables from going on, when it last told.
        upkeep: What the upkeep of the lake's tables did, by table.
        damaged: Records that were none of ours.
    """

    pulse_ms: int | None = None
    states: Mapping[str, EdgeState] = field(default_factory=dict)
    days: Mapping[tuple[str, str], list[Any]] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    threads: tuple[ThreadStatus, ...] = ()
    objections: tuple[str, ...] = ()
    lake: tuple[LakeHold, ...] = ()
    upkeep: Mapping[str, TableUpkeep] = field(default_factory=dict)
    damaged: int = 0

    def with_records(self, records: Iterable[tuple[str, bytes | None, int]]) -> Self:
        """The statuses after further records of (key, value, stamp), in log order."""
        states, days, upkeep, damaged = dict(self.states), dict(self.days), dict(self.upkeep), self.damaged
        changed: dict[str, Any] = {}
        for key, value, stamp_ms in records:
            try:
                if key == PULSE and value is not None:
                    changed["pulse_ms"] = None if _PULSE.decode(value).last else stamp_ms
                elif key in _WHOLE:
                    name, read = _WHOLE[key]
                    changed[name] = read(value)
                elif key.startswith(UPKEEP):
                    _put(upkeep, key.removeprefix(UPKEEP), None if value is None else decode_upkeep(value))
                elif key.startswith(_STATE):
                    _put(states, key.removeprefix(_STATE), None if value is None else _state(value))
                elif key.startswith(_DAY):
                    edge, _, day = key.removeprefix(_DAY).partition("/")
                    _put(days, (edge, day), None if value is None else _spans(day, value))
            except CorruptRecord:
                damaged += 1
        return replace(self, states=states, days=days, upkeep=upkeep, damaged=damaged, **changed)


def pulse(*, last: bool = False) -> tuple[str, bytes]:
    """Key and value of a pulse; the last one says that nobody watches any more."""
    return PULSE, _dump({"last": last})


def refused_flows_record(flows: Mapping[str, tuple[str, str]]) -> tuple[str, bytes]:
    """Key and value of the record that names the flows that no slot got, each with the reason."""
    return REFUSED, _dump({"flows": dict(sorted(flows.items())[:_MAX_REFUSED])})


def threads_record(threads: Iterable[ThreadStatus]) -> tuple[str, bytes]:
    """Key and value of the record about the threads of the leading hub."""
    return THREADS, _dump({"threads": [asdict(one) for one in threads]})


def policies_record(objections: Sequence[str]) -> tuple[str, bytes]:
    """Key and value of the record about the policies that the leading hub was asked to take."""
    return POLICIES, _dump({"objections": objections[:_MAX_OBJECTIONS]})


def state_key(edge: str) -> str:
    """The record key of an edge's state."""
    return f"{_STATE}{edge}"


def day_record(edge: str, day: str, spans: Iterable[Iterable[object]]) -> tuple[str, bytes | None]:
    """Key and value of one day of an edge's history; without spans a tombstone."""
    rows = [list(span) for span in spans]
    return f"{_DAY}{edge}/{day}", _dump({"spans": rows}) if rows else None


def read_edge_statuses(cluster: ClusterConfig, names: HubNames) -> EdgeStatuses:
    """The topic, read to its end; nothing before the hub's first run.

    Raises:
        FatalError: an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.edge_status):
        return EdgeStatuses()
    records = read_to_end(cluster, names.edge_status, [0])
    return EdgeStatuses().with_records((record.key, record.value, record.timestamp_ms) for record in records)


def is_watched(cluster: ClusterConfig, names: HubNames, statuses: EdgeStatuses, *, wall_ms: int) -> bool:
    """Whether a hub watches the edges now: its pulse is of this moment, or is seen to move.

    Args:
        cluster: Central.
        names: The hub's names.
        statuses: What the topic said a moment ago.
        wall_ms: This machine's present. Where it differs from the pulse's stamp, a clock is wrong or the hub is gone.
    """
    if statuses.pulse_ms is None:
        return False
    patience_s = pulse_patience_s(wall_ms - statuses.pulse_ms)
    if not patience_s:
        return True
    tail = LogTail(cluster, names.edge_status)
    try:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if any(one.key == PULSE and one.timestamp_ms > statuses.pulse_ms for one in tail.poll()):
                return True
            time.sleep(_LOOK_S)
        return False
    finally:
        tail.close()


def pulse_patience_s(age_ms: int) -> float:
    """How long to wait for another pulse, in seconds; 0 if the last one is of this moment.

    Args:
        age_ms: Of the last pulse, by two clocks that may differ; below 0 it lies in the future.
    """
    if abs(age_ms) <= _FRESH_MS:
        return 0.0
    return _LATE_PATIENCE_S if abs(age_ms) <= _LATE_MS else _PATIENCE_S


def _put(into: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        into.pop(key, None)
    elif not key or not all(key) or (key not in into and len(into) >= _MAX_NAMES):
        raise CorruptRecord("of no name, or of more names than a hub has")
    else:
        into[key] = value


class _Pulse(Struct, tag_field="v", tag=VERSION):
    last: bool = False


class _Refused(Struct, tag_field="v", tag=VERSION):
    flows: dict[str, tuple[str, str]]


class _Threads(Struct, tag_field="v", tag=VERSION):
    threads: tuple[ThreadStatus, ...]


class _Policies(Struct, tag_field="v", tag=VERSION):
    objections: tuple[str, ...]


class _State(Struct, tag_field="v", tag=VERSION):
    state: str
    reason: str
    since_ms: Moment
    maintenance: bool = False
    skew_ms: Difference | None = None
    latency_ms: Difference | None = None
    read_bytes: Count = 0
    written_bytes: Count = 0


class _Day(Struct, tag_field="v", tag=VERSION):
    spans: list[tuple[Moment, Moment, str, bool]]


_PULSE, _REFUSED, _THREADS = TypedDecoder(_Pulse), TypedDecoder(_Refused), TypedDecoder(_Threads)
_POLICIES, _STATES, _DAYS = TypedDecoder(_Policies), TypedDecoder(_State), TypedDecoder(_Day)


def _decode_refused_flows(value: bytes | None) -> dict[str, tuple[str, str]]:
    flows = {} if value is None else _REFUSED.decode(value).flows
    if not all(map(is_flow, flows)):
        raise CorruptRecord("of no flow")
    return flows


# Keys with a single record: the attribute that it sets, and how its value is decoded.
_WHOLE: Mapping[str, tuple[str, Callable[[bytes | None], Any]]] = {
    REFUSED: ("refused", _decode_refused_flows),
    THREADS: ("threads", lambda value: () if value is None else _THREADS.decode(value).threads),
    POLICIES: ("objections", lambda value: () if value is None else _POLICIES.decode(value).objections),
    LAKE: ("lake", decode_holds),
}


def _state(value: bytes) -> EdgeState:
    return EdgeState(**structs.asdict(_STATES.decode(value)))


def _spans(day: str, value: bytes) -> list[Any]:
    """Rows of one day, all within it: a span of centuries would be cut into days for ever."""
    rows: list[Any] = [list(row) for row in _DAYS.decode(value).spans]
    try:
        begins = datetime.fromisoformat(day).replace(tzinfo=UTC)
        start_ms, end_ms = (int(at.timestamp() * 1000) for at in (begins, begins + timedelta(days=1)))
    except (ValueError, OverflowError):
        raise CorruptRecord("of no day") from None
    if any(not start_ms <= first <= last <= end_ms for first, last, _, _ in rows):
        raise CorruptRecord("of another day")
    return rows


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps({"v": VERSION} | body, separators=(",", ":")).encode()
