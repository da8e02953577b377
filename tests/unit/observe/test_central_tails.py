"""What is followed at central, folded: slots, fields of many lives, rates, requests to pause."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import EdgePartition
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.observe.fields import FieldFeed
from aggregator.observe.hub_status import Trouble
from aggregator.observe.rates import Rates
from aggregator.observe.warnings import dead_letters, held_flows, troubles, warnings
from aggregator.state.edge_status import PULSE, REFUSED, EdgeState, EdgeStatuses, pulse, refused_flows_record, state_key
from aggregator.state.pauses import Pause, damaged_pauses, fold_pauses, paused_edges
from aggregator.state.requests import fold_requests
from aggregator.state.telemetry import SlotFeed

FLOW, OTHER = EdgePartition("eu", "orders", 0), EdgePartition("us", "orders", 0)


def word(slot=0, epoch=3, **changes) -> bytes:
    """A slot's regular word, as the slot writes it."""
    body = {"v": 1, "at_ms": 5, "life": "a", "rss_bytes": 9, "cpu_s": 1.5, "epoch": epoch, "slot": slot}
    return json.dumps(body | {"transactions": 7, "delivered": 3, "held": {}, "waiting": {}} | changes).encode()


def test_the_newest_word_of_each_running_slot_counts():
    """Those of an older epoch, and of a slot that fell silent, do not; what is none of ours is counted and no more."""
    feed = SlotFeed()
    feed.ingest(word(0, epoch=2), 0.0)
    feed.ingest(word(1, epoch=2), 0.0)
    feed.ingest(word(0, held={"eu/orders/1": ["gap", "offsets 5 to 9"]}, clients={"central": {"sent_bytes": 1.0}}), 5.0)
    for junk in (None, b"?", b"[]", b"{}", json.dumps({"kind": "fields", "slot": 9}).encode()):
        feed.ingest(junk, 5.0)
    (one,) = feed.slots(6.0)
    assert feed.damaged == 4
    assert (one.slot, one.epoch, one.transactions, one.held) == (0, 3, 7, {"eu/orders/1": ("gap", "offsets 5 to 9")})
    assert one.clients["central"]["sent_bytes"] == 1.0
    assert feed.slots(16.0) == ()
    assert feed.slots(6.0, after_s=4.0) == (one,)
    assert feed.slots(6.0, after_s=5.0) == (), "a former hub's last words say nothing of what runs now"


def fields(life: str, at_ms: int, transformed: int, number=1) -> bytes:
    """What one life tells of one field."""
    row = [7, "email", "string", ["PII"], "tag", "drop", "removed", 9, 1, transformed, 0, False]
    body = {"kind": "fields", "edge": "eu", "topic": "orders", "policy": ["p", 1, ""], "keys": {}, "number": number}
    return json.dumps(body | {"parts": 1, "part": 0, "rows": [row], "life": life, "at_ms": at_ms}).encode()


def sums(feed: FieldFeed) -> dict:
    """The counts of each field, over all lives."""
    return {at: [(one.row.path, *one[1:]) for one in found.fields] for at, found in feed.topics().items()}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=30), st.integers(0, 40))
def test_lives_that_are_over_become_one_and_no_count_is_lost(words, silent_ms):
    """However often it is settled: sums stay the same as long as what is over says nothing more."""
    kept, settled = FieldFeed(), FieldFeed()
    for at_ms, (life, transformed) in enumerate(words):
        value = fields(f"life-{at_ms}-{life}", at_ms, transformed, number=at_ms)
        kept.ingest(value)
        settled.ingest(value)
        settled.settle(silent_ms)
    assert sums(settled) == sums(kept)
    assert len(settled._whole) <= silent_ms + 2


def test_rates_follow_counters():
    """Per flow over the last seconds, per edge second by second; a counter that went back has no negative rate."""
    rates = Rates()
    for second in range(30):
        rates.ingest({FLOW: 100 * second, OTHER: 50 if second < 20 else 0}, float(second))
    assert rates.flows() == {FLOW: 100.0, OTHER: 0.0}
    assert rates.edges()["eu"][-3:] == (100.0, 100.0, 100.0)
    assert set(rates.edges()["us"]) == {0.0}
    assert Rates().flows() == {}


PAUSE = Pause("eu", True, "ada@desk", 1_700_000_000_000, "brokers are moved")


def test_a_pause_is_the_newest_word_about_its_edge():
    """Who, when and why survive; a resumption replaces it; other requests are passed over; a damaged one is named, and
    its edge rests.
    """
    resumed = Pause("us", False, "bob", 3, "")
    records = [
        LogRecord(0, place, *one.encode())
        for place, one in enumerate([PAUSE, Pause("us", True, "x", 1, "y"), resumed, PAUSE])
    ]
    records.append(LogRecord(0, 9, "gap/truncated/eu/orders/0/0/1/2", b"?"))
    found = fold_pauses(records)
    assert found == {"eu": PAUSE, "us": resumed}
    assert paused_edges(found.values()) == {"eu"}
    assert PAUSE.sentence == "by ada@desk (claimed) since 2023-11-14T22:13:20Z: brokers are moved"
    assert resumed.sentence == ""
    assert fold_requests(records[:-1], "h.requests").decisions == ()
    key, value = PAUSE.encode()
    for damaged in (b"?", b"{}", value.replace(b'"v": 1', b'"v": 2'), value.replace(b"eu", b"us")):
        record = LogRecord(0, 4, key, damaged)
        assert paused_edges(fold_pauses([record]).values()) == {"eu"}
        assert "offset 4" in next(damaged_pauses([record], "h.requests"))
    assert fold_pauses([LogRecord(0, 4, key, None)]) == {}


def test_what_is_told_is_the_newest_record_of_each_key():
    """A pulse with central's stamp, the last pulse of a hub, states; damaged records and other versions say nothing."""
    state = EdgeState("UP", "heartbeats arrive", 5, skew_ms=-3)
    told = EdgeStatuses().with_records(
        [(*pulse(), 10), (*pulse(), 20), (state_key("eu"), state.encode(), 30), ("junk", b"?", 40)]
    )
    assert (told.pulse_ms, told.states) == (20, {"eu": state})
    after = told.with_records([(PULSE, b"?", 50), (state_key("us"), b'{"v":9,"state":"UP"}', 60)])
    assert after == replace(told, damaged=2)
    assert told.with_records([(*pulse(last=True), 70)]).pulse_ms is None


def test_flows_that_no_slot_got_are_told_too():
    """The driver's newest word replaces the one before, an empty one included; a damaged one changes nothing; a gap has
    a list of its own.
    """
    refused = {"eu/a/0": ("retention", "central would delete it at once"), "eu/b/0": ("gap", "offsets 5 to 9")}
    told = EdgeStatuses().with_records([(*refused_flows_record(refused), 10)])
    assert told.refused == refused
    assert held_flows((), told.refused) == {"eu/a/0", "eu/b/0"}
    assert troubles((), told.refused) == {"eu/a/0": Trouble("held, central would delete it at once", "retention")}
    for damaged in (b'{"v":1,"flows":{"eu/a/0":["x"]}}', b'{"v":1,"flows":[]}', b"?"):
        after = told.with_records([(REFUSED, damaged, 20)])
        assert (after.refused, after.damaged) == (refused, 1)
    assert told.with_records([(*refused_flows_record({}), 20)]).refused == {}
    many = {f"eu/topic-{at}/0": ("retention", "why" * 40) for at in range(20_000)}
    assert len(refused_flows_record(many)[1]) < 100_000, "it stays below a broker's default for one record"


def test_why_a_flow_is_not_read_is_told_in_words():
    """Held and waiting flows are named with what their slot says; a gap is not, it has a list of its own."""
    held = {"eu/a/0": ["refused", "schema id 7 has two meanings"], "eu/b/0": ["gap", "offsets 5 to 9"]}
    feed = SlotFeed()
    feed.ingest(word(0, held=held, waiting={"eu/c/0": "the registry does not answer"}), 5.0)
    found = troubles(feed.slots(6.0), {})
    assert found == {
        "eu/a/0": Trouble("held, schema id 7 has two meanings", "refused"),
        "eu/c/0": Trouble("waits and tries again, the registry does not answer"),
    }
    said = warnings({}, (), {source: why.text for source, why in found.items()}, warning_ms=1)
    assert "eu/a/0: held, schema id 7 has two meanings" in said.values()


def test_dead_letters_are_told_once_for_each_reason_and_again_at_ten_times_as_many():
    """With the command that lists them; a reason without a fresh letter is told of nothing."""
    found = dead_letters({("eu", "shop.orders", "undecodable"): 9, ("eu", "shop.orders", "bad_key"): 0})
    assert list(found.values()) == [
        "eu/shop.orders: 9 dead letters (undecodable): aggregator dlq list --edge eu --topic 'shop\\.orders'"
    ]
    few, more, many = (set(dead_letters({("eu", "t", "bad_key"): count})) for count in (10, 99, 100))
    assert few == more != many
