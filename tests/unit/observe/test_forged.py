"""Forged and damaged records in the hub's own topics: each is counted or refused by name, and nothing else happens."""

import json

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from aggregator.backfill.store import KnownBackfills
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange, Position
from aggregator.edges.availability import AvailabilityState
from aggregator.edges.heartbeats import Heartbeat, decode
from aggregator.edges.history import DAY_MS, StateSpan, by_day, uptimes
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import CorruptRecord, key_text
from aggregator.observe import fields
from aggregator.observe.fields import FieldFeed
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.observe.history_rows import day_records, lasting, written_spans
from aggregator.observe.metrics import samples
from aggregator.observe.warnings import held_flows, troubles
from aggregator.page.overview import overview
from aggregator.state import control, dead_letters, edge_status, ledger, releases, requests
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.control import ControlState, Epoch, Lease, NamedCluster
from aggregator.state.edge_status import (
    EdgeState,
    EdgeStatuses,
    day_record,
    policies_record,
    pulse,
    refused_flows_record,
    state_key,
    threads_record,
)
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.lake_upkeep import TableUpkeep, upkeep_record
from aggregator.state.ledger import LedgerRecord
from aggregator.state.pauses import Pause, paused_edges
from aggregator.state.releases import Release
from aggregator.state.telemetry import SlotFeed
from aggregator.threads import ThreadCondition, ThreadStatus
from tests.effort import examples
from tests.unit.observe.hubs import edge, snapshot

NOW_MS = 1_700_000_000_000
SOURCE = EdgePartition("eu", "orders", 0)
GAP = Gap(GapKind.EXPIRED, 5, 9, 7)
DECISION = GapDecision(SOURCE, Position(0, 5), GAP, "ada", 9, "known")
PAUSE = Pause("eu", True, "ada", 9, "moved")
SUCCESSION = ClusterAcceptance("eu", "4L6g3nShT", "ada", 9, "moved")
RELEASE = Release("orders", CentralPartition("eu.orders", "id", 0), OffsetRange(5, 9), "ada", 9, "seen")
ENTRY = LedgerRecord(0, "id", 90, 3, 0, gap=GAP)
STATE = EdgeState("UP", "beats", NOW_MS, skew_ms=-3, latency_ms=5, read_bytes=9)
WORD = {
    "v": 1,
    "at_ms": 5,
    "life": "a",
    "rss_bytes": 9,
    "cpu_s": 1.5,
    "epoch": 3,
    "slot": 0,
    "transactions": 7,
    "held": {"eu/orders/1": ["gap", "offsets 5 to 9"]},
    "waiting": {"eu/orders/2": "the registry does not answer"},
    "ages_ms": {"eu": -1200},
    "clients": {"central": {"sent_bytes": 1.0}},
    "read": {"eu": 900},
    "written": {"eu": 1200},
    "limited": ["eu"],
}
ROW = [7, "email", "string", ["PII"], "tag", "drop", "removed", 9, 1, 5, 0, False]
FIELDS = {
    "kind": "fields",
    "edge": "eu",
    "topic": "orders",
    "policy": ["p", 1, ""],
    "keys": {"customer": 1},
    "number": 1,
    "parts": 1,
    "part": 0,
    "rows": [ROW],
    "life": "a",
    "at_ms": NOW_MS,
}
LETTER = {"v": 1, "edge": "eu", "topic": "orders", "partition": 0, "offset": 4, "reason": "undecodable"}
DAY = day_record("eu", "2023-11-14", [StateSpan(NOW_MS - 1000, NOW_MS, AvailabilityState.UP)])
THREADS = threads_record([ThreadStatus("lake", ThreadCondition.HANGING, NOW_MS, 2, "no pulse")])
POLICIES = policies_record(["policy.yaml: looser"])
BACKFILL = ("cancel/aa", json.dumps({"by": "ada", "at_ms": 5}).encode())


def slot_words(_, value):
    """As the monitor uses them: in metrics, on the page, as reasons of flows."""
    feed = SlotFeed()
    feed.ingest(value, 0.0)
    slots = feed.slots(0.0)
    held = held_flows(slots, {})
    assert {EdgePartition.parse(one).partition >= 0 for one in held} <= {True}
    troubles(slots, {})
    seen = snapshot(slots=slots)
    list(samples(seen, by_partition=True, age_s=0.0))
    return bool(slots) or feed.damaged == 1


def field_words(_, value):
    """As the page and the metrics use them."""
    feed = FieldFeed()
    feed.ingest(value)
    feed.settle(1000)
    seen = snapshot(fields=feed.topics())
    list(samples(seen, by_partition=True, age_s=0.0))
    overview(seen)
    return True


def edge_states(key, value):
    """As the monitor and `status` use them: states, history, refusals, threads."""
    told = EdgeStatuses().with_records([(key, value, NOW_MS)])
    spans = written_spans(told.days, "eu")
    assert sum(map(len, by_day(spans).values())) <= 2000
    lasting(spans, told.states.get("eu"), NOW_MS)
    uptimes(spans, now_ms=NOW_MS, objective=0.99)
    list(day_records("eu", spans, {day: rows for (_, day), rows in told.days.items()}, now_ms=NOW_MS))
    state = told.states.get("eu", EdgeState("UP", "", 0))
    seen = snapshot([edge(state=state.state, reason=state.reason, latency_ms=state.latency_ms, skew_ms=state.skew_ms)])
    list(samples(seen, by_partition=True, age_s=0.0))
    overview(seen)
    assert {EdgePartition.parse(one).partition >= 0 for one in told.refused} <= {True}
    json.dumps([one.since_ms + one.restarts for one in told.threads])
    json.dumps([one.partition("\n") for one in told.objections])
    return True


def asked(key, value):
    """As driver, lake and monitor use them; a damaged pause is a pause, a damaged decision or release is none."""
    found = requests.fold_requests([LogRecord(0, 4, key, value)], "h.requests")
    passed = releases.fold_releases([LogRecord(0, 4, key, value)])
    for decision in found.decisions:
        KnownGap(decision.source, decision.position, decision.gap, GapState.ACCEPTED, decision).plain()
    paused_edges(found.pauses.values())
    assert all(one.sentence is not None for one in found.pauses.values())
    if value is not None and key.startswith(("gap/", "release/")):
        assert bool(found.damaged) != bool(found.decisions or passed)
    if value is not None and key.startswith("cluster/"):
        assert bool(found.damaged) != bool(found.acceptances)
    if found.damaged and key.startswith("pause/"):
        assert paused_edges(found.pauses.values()) == {key.removeprefix("pause/")}
    return True


def refused_by_name(read):
    """One that is refused: whatever is wrong, it is an error of ours that names where."""

    def use(key, value):
        try:
            read(LogRecord(0, 4, key, value))
        except FatalError as error:
            assert "offset 4" in error.message
        return True

    return use


def counted_letters(_, value):
    """As the monitor counts them."""
    try:
        found = dead_letters.reason_of(value)
    except CorruptRecord:
        return True
    list(samples(snapshot(letters={found: 1} if found else {}), by_partition=True, age_s=0.0))
    return True


def dump(body) -> bytes:
    return json.dumps(body).encode()


KINDS = {
    "telemetry": (slot_words, "", dump(WORD)),
    "fields": (field_words, "", dump(FIELDS)),
    "pulse": (edge_states, *pulse()),
    "refused": (edge_states, *refused_flows_record({"eu/orders/0": ("retention", "too old")})),
    "state": (
        edge_states,
        state_key("eu"),
        EdgeState("UP", "beats", NOW_MS, skew_ms=-3, latency_ms=5, read_bytes=9).encode(),
    ),
    "day": (edge_states, *DAY),
    "threads": (edge_states, *THREADS),
    "objections": (edge_states, *POLICIES),
    "gap": (asked, *requests.encode(DECISION)),
    "pause": (asked, *PAUSE.encode()),
    "release": (asked, *RELEASE.encode()),
    "succession": (asked, *SUCCESSION.encode()),
    "cluster": (
        refused_by_name(lambda one: control.fold(ControlState(), [one], "h.control")),
        *control.encode(NamedCluster("eu", "4L6g3nShT")),
    ),
    "epoch": (
        refused_by_name(lambda one: control.fold(ControlState(), [one], "h.control")),
        *control.encode(Epoch(3, 2, 2, "me")),
    ),
    "lease": (
        refused_by_name(lambda one: control.fold(ControlState(), [one], "h.control")),
        *control.encode(Lease("me", 5)),
    ),
    "end": (refused_by_name(lambda one: control.fold(ControlState(), [one], "h.control")), *control.encode(3)),
    "ledger": (refused_by_name(lambda one: ledger.winners([one], "h.ledger")), str(SOURCE), ENTRY.encode()),
    "letter": (counted_letters, "", dump(LETTER)),
    "backfill": (refused_by_name(lambda one: KnownBackfills().take_requests([one], "h.backfill.requests")), *BACKFILL),
}
# Tokens that a JSON parser may take, or may choke on.
HOSTILE = [
    "Infinity", "-Infinity", "NaN", "1e400", "-1e400", "1e308", "9" * 30, "9" * 5000, "-1", "0.5", "true", "null",
    '""', '"x"', '"\\ud800"', '"\\u0000"', "[]", "{}", "[[]]", '{"a":{}}', "[" * 3_000 + "]" * 3_000,
    '{"a":' * 3_000 + "1" + "}" * 3_000, "253402300800000", "9223372036854775808", '"eu/orders/x"', '"\U0001f4a5"',
]  # fmt: skip
MARK = "\U00010000"


def places(body, path=()):
    """Every place in a JSON value."""
    yield path
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, one in items:
        yield from places(one, (*path, name))


def forged(value: bytes, where: int, token: str, *, as_key: bool) -> bytes:
    """The record with one place replaced by a token, or with a key of that name beside the others."""
    body = json.loads(value)
    found = list(places(body))
    path = found[where % len(found)]
    holder = {"": body}
    at, name = holder, ""
    for step in path:
        at, name = at[name], step
    if as_key and isinstance(at[name], dict):
        at[name] = {MARK: next(iter(at[name].values()), 1)} | at[name]
        return json.dumps(holder[""], ensure_ascii=False).replace(MARK, "".join(token[:50].split('"'))).encode()
    at[name] = MARK
    text = json.dumps(holder[""], ensure_ascii=False).replace(f'"{MARK}"', token)
    return text.encode(errors="surrogatepass")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(80), print_blob=True)
@given(where=st.integers(0, 60), token=st.sampled_from(HOSTILE), as_key=st.booleans())
@example(where=1, token="Infinity", as_key=False)
@example(where=0, token="[" * 3_000 + "]" * 3_000, as_key=False)
@pytest.mark.slow
def test_a_forged_record_ends_nothing(kind, where, token, as_key):
    """A number without end, nesting without end, another type or name anywhere in a record of the hub's topics."""
    use, key, value = KINDS[kind]
    note(f"{kind}, place {where}, token {token[:40]}")
    assert use(key, forged(value, where, token, as_key=as_key))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40), print_blob=True)
@given(value=st.one_of(st.none(), st.binary(max_size=60)), key=st.binary(max_size=20))
@pytest.mark.slow
def test_bytes_that_are_none_of_ours_end_nothing(kind, value, key):
    """Any bytes as a value, and as a key."""
    use, known, _ = KINDS[kind]
    assert use(known, value)
    assert use(key_text(key), value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_hub_writes_itself_is_taken(kind):
    """The table above is of real records: none of them is refused or counted."""
    use, key, value = KINDS[kind]
    assert use(key, value)
    match kind:
        case "telemetry":
            feed = SlotFeed()
            feed.ingest(value, 0.0)
            (heard,) = feed.slots(0.0)
            assert (heard.ages_ms, heard.read, heard.limited) == ({"eu": -1200}, {"eu": 900}, ("eu",))
        case "fields":
            fields = FieldFeed()
            fields.ingest(value)
            assert list(fields.topics()) == [("eu", "orders")]
        case "pulse" | "refused" | "state" | "day" | "threads":
            statuses = EdgeStatuses().with_records([(key, value, NOW_MS)])
            assert statuses != EdgeStatuses()
            assert statuses.damaged == 0
        case "gap" | "pause":
            found = requests.fold_requests([LogRecord(0, 4, key, value)], "h.requests")
            assert (found.decisions, found.pauses) == (((DECISION,), {}) if kind == "gap" else ((), {"eu": PAUSE}))
            assert not found.damaged
        case "succession":
            found = requests.fold_requests([LogRecord(0, 4, key, value)], "h.requests")
            assert (found.acceptances, found.damaged) == ({"eu": SUCCESSION}, ())
        case "cluster":
            state = control.fold(ControlState(), [LogRecord(0, 4, key, value)], "h.control")
            assert state.clusters == {"eu": "4L6g3nShT"}
        case "release":
            assert releases.fold_releases([LogRecord(0, 4, key, value)]) == (RELEASE,)
        case "epoch" | "lease" | "end":
            assert control.fold(ControlState(), [LogRecord(0, 4, key, value)], "h.control") != ControlState()
        case "ledger":
            assert ledger.winners([LogRecord(0, 4, key, value)], "h.ledger") == {SOURCE: ENTRY}
        case "letter":
            assert dead_letters.reason_of(value) == ("eu", "orders", "undecodable")
        case "backfill":
            backfills = KnownBackfills()
            backfills.take_requests([LogRecord(0, 4, key, value)], "h.backfill.requests")
            assert backfills.cancelled["aa"].by == "ada"


def test_a_history_of_centuries_is_not_cut_into_days():
    """A day's record speaks of its own day; a span without end would keep its reader busy for ever."""
    key, _ = DAY
    for span in (
        [0, 2**50, "UP", False],
        [NOW_MS, NOW_MS + 2 * DAY_MS, "UP", False],
        [NOW_MS, NOW_MS - 1, "UP", False],
    ):
        told = EdgeStatuses().with_records([(key, json.dumps({"v": 1, "spans": [span]}).encode(), NOW_MS)])
        assert (told.days, told.damaged) == ({}, 1)
    told = EdgeStatuses().with_records([("day/eu/soon", json.dumps({"v": 1, "spans": []}).encode(), NOW_MS)])
    assert told.damaged == 1


def test_names_without_end_are_not_kept(monkeypatch):
    """Whoever writes into the hub's topics names as many edges, days, tables and topics as a hub can have."""
    monkeypatch.setattr(edge_status, "_MAX_NAMES", 10)
    monkeypatch.setattr(fields, "_MAX_PLACES", 10)
    state = EdgeState("UP", "", 0).encode()
    many = [(state_key(f"e{n}"), state, NOW_MS) for n in range(15)]
    told = EdgeStatuses().with_records([*many, (state_key("e3"), state, NOW_MS), (state_key(""), state, NOW_MS)])
    assert (len(told.states), told.damaged) == (10, 6)
    assert len(told.with_records([(state_key("e3"), None, NOW_MS), (state_key("new"), state, NOW_MS)]).states) == 10
    assert told.with_records([(*upkeep_record("", TableUpkeep()), NOW_MS)]).damaged == 7
    feed, (_, _, value) = FieldFeed(), KINDS["fields"]
    for n in range(15):
        feed.ingest(value.replace(b'"orders"', f'"orders{n}"'.encode()))
    assert (len(feed.topics()), feed.damaged) == (10, 5)


@settings(max_examples=examples(200), print_blob=True)
@given(key=st.one_of(st.none(), st.binary(max_size=40)), value=st.one_of(st.none(), st.binary(max_size=12)))
@example(key=Heartbeat("h", "eu", 1).encode_key(), value=b"\x00\x00" + b"\x7f" * 8)
@pytest.mark.slow
def test_any_bytes_are_a_heartbeat_or_none(key, value):
    """A beat is exactly one, or `ValueError`."""
    try:
        beat = decode(key, value)
    except ValueError:
        return
    assert (beat.encode_key(), beat.encode_value()) == (key, value)
