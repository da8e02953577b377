"""What an epoch of a backfill does: its frozen plan against the world as it is now; and what central's records say."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from aggregator.backfill.backfill_state import Backfill, BackfillState, End, Signed
from aggregator.backfill.epoch_plan import ClusterState, EpochPlan, plan_epoch
from aggregator.backfill.facts import delivered
from aggregator.backfill.plan import Plan
from aggregator.backfill.planner import FlowAtCentral
from aggregator.backfill.request import Mode
from aggregator.backfill.samples import summarize
from aggregator.backfill.store import KnownBackfills, generated_by, passed_by
from aggregator.backfill.target import refuse_former, refuse_live, target_config, written
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.replicate.flow.gaps import with_unread
from aggregator.state.control import Target
from aggregator.state.dead_letters import DELIVERED, SUPPRESSED, encode_resolution, is_key
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord, decode, flow_key
from aggregator.state.letter_log import LetterLog
from tests.unit.backfill.plan_inputs import PART, PLAN, TOPIC
from tests.unit.replicate.plan_inputs import CONFIG, FLOW

LIVE = LedgerRecord(0, "id-1", 80, 1, 0, unread=(IncarnationRange(0, OffsetRange(0, 80)),))
SCENE = ClusterState(CONFIG, {("eu", "orders"): TOPIC}, frozenset(), {"eu.orders": {"max.message.bytes": "1000"}}, {})


def epoch(plan=PLAN, clusters=SCENE, at_central: FlowAtCentral | None = None, entry: LedgerRecord | None = None):
    flows_at_central = {FLOW: at_central or FlowAtCentral(FLOW, LIVE)}
    return plan_epoch(plan, clusters, flows_at_central, {FLOW: entry} if entry else {}, epoch=7)


def flow(*options, **named):
    (only,) = [one for flows in epoch(*options, **named).by_slot.values() for one in flows]
    return only


def test_a_backfill_begins_at_its_first_part_and_goes_on_behind_its_last_record():
    """A first position is written before the first poll (rule D); a resumed one has it already."""
    first = flow()
    assert (first.is_new_position, first.entry.position, first.entry.epoch, first.until) == (True, (0, 0), 7, 40)
    entry = structs.replace(first.entry, next_offset=25, delivered=25)
    again = flow(entry=entry)
    assert again.segments == (IncarnationRange(0, OffsetRange(25, 40)),)
    assert (again.entry.position, again.entry.delivered, again.limits.record_bytes) == ((0, 25), 25, 1000)
    assert (again.backfill, again.skips_gaps) == (PLAN.id, True)
    assert flow(at_central=FlowAtCentral(FLOW, structs.replace(LIVE, leader_epoch=4))).live_leader_epoch == 4
    assert epoch(entry=structs.replace(entry, next_offset=40)).by_slot == {}


def test_schema_ids_mean_to_a_backfill_what_they_meant_to_the_live_flow():
    """A registry that was rebuilt since is found by its first batch; what it then remembers is its own."""
    fingerprints = (("value/7", "06ffbc5d1f7dbc1c"),)
    at_central = FlowAtCentral(FLOW, structs.replace(LIVE, schemas=fingerprints))
    first = flow(at_central=at_central)
    assert first.entry.schemas == fingerprints
    own = structs.replace(first.entry, schemas=(*fingerprints, ("value/8", "aa")), next_offset=5)
    assert flow(entry=own, at_central=at_central).entry.schemas == own.schemas


def test_an_epoch_leaves_out_what_another_backfill_wrote_meanwhile():
    """Decided anew, from what was read after everybody else was fenced."""
    at_central = FlowAtCentral(FLOW, LIVE, passed=(IncarnationRange(0, OffsetRange(5, 30)),))
    assert flow(at_central=at_central).segments == (
        IncarnationRange(0, OffsetRange(0, 5)),
        IncarnationRange(0, OffsetRange(30, 40)),
    )


def test_a_backfill_that_leaps_knows_no_leader_epoch_of_where_it_lands():
    """Kept, that of its last record would make legitimate records before the new position look like another log."""
    entry = structs.replace(flow().entry, next_offset=5, leader_epoch=3)
    assert flow(entry=entry).entry.leader_epoch == 3
    leapt = flow(entry=entry, at_central=FlowAtCentral(FLOW, LIVE, passed=(IncarnationRange(0, OffsetRange(5, 30)),)))
    assert (leapt.entry.next_offset, leapt.entry.leader_epoch, leapt.is_new_position) == (30, None, True)


def test_what_nobody_can_bring_any_more_is_named_and_passed_over_on_record():
    """A log that was cut below a frozen plan: what went with it is lost, also to whoever resumes behind it."""
    rewind = GapDecision(FLOW, Position(0, 90), Gap(GapKind.TRUNCATED, 30, None, 1), "ada@desk", 1, "known")
    live = structs.replace(
        LIVE, incarnation=1, unread=(IncarnationRange(0, OffsetRange(0, 10)), IncarnationRange(0, OffsetRange(20, 40)))
    )
    at_central = FlowAtCentral(FLOW, live, (rewind,))
    told = epoch(at_central=at_central)
    assert told.lost == {FLOW: (OffsetRange(10, 20), OffsetRange(30, 40))}
    first = flow(at_central=at_central)
    assert first.segments == (IncarnationRange(0, OffsetRange(0, 10)), IncarnationRange(0, OffsetRange(20, 30)))
    behind = structs.replace(first.entry, next_offset=25)
    resumed = epoch(at_central=at_central, entry=behind)
    assert resumed.lost == {FLOW: (OffsetRange(30, 40),)}
    known = Backfill(PLAN, Signed("ada", 1), entries={FLOW: flow(at_central=at_central, entry=behind).entry})
    assert known.lost(PART) == (OffsetRange(10, 20),)
    assert known.passed(PART) == (OffsetRange(0, 10), OffsetRange(20, 25))


def test_an_epoch_says_which_edges_it_left_out():
    """They may be back when it ends, and nothing of them was read."""
    silent = epoch(clusters=replace(SCENE, silent=frozenset({"eu", "elsewhere"})))
    assert (silent.by_slot, silent.lost, silent.silent) == ({}, {}, {"eu"})


def test_an_edge_of_which_everything_was_read_may_be_silent():
    """Nothing waits for it; of what it cannot bring any more, the names are told."""
    away = replace(SCENE, silent=frozenset({"eu"}), topics={})
    behind = structs.replace(flow().entry, next_offset=40)
    assert epoch(clusters=away, entry=structs.replace(behind, next_offset=39)).silent == {"eu"}
    assert epoch(clusters=away, entry=behind) == EpochPlan({}, {}, ())
    at_central = FlowAtCentral(FLOW, structs.replace(LIVE, unread=(IncarnationRange(0, OffsetRange(0, 30)),)))
    found = epoch(clusters=away, at_central=at_central, entry=structs.replace(behind, next_offset=30))
    assert (found.silent, found.lost) == (frozenset(), {FLOW: (OffsetRange(30, 40),)})


def test_letters_are_resolved_where_they_are_the_hubs_own():
    """Into a live topic; those of a generation say nothing of the live flow."""
    at_central = FlowAtCentral(FLOW, LIVE, letters=frozenset({(0, 3), (4, 5)}))
    assert flow(at_central=at_central).unresolved_offsets == {3}
    config = target_config(CONFIG, Mode.INTO, "v2")
    part = replace(PART, central="eu.orders.v2")
    into = Plan("h", {}, "d", Mode.INTO, "v2", (part,))
    assert flow(into, replace(SCENE, config=config), at_central).unresolved_offsets == frozenset()


def passed(_source, _backfill):
    """A ledger that is behind every record."""
    return LedgerRecord(9, "id", 0, 1, 0)


def test_a_restate_asks_for_what_somebody_had_delivered_by_its_letter():
    """It resolves nothing. Letters that have no resolution, or were suppressed, or are of another life, ask nothing."""
    told = [encode_resolution(FLOW, offset, at, "aa", outcome, central=central) for offset, at, outcome, central in (
        (3, 0, DELIVERED, "eu.orders"), (4, 0, SUPPRESSED, "eu.orders"), (5, 1, DELIVERED, "eu.orders"),
        (6, 0, DELIVERED, "eu.orders.v2"),
    )]  # fmt: skip
    records = [(at, key.encode(), value) for at, (key, value) in enumerate(told)]
    letters = [*LetterLog(records, "h.dead-letters").letters(passed, passed)]
    letters.append(replace(letters[0], offset=7, resolved_by="", outcome=""))
    known = delivered(letters)
    assert known == {FLOW: {(0, 3), (1, 5), (0, 6)}}
    at_central = FlowAtCentral(FLOW, LIVE, letters=frozenset({(0, 7)}), delivered=known[FLOW])
    restate = flow(replace(PLAN, mode=Mode.RESTATE), at_central=at_central)
    assert (restate.unresolved_offsets, restate.replayed_offsets) == (frozenset(), {3, 6})
    assert restate.segments == (IncarnationRange(0, OffsetRange(0, 7)), IncarnationRange(0, OffsetRange(8, 40)))
    replay = flow(at_central=at_central)
    assert (replay.unresolved_offsets, replay.replayed_offsets) == ({7}, {7})


@pytest.mark.parametrize("topics", [{}, {("eu", "orders"): replace(TOPIC, topic_id="id-2")}])
def test_a_topic_of_another_life_is_lost_and_not_read(topics):
    """What the plan wanted of it is named, behind what was written."""
    entry = LedgerRecord(0, "id-1", 25, 3, 0)
    found = epoch(clusters=replace(SCENE, topics=topics), entry=entry)
    assert (found.by_slot, found.lost) == ({}, {FLOW: (OffsetRange(25, 40),)})


def test_silent_edges_and_refused_flows_wait():
    """Neither is lost: the one has said nothing, the other needs another policy."""
    silent = epoch(clusters=replace(SCENE, silent=frozenset({"eu"}), topics={}))
    assert (silent.by_slot, silent.lost, silent.holds) == ({}, {}, ())
    hidden = epoch(clusters=replace(SCENE, topics={}, unanswered={("eu", "orders"): "no broker leads partition 0"}))
    assert ([hold.reason for hold in hidden.holds], hidden.lost, hidden.by_slot) == (["discovery"], {}, {})
    held = epoch(clusters=replace(SCENE, refused={("eu", "orders"): "drops its keys"}))
    assert ([hold.reason for hold in held.holds], held.by_slot) == (["policy"], {})


def test_a_restate_does_not_write_into_a_topic_that_forgets():
    """Compaction would take the rows and notices that it brings before the table has them; what is written stays."""
    plan = replace(PLAN, mode=Mode.RESTATE)
    forgetful = replace(SCENE, settings={"eu.orders": {"cleanup.policy": "compact,delete"}})
    found = epoch(plan, forgetful)
    assert not found.by_slot
    ((source, why),) = [(one.source, one.detail) for one in found.holds]
    assert (source, "eu.orders is compacted" in why, "cleanup.policy=delete" in why) == (FLOW, True, True)
    assert not epoch(plan, forgetful, entry=structs.replace(flow().entry, next_offset=40)).holds
    assert epoch(plan).by_slot


def test_a_rule_that_sends_the_topic_elsewhere_ends_a_backfill():
    """Its plan names the topic that it writes."""
    rule = CONFIG.topics[0].model_copy(update={"central": "new.{topic}"})
    with pytest.raises(FatalError, match=r"to eu\.orders, and the configuration sends it to new\.orders"):
        epoch(clusters=replace(SCENE, config=CONFIG.model_copy(update={"topics": (rule,)})))


def test_a_generation_has_names_of_its_own_and_no_live_one():
    """Topic and table; a name that a rule writes already is refused."""
    config = CONFIG.model_copy(update={"topics": (CONFIG.topics[0].model_copy(update={"lake": "{topic}"}),)})
    into = target_config(config, Mode.INTO, "v2").topics[0]
    assert (into.central, into.lake) == ("{edge}.{topic}.v2", "{topic}_v2")
    restate = target_config(config, Mode.RESTATE, "restate-1").topics[0]
    assert (restate.central, restate.lake) == ("{edge}.{topic}.restate-1", "{topic}")
    whole = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert whole.items() <= restate.central_config.items()
    beats = EdgePartition("eu", "heartbeats", 0)
    names = written(config, target_config(config, Mode.INTO, "v2"), [FLOW, beats])
    assert names == {"eu.orders", "eu.orders.v2", "eu.heartbeats"}
    for taken in ("eu.orders", "h.ledger", "h.backfill.control"):
        with pytest.raises(FatalError, match="written by the hub itself"):
            refuse_live(config, [FLOW], [taken], replay=False)


def test_no_generation_is_made_in_a_topic_that_a_former_rule_named():
    """The live flow has written there, and the hub does not know any more what."""
    noted = [Target("eu", "orders", "eu.orders"), Target("eu", "orders", "eu.orders.v2")]
    refuse_former(noted, [], ["eu.orders.v3"])
    late, into = backfill(Mode.MISSING, "eu.orders.v3").plan, backfill(Mode.INTO, "eu.orders.v3").plan
    refuse_former(noted, [into], ["eu.orders.v3"])
    for plans, name in (([], "eu.orders.v2"), ([late], "eu.orders.v3")):
        with pytest.raises(FatalError, match=f"{name} may have been written by the hub itself, as a former rule said"):
            refuse_former(noted, plans, [name])


def backfill(mode=Mode.MISSING, central="eu.orders", upto=25, **changes) -> Backfill:
    part = replace(PART, central=central)
    entries = {
        FLOW: LedgerRecord(0, "id-1", upto, 3, 0, delivered=20, unread=(IncarnationRange(0, OffsetRange(10, 12)),))
    }
    return Backfill(Plan("h", {}, "d", mode, "", (part,)), Signed("ada", 1), entries=entries, **changes)


def test_what_a_backfill_has_passed_is_what_it_wrote_or_decided():
    """Below its position, in its plan, less what the edge had lost: that may be offered again."""
    one = backfill()
    assert one.passed(PART) == (OffsetRange(0, 10), OffsetRange(12, 25))
    assert one.lost(PART) == (OffsetRange(10, 12),)
    assert (one.behind, one.offsets) == (25, 40)
    assert one.passed(replace(PART, topic_id="id-2")) == ()


@pytest.mark.parametrize(
    ("mode", "central", "counts"),
    [
        (Mode.MISSING, "eu.orders", True),
        (Mode.MISSING, "old.orders", True),
        (Mode.INTO, "eu.orders", True),
        (Mode.INTO, "eu.orders.v2", False),
    ],
)
def test_what_speaks_against_writing_it_again(mode, central, counts):
    """The same topic, however it came there; and what came to a live topic is not missing, whatever that was called."""
    assert bool(passed_by([backfill(mode, central)], Mode.MISSING, PART)) is counts
    generated = generated_by([backfill(mode, central)], Mode.MISSING, PART)
    assert bool(generated) is (mode is Mode.INTO and counts), "what a rule's topic has from the generation that it was"
    assert generated_by([backfill(mode, central)], Mode.INTO, PART) == ()


def test_the_state_of_a_backfill_follows_from_its_records():
    """Nobody keeps it anywhere."""
    assert backfill().state is BackfillState.UNFINISHED
    assert backfill(running=True).state is BackfillState.RUNNING
    assert backfill(cancelled=Signed("bob", 2)).state is BackfillState.CANCELLED
    assert backfill(cancelled=Signed("bob", 2), end=End(3)).state is BackfillState.FINISHED
    assert json.loads(json.dumps(backfill(end=End(3, {"f": ((1, 2),)})).plain()))["lost"] == {"f": [[1, 2]]}


def test_backfills_share_a_ledger_and_not_their_positions():
    """A flow of each has a key of its own; a live reader of the key would refuse it."""
    record = LedgerRecord(0, "id-1", 5, 1, 0)
    log = [
        LogRecord(0, offset, flow_key(FLOW, id_), structs.replace(record, next_offset=offset).encode())
        for offset, id_ in enumerate(["aa", "bb", "aa"])
    ]
    told = KnownBackfills()
    for some in (log[:1], log[1:]):
        told.take_positions(some, "h.backfill.ledger")
    assert {id_: entries[FLOW].next_offset for id_, entries in told.entries.items()} == {"aa": 2, "bb": 1}
    assert flow_key(FLOW) == str(FLOW)


def test_a_damaged_position_takes_none_of_another_flow_with_it():
    """Whoever follows a log is told once, and each record of it comes once."""

    def log(id_, partition, value):
        flow = FLOW._replace(partition=partition)
        return LogRecord(0, 0, flow_key(flow, id_), value or LedgerRecord(0, "id-1", 5, 1, 0).encode())

    told = KnownBackfills()
    records = [log("aa", 0, b"?"), log("aa", 1, None), log("bb", 0, None), LogRecord(0, 1, "no/flow/cc", b"?")]
    with pytest.raises(FatalError, match="the ledger record of eu/orders/0/aa is damaged"):
        told.take_positions(records, "h.backfill.ledger")
    assert {(id_, flow.partition) for id_, entries in told.entries.items() for flow in entries} == {
        ("aa", 1),
        ("bb", 0),
    }


def test_what_a_backfill_has_written_is_not_forgotten_with_its_plan():
    """A tombstone, or another plan under its key, would have its records planned once more."""
    plan = backfill().plan
    body = {"v": 1, "plan": plan.plain(), "rate": None, "by": "ada", "at_ms": 1}
    key, value = f"backfill/{plan.id}", json.dumps(body).encode()
    position = LogRecord(0, 0, flow_key(FLOW, plan.id), LedgerRecord(0, "id-1", 5, 1, 0).encode())

    def known(*requests):
        told = KnownBackfills()
        told.take_positions([position], "h.backfill.ledger")
        told.take_requests(requests, "h.backfill.requests")
        told.require_plans("h.backfill.requests")
        return told

    assert known(LogRecord(0, 0, key, b"?"), LogRecord(0, 1, key, value)).plans.keys() == {plan.id}
    for tombstone in ([], [LogRecord(0, 1, key, None)]):
        with pytest.raises(
            FatalError, match=f"lacks the plan of backfill {plan.id}, which has written records of {FLOW}"
        ):
            known(*tombstone)
    for damaged in (b"?", json.dumps(body | {"plan": replace(plan, round=7).plain()}).encode()):
        with pytest.raises(FatalError, match=f"offset 3: the request {key} is damaged") as error:
            known(LogRecord(0, 3, key, damaged))
        assert "a tombstone does not replace it" in error.value.hint


def test_a_restate_has_the_policies_under_which_it_began():
    """Two processes that begin it at once say so both, and the first word holds; a damaged record is named."""
    known = KnownBackfills({"aa": (backfill().plan, Signed("ada", 1), None)})
    said = [LogRecord(0, at, "policies/aa", json.dumps({"eu/orders": text}).encode()) for at, text in enumerate("12")]
    known.take_requests(said, "h.backfill.requests")
    assert known.backfills()["aa"].policies == {"eu/orders": "1"}
    with pytest.raises(FatalError, match="offset 7: the request policies/aa is damaged"):
        known.take_requests([LogRecord(0, 7, "policies/aa", b"[1]")], "h.backfill.requests")
    for mended in (None, b"{}"):
        both = [LogRecord(0, 7, "policies/aa", b"[1]"), LogRecord(0, 8, "policies/aa", mended)]
        known.take_requests(both, "h.backfill.requests")


def test_a_resolution_has_its_letters_key():
    """So that the last word about a letter holds, compacted or not."""
    key, _ = encode_resolution(FLOW, 12, 0, "aa", "delivered")
    assert key == f"{FLOW}/12/0"
    assert is_key(key)
    assert not is_key("eu/orders/0/12")


PARTS = st.lists(
    st.builds(lambda at, start, length: IncarnationRange(at, OffsetRange(start, start + length)),
              st.integers(0, 3), st.integers(0, 100), st.integers(1, 9)), max_size=4,
)  # fmt: skip


@given(PARTS)
def test_a_ledger_record_keeps_what_was_never_read(parts):
    """It survives the record's text; a record without any reads as before."""
    record = structs.replace(LIVE, unread=tuple(parts))
    text = record.encode()
    assert decode(LogRecord(0, 0, str(FLOW), text), "h.ledger") == record
    assert (b"unread" in text) is bool(parts)


def test_parts_that_touch_are_one_and_of_many_the_oldest_are_forgotten():
    """A list in every ledger record stays short; what it forgets is not offered to a backfill."""
    once = with_unread((), IncarnationRange(0, OffsetRange(0, 5)))
    assert with_unread(once, IncarnationRange(0, OffsetRange(5, 9))) == (IncarnationRange(0, OffsetRange(0, 9)),)
    assert len(with_unread(once, IncarnationRange(1, OffsetRange(5, 9)))) == 2
    assert with_unread(once, None) == once
    many: tuple[IncarnationRange, ...] = ()
    for number in range(200):
        many = with_unread(many, IncarnationRange(0, OffsetRange(10 * number, 10 * number + 1)))
    assert (len(many), many[-1]) == (100, IncarnationRange(0, OffsetRange(1990, 1991)))


def test_what_the_sample_says():
    """Density and size on average; timestamps that go back, or records behind the end that are older than it."""
    found = summarize([[(5, 10)], [(6, 30)]], 4)
    assert (found.density, found.record_bytes, found.disordered, found.oldest_ms) == (0.5, 20.0, False, 5)
    assert summarize([[(6, 1), (5, 1)]], 2).disordered
    assert summarize([[(6, 1)], [(5, 1)]], 2).disordered
    assert summarize([[(6, 1)]], 1, disordered=True).disordered
    assert summarize([], 0).density == 1.0
