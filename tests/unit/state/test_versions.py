"""Records of the hub's own topics across its versions: a later hub reads an earlier one's, none misreads a later one's.

`records/` has a file for each released version, and one for what the next release will write. A change of a record
shows here as another text: then the record's version grows, and the former text stays.
"""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aggregator.coordinates import CentralPartition, EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state import control, dead_letters, decisions, edge_status, ledger, pauses, releases, requests
from aggregator.state.cluster_acceptances import ClusterAcceptance, fold_acceptances
from aggregator.state.control import (
    AddedFlows,
    ControlState,
    Epoch,
    KeyCheck,
    Lease,
    NamedCluster,
    Pace,
    Target,
    UndecidedRange,
)
from aggregator.state.edge_status import EdgeState, EdgeStatuses
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.lake_holds import LakeHold, holds_record
from aggregator.state.lake_upkeep import TableUpkeep, upkeep_record
from aggregator.state.ledger import LedgerRecord
from aggregator.state.letter_log import LetterLog
from aggregator.state.pauses import Pause
from aggregator.state.releases import Release
from aggregator.threads import ThreadStatus

RECORDS = Path(__file__).parent / "records"
NEXT = "0.1.0"
FLOW = EdgePartition("eu", "orders", 3)
AT_MS = 1_700_000_000_000
GAP = Gap(GapKind.EXPIRED, 17, 40, AT_MS, 6)
LEDGER = LedgerRecord(
    1,
    "id",
    42,
    7,
    0,
    30,
    2,
    10,
    64,
    GAP,
    5,
    (IncarnationRange(0, OffsetRange(3, 9)),),
    4,
    1,
    1,
    (("8", "f"),),
    (("k/1", 12),),
    9,
)
DECISION = GapDecision(FLOW, Position(1, 17), GAP, "ada", AT_MS, "known", automatic=True)
PAUSE = Pause("eu", True, "ada", AT_MS, "moved")
RELEASE = Release("orders", CentralPartition("eu.orders", "id", 3), OffsetRange(5, 9), "ada", AT_MS, "seen")
SUCCESSION = ClusterAcceptance("eu", "c2", "ada", AT_MS, "rebuilt")
STATE = EdgeState(
    "LAGGING", "its clock", AT_MS, maintenance=True, skew_ms=-4, latency_ms=8, read_bytes=9, written_bytes=7
)
UPKEEP = TableUpkeep(AT_MS, 40, 5, AT_MS - 9, 7, "its storage is away")
HOLD = LakeHold("orders", "eu.orders", 3, 17, AT_MS, "cents is string")
THREAD = ThreadStatus("lake", "running", AT_MS, 1, "why")
LINK = decisions.links(
    [decisions.NewDecision(decisions.DecisionKind.PAUSE, "eu", "ada", AT_MS, "moved")], None, "User:a"
)[0]


class Sample(NamedTuple):
    """A kind of record.

    Attributes:
        written: Key and value, as today's hub writes them.
        read: From a record to what it says.
        says: What that is.
        closed: Whether a later version's is refused by name; else it is passed over, and nobody is misled.
    """

    written: tuple[str, bytes | None]
    read: Callable[[LogRecord], Any]
    says: Any
    closed: bool = True


def folded(name: str) -> Callable[[LogRecord], Any]:
    return lambda record: getattr(control.fold(ControlState(), [record], "h.control"), name)


def status(name: str) -> Callable[[LogRecord], Any]:
    return lambda record: getattr(EdgeStatuses().with_records([(record.key, record.value, AT_MS)]), name)


def of_control(entry: Any, name: str, says: Any) -> Sample:
    return Sample(control.encode(entry), folded(name), says)


LETTER = dead_letters.encode_resolution(FLOW, 17, 1, "b1", dead_letters.DELIVERED, central="eu.orders")


def letters(record: LogRecord) -> list[tuple[str, str]]:
    found = LetterLog([(record.offset, record.key.encode(), record.value)], "h.dead-letters")
    behind = LedgerRecord(9, "id", 0, 1, 0)
    return [(one.resolved_by, one.outcome) for one in found.letters(lambda *_: behind, lambda *_: behind)]


SAMPLES = {
    "ledger": Sample((str(FLOW), LEDGER.encode()), lambda record: ledger.decode(record, "h.ledger"), LEDGER),
    "epoch": of_control(Epoch(7, 2, 3, "d"), "epoch", Epoch(7, 2, 3, "d")),
    "lease": of_control(Lease("d", 5, released=True), "lease", Lease("d", 5, released=True)),
    "end": of_control(6, "foreign_end", 6),  # no record before it opens that epoch
    "pace": of_control(Pace(7, 12.5), "pace", Pace(7, 12.5)),
    "key check": of_control(KeyCheck("customer", 2, "c"), "keys", {("customer", 2): "c"}),
    "cluster": of_control(NamedCluster("eu", "c1"), "clusters", {"eu": "c1"}),
    "added flows": of_control(AddedFlows(7, 1, "[]"), "added", {1: AddedFlows(7, 1, "[]")}),
    "undecided": of_control(UndecidedRange("eu.orders", 3, 5, 9), "undecided", {("eu.orders", 3): OffsetRange(5, 9)}),
    "target": of_control(
        Target("eu", "orders", "eu.orders", by_key=True),
        "targets",
        frozenset({Target("eu", "orders", "eu.orders", by_key=True)}),
    ),
    "decision about a gap": Sample(
        requests.encode(DECISION), lambda record: requests.decode(record, "h.requests"), DECISION
    ),
    "pause": Sample(PAUSE.encode(), lambda record: pauses.fold_pauses([record])["eu"], PAUSE, closed=False),
    "release": Sample(RELEASE.encode(), lambda record: releases.fold_releases([record]), (RELEASE,), closed=False),
    "succession": Sample(
        SUCCESSION.encode(), lambda record: fold_acceptances([record]), {"eu": SUCCESSION}, closed=False
    ),
    "resolution of a dead letter": Sample(LETTER, letters, [("b1", "delivered")], closed=False),
    "link of decisions": Sample((LINK.kind.value, LINK.encode()), decisions.decode, LINK, closed=False),
    "state of an edge": Sample(
        (edge_status.state_key("eu"), STATE.encode()), status("states"), {"eu": STATE}, closed=False
    ),
    "pulse": Sample(edge_status.pulse(), status("pulse_ms"), AT_MS, closed=False),
    "refused flows": Sample(
        edge_status.refused_flows_record({str(FLOW): ("schema", "why")}),
        status("refused"),
        {str(FLOW): ("schema", "why")},
        closed=False,
    ),
    "threads": Sample(edge_status.threads_record([THREAD]), status("threads"), (THREAD,), closed=False),
    "objections": Sample(
        edge_status.policies_record(["looser"]), status("objections"), ("looser",), closed=False
    ),
    "day of an edge": Sample(
        edge_status.day_record("eu", "2023-11-14", [[AT_MS, AT_MS + 5, "UP", False]]),
        status("days"),
        {("eu", "2023-11-14"): [[AT_MS, AT_MS + 5, "UP", False]]},
        closed=False,
    ),
    "holds of the lake": Sample(holds_record([HOLD]), status("lake"), (HOLD,), closed=False),
    "upkeep of a table": Sample(upkeep_record("orders", UPKEEP), status("upkeep"), {"orders": UPKEEP}, closed=False),
}  # fmt: skip


def kept(version: str) -> dict[str, tuple[str, bytes]]:
    text = json.loads((RECORDS / f"{version}.json").read_text(encoding="utf-8"))
    return {kind: (one["key"], one["value"].encode()) for kind, one in text.items()}


RELEASED = sorted(path.stem for path in RECORDS.glob("*.json"))


def at(key: str, value: bytes | None) -> LogRecord:
    return LogRecord(0, 4, key, value, AT_MS)


@pytest.mark.parametrize("version", RELEASED)
@pytest.mark.parametrize("kind", SAMPLES)
def test_what_a_released_version_wrote_is_read(kind, version):
    """Every record says today what it said then."""
    written = kept(version)
    assert kind in written or version != NEXT, "add it to the file of the next release"
    if kind in written:
        assert SAMPLES[kind].read(at(*written[kind])) == SAMPLES[kind].says


@pytest.mark.parametrize("kind", SAMPLES)
def test_what_is_written_changes_with_a_version_only(kind):
    """Byte for byte: an earlier hub, to which somebody goes back, reads what it knows."""
    assert SAMPLES[kind].written == kept(NEXT)[kind]
    assert json.loads(SAMPLES[kind].written[1])["v"] >= 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_what_a_later_version_wrote_is_not_misread(kind):
    """Where it decides about records it is refused by name, with what to do; elsewhere it says nothing."""
    sample = SAMPLES[kind]
    key, value = sample.written
    later = json.loads(value) | {"v": 99, "more": {}}
    record = at(key, with_crc(later) if kind == "ledger" else json.dumps(later).encode())
    if sample.closed:
        with pytest.raises(FatalError, match="of version 99, which this hub does not know") as error:
            sample.read(record)
        assert "offset 4" in error.value.message
        assert "a later one" in error.value.hint
    else:
        assert sample.read(record) != sample.says


def with_crc(body: dict) -> bytes:
    """As the ledger would write it."""
    text = json.dumps({name: value for name, value in body.items() if name != "crc"}).encode()
    return b'{"crc":%d,' % zlib.crc32(text) + text[1:]
