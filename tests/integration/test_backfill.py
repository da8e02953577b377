"""Backfills on real brokers: what is missing comes, once; nothing that is there comes again."""

import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from deltalake import DeltaTable

from aggregator.backfill import driver as driver_module
from aggregator.backfill.backfill_state import BackfillState
from aggregator.backfill.live_flows import LiveFlows
from aggregator.backfill.monitor import BackfillWatch
from aggregator.backfill.plan_builder import make_plan
from aggregator.backfill.request import Ask, Bound, Letters, Mode, Window
from aggregator.backfill.settlement import backfills_central
from aggregator.backfill.submission import revived
from aggregator.cli.main import main
from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.errors import FatalError
from aggregator.lake.driver import LakeDriver
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.state.control import Lease
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.names import HubNames
from aggregator.state.pauses import Pause
from aggregator.state.request_log import submit
from tests.epochs import Epochs
from tests.local_spark import LocalSpark
from tests.threaded_backfills import ThreadedBackfills
from tests.trial import Trial, wait_for

pytestmark = pytest.mark.brokers


def deliver(epochs):
    """One live epoch on one slot, here, to its end."""
    (plan,) = epochs.plans()
    return epochs.run(plan)


def late_origins(trial, *, edge: str = "eu", partition: int | None = None) -> list[int]:
    """Offset of every central record that a backfill wrote."""
    found = []
    for message in trial.central_records(edge):
        headers = dict(message.headers())
        origin = headers["hub.origin"].decode().split("/")
        if "hub.backfill" in headers and partition in (None, int(origin[3])):
            found.append(int(origin[4]))
    return sorted(found)


def answer(trial, *words: str, expect: int = 0):
    """What a command says, as JSON."""
    done = CliRunner().invoke(main, [*words, "-o", "json", "--config", str(trial.config)])
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout)


def explained_at_central(trial, *words: str) -> dict:
    """An audit of a hub whose lake never ran: edge and central agree, and the table is all that was not compared."""
    audit = answer(trial, "audit", *words, expect=4)
    assert {(flow["parts"]["edge"], flow["parts"]["central"]) for flow in audit["flows"]} == {("equal", "equal")}
    assert {one["kind"] for flow in audit["flows"] for one in flow["not_compared"]} == {"no_table"}
    assert not any(flow["findings"] for flow in audit["flows"])
    return audit


def once(trial, edge: str, numbers) -> None:
    """I1: these numbers are at central, once each."""
    assert sorted(trial.numbers(edge)) == sorted(numbers)


def accept(trial, partition: int, start: int, end: int) -> None:
    """Somebody lets a flow that stands at `start` go on at `end`."""
    hub = load_config(trial.config, {})
    source, lost = EdgePartition("eu", trial.topic, partition), Gap(GapKind.EXPIRED, start, end, 1)
    submit(hub.central, HubNames(hub.hub), [GapDecision(source, Position(0, start), lost, "ada@desk", 1, "known")])


def test_a_gap_that_came_back_and_a_letter_that_can_be_read_now(trial):
    """What the flow went on without, and what died of a missing schema, come once; audit is green."""
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    trial.produce("eu", 30)
    deliver(epochs)
    early = [(b"k", trial.value(1000 + number, schema_id=8), 0) for number in range(3)]
    trial.produce("eu", 30)
    trial.produce_raw("eu", [*early, (b"k", b"poison", 0)])
    accept(trial, 1, 10, 15)
    deliver(epochs)
    assert [one["reason"] for one in trial.letters()] == ["unknown_schema"] * 3 + ["wrong_magic"]
    told = answer(trial, "backfill", "plan", "--topic", trial.topic)
    assert {one["partition"]: one["write"] for one in told["partitions"] if one["edge"] == "eu"} == {
        0: [[0, 20, 24]],
        1: [[0, 10, 15]],
        2: [],
    }
    assert [one["letters"] for one in told["partitions"] if one["edge"] == "eu"] == [4, 0, 0]

    schemas = trial.folder / "schemas" / f"{trial.topic}-value"
    (schemas / "2-8.avsc").write_text((schemas / "1-7.avsc").read_text())
    for _ in range(2):
        assert late.run().finished
        once(trial, "eu", [*range(60), 1000, 1001, 1002])
    assert [one["letter"] for one in answer(trial, "dlq", "list")] == [f"eu/{trial.topic}/0/23/0"]
    resolved = [one["state"] for one in answer(trial, "dlq", "list", "--all")]
    assert resolved == ["delivered"] * 3 + ["dead"]
    assert answer(trial, "dlq", "show", f"eu/{trial.topic}/0/23")["at_edge"] == "yes"
    audit = explained_at_central(trial, "--topic", trial.topic)
    assert [f["explained"]["dead_letters"] for f in audit["flows"] if f["edge"] == "eu"] == [1, 0, 0]
    epochs.close()


def test_letters_that_the_hub_did_not_write_have_nothing_delivered_twice(trial):
    """One of a record that central has, by somebody else: refused in a plan, and in one that was made before."""
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    trial.produce("eu", 9)
    trial.produce_raw("eu", [(b"k", b"poison", 0)])
    deliver(epochs)
    honest = late.start(late.plan(letters=Letters()))
    (letter,) = trial.letters()
    central = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    forged = json.dumps(letter | {"offset": 1})
    central.produce(f"{trial.hub}.dead-letters", forged, f"eu/{trial.topic}/0/1/0", partition=0)
    assert central.flush(30) == 0
    numbers = "has 2 dead letters, where the ledger counts 1"
    told = f"eu/{trial.topic}/0 {numbers}"
    refused = trial.typed("dlq", "replay", "--yes")
    assert refused.exit_code == 1
    assert told in refused.output
    with pytest.raises(FatalError, match=told):
        late.carry(honest)
    (part, *_) = answer(trial, "backfill", "plan", "--topic", trial.topic, "--edge", "eu")["partitions"]
    assert (part["write"], part["warnings"]) == ([], [f"its dead letters are not believed: it {numbers}"])
    assert numbers in answer(trial, "dlq", "show", f"eu/{trial.topic}/0/3")["at_edge"]
    # A record that the ledger does not count yet hides no forged letter: it lies behind the position.
    central.produce(
        f"{trial.hub}.dead-letters", json.dumps(letter | {"offset": 9}), f"eu/{trial.topic}/0/9/0", partition=0
    )
    assert central.flush(30) == 0
    assert trial.typed("dlq", "replay", "--yes").output.count(told) == 1
    once(trial, "eu", range(9))
    epochs.close()


def test_a_resolution_that_the_hub_did_not_write_hides_no_letter(trial, caplog):
    """Of a backfill that never was, or never came so far: `dlq` shows the letter, and a replay delivers its record."""
    epochs = Epochs(trial)
    trial.produce_raw("eu", [(b"k", b"poison", 0)])
    deliver(epochs)
    (letter,) = trial.letters()
    where = {"v": 1, **{name: letter[name] for name in ("edge", "topic", "partition", "offset", "incarnation")}}
    forged = json.dumps(where | {"resolved_by": "0" * 16, "outcome": "delivered", "central": letter["central"]})
    central = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    central.produce(f"{trial.hub}.dead-letters", forged, f"eu/{trial.topic}/0/0/0", partition=0)
    assert central.flush(30) == 0
    listed = trial.typed("dlq", "list")
    assert "1 record passed over, not proven by the ledger" in caplog.text
    assert f"eu/{trial.topic}/0/0" in listed.output
    late = ThreadedBackfills(trial)
    plan = late.plan(letters=Letters())
    assert ([one.letters for one in plan.partitions], plan.gone) == ([1], ()), "a replay reads it again"
    # A letter behind the flow's position, as a hub writes one after the plan has read the ledger.
    newer = json.dumps(letter | {"offset": 1})
    central.produce(f"{trial.hub}.dead-letters", newer, f"eu/{trial.topic}/0/1/0", partition=0)
    assert central.flush(30) == 0
    plan = late.plan(letters=Letters())
    assert ([one.letters for one in plan.partitions], plan.gone) == ([1], ()), "the next plan takes it"
    epochs.close()


def test_forged_records_that_name_a_backfill_of_the_hub(trial, caplog):
    """One that it has not come to is passed over, and one more than it wrote is refused by name."""
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    trial.produce_raw("eu", [(b"k", trial.value(7, schema_id=8), 0), (b"k", b"poison", 0)])
    trial.produce("eu", 3)
    deliver(epochs)
    schemas = trial.folder / "schemas" / f"{trial.topic}-value"
    (schemas / "2-8.avsc").write_text((schemas / "1-7.avsc").read_text())
    replay = late.plan(letters=Letters())
    assert late.carry(late.start(replay)).finished
    central = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    body = {"v": 1, "edge": "eu", "topic": trial.topic, "partition": 0, "incarnation": 0}

    def forge(offset: int, **further) -> None:
        value, key = json.dumps(body | {"offset": offset} | further), f"eu/{trial.topic}/0/{offset}/0"
        central.produce(f"{trial.hub}.dead-letters", value, key, partition=0)
        assert central.flush(30) == 0

    for offset in (0, 2):  # the one was replayed, the other never died
        forge(offset, reason="wrong_magic", backfill="0" * 16)
    forge(2, reason="wrong_magic", backfill=replay.id)
    listed = trial.typed("dlq", "list", "--all", "-o", "json")
    assert [(one["letter"], one["state"]) for one in json.loads(listed.output)] == [
        (f"eu/{trial.topic}/0/0/0", "delivered"),
        (f"eu/{trial.topic}/0/1/0", "dead"),
    ]
    assert "3 records passed over, not proven by the ledger" in caplog.text
    plan = late.plan(letters=Letters())
    assert [one.segments for one in plan.writes] == [(IncarnationRange(0, OffsetRange(1, 2)),)]
    once(trial, "eu", [7, *range(3)])

    central.produce(f"{trial.hub}.dead-letters", b'{"v":2}', "any", partition=0)
    assert central.flush(30) == 0
    assert trial.typed("dlq", "list").exit_code == 0, "what is of no record of the hub ends nothing"
    forge(1, resolved_by=replay.id, outcome="delivered")
    caplog.clear()
    assert trial.typed("dlq", "list").exit_code == 0
    assert f"dead letters of 1 flow are in doubt: eu/{trial.topic}/0 has 2 resolved dead letters" in caplog.text
    told = f"eu/{trial.topic}/0 has 2 resolved dead letters, where the ledger counts 1"
    refused = trial.typed("dlq", "replay", "--yes")
    assert (refused.exit_code, told in refused.output) == (1, True), refused.output
    epochs.close()


@pytest.fixture(scope="module")
def late(clusters, tmp_path_factory):
    """A hub that began late: on each partition of both edges lie a hundred records before its start and ten behind.

    Each test takes partitions of its own.
    """
    trial = Trial(clusters, tmp_path_factory.mktemp("late"), start="latest")
    epochs = Epochs(trial)
    for edge in clusters.edges:
        trial.create(edge)
    for count in (300, 30):
        for edge in clusters.edges:
            trial.produce(edge, count)
        deliver(epochs)
    yield ThreadedBackfills(trial)
    epochs.close()
    trial.close()


def test_what_lies_before_the_start_comes_once(late):
    """Two plans of one window, made before either ran: the second writes only what the first did not."""
    trial, one = late.trial, ("--edge", "eu", "--topic", late.trial.topic, "--partition", "2")
    told = answer(trial, "backfill", "plan", *one)
    assert [(one["write"], one["already_there"]) for one in told["partitions"]] == [([[0, 0, 100]], 10)]
    narrow, wide = (late.plan(partition=2, window=window) for window in ({"until": Bound("20", offset=20)}, {}))
    again = late.start(narrow)
    same = late.start(late.plan(partition=2, window={"until": Bound("20", offset=20)}))
    assert same.plan.id == again.plan.id == narrow.id, "two people, one backfill"
    whole = late.start(wide)
    for some in (again, whole, again):  # a scheduler runs it twice
        assert late.carry(some).finished
    assert late_origins(trial, partition=2) == list(range(100))
    assert sorted(offset for at, _, offset in trial.origins("eu") if at == 2) == list(range(110))
    assert late.plan(partition=2).writes == ()
    known = {one["id"]: one for one in answer(trial, "backfill", "list")}
    columns = ("state", "offsets", "offsets_done", "delivered")
    assert [tuple(known[id_][name] for name in columns) for id_ in (narrow.id, wide.id)] == [
        ("finished", 20, 20, 20),
        ("finished", 100, 100, 80),
    ]


def test_a_generation_is_made_beside_the_original(trial):
    """`--into`: all that the hub has passed, once; more comes with the next run, and what died there by a replay."""
    epochs, late, topic, seconds = Epochs(trial), ThreadedBackfills(trial), f"eu.{trial.topic}.v2", itertools.count(1.0)
    into = {"into": "v2", "mode": Mode.INTO}
    trial.create("central", topic=topic, max_message_bytes="500")
    trial.produce("eu", 30)
    trial.produce_raw("eu", [(b"k" * 400, trial.value(500), 0)])
    live = LiveFlows(late.config)
    assert live.poll(0.0) is None
    deliver(epochs)
    trial.produce("eu", 30)
    waiting = wait_for(lambda: live.poll(next(seconds)).behind, timeout=10, what="a look at flows that moved")
    assert 0 < waiting <= 30, "a backfill sees what the live flows have before them"
    live.close()

    def copies(count: int) -> None:
        found = [dict(message.headers())["hub.origin"] for message in trial.central_records("eu", topic)]
        assert len(set(found)) == len(found) == count

    assert late.run(**into).finished
    copies(30)
    assert late.plan(**into).writes == (), "the rest is the live flow's, and not behind it yet"
    deliver(epochs)
    assert late.run(**into).finished
    copies(60)
    assert [(one["letter"], one["reason"]) for one in answer(trial, "dlq", "list", "--into", "v2")] == [
        (f"eu/{trial.topic}/0/10/0", "too_large")
    ]
    trial.configure("central", topic, "max.message.bytes", "1000")
    for writes in (1, 0):
        plan = late.plan(letters=Letters(), **into)
        assert len(plan.writes) == writes
        if writes:
            assert late.carry(late.start(plan)).finished
        copies(61)
    assert answer(trial, "dlq", "list", "--into", "v2") == answer(trial, "dlq", "list") == []
    once(trial, "eu", [*range(60), 500])
    explained_at_central(trial, "--edge", "eu", "--topic", trial.topic)
    refused = CliRunner().invoke(main, ["backfill", "plan", "--into", "../v2", "--config", str(trial.config)])
    assert refused.exit_code == 1
    epochs.close()


def test_what_an_edge_loses_meanwhile_is_said(late):
    """Retention that overtakes a plan, and a topic that is created again: what is lost is named, no more."""
    trial = late.trial
    first, second = late.plan(partition=0), late.plan(edge="us", partition=1)
    trial.cut("eu", 0, 95)
    outcome = late.carry(late.start(first))
    assert outcome.finished
    assert outcome.lost == {EdgePartition("eu", trial.topic, 0): (OffsetRange(0, 95),)}
    assert late_origins(trial, partition=0) == list(range(95, 100))
    told = answer(trial, "backfill", "plan", "--edge", "eu", "--topic", trial.topic, "--partition", "0")
    assert [(one["retention_took"], one["write"]) for one in told["partitions"]] == [([[0, 95]], [])]
    trial.delete("us")
    wait_for(lambda: trial.topic not in trial.admin("us").list_topics(timeout=10).topics, timeout=20, what="its end")
    trial.create("us")
    trial.produce("us", 60)
    outcome = late.carry(late.start(second))
    assert outcome.lost == {EdgePartition("us", trial.topic, 1): (OffsetRange(0, 100),)}
    assert late_origins(trial, edge="us") == []


def test_a_backfill_is_held_to_its_rate_cancelled_and_resumed(late):
    """`--rate` bounds it, `cancel` ends it in a second, `resume` goes on behind what it wrote; a watch sees it."""
    trial, watch = late.trial, BackfillWatch(late.config)
    started = late.start(late.plan(partition=1), rate=10)
    seen = []

    def look():
        seen.append({one.id: one for one in watch.poll(time.monotonic())}.get(started.plan.id))
        return seen[-1] is not None and seen[-1].done > 20 and seen[-1].state is BackfillState.RUNNING

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(late.carry, started)
        wait_for(look, timeout=30, what="its first records, and a lease that moves")
        done = CliRunner().invoke(main, ["backfill", "cancel", started.plan.id, "--config", str(trial.config)])
        assert done.exit_code == 0
        outcome = running.result(10)
    assert outcome.cancelled
    assert not outcome.finished
    had = late_origins(trial, partition=1)
    assert 20 < len(had) < 80
    (told,) = (one for one in answer(trial, "backfill", "list") if one["id"] == started.plan.id)
    assert (told["state"], told["offsets_done"]) == ("cancelled", len(had))
    resumed = revived(late.config, late.known()[started.plan.id])
    assert late.carry(replace(resumed, rate=None)).finished
    assert late_origins(trial, partition=1) == list(range(100))
    last = {one.id: one for one in watch.poll(time.monotonic())}[started.plan.id]
    assert (last.state, last.asked, last.done, last.delivered) == (BackfillState.FINISHED, 100, 100, 100)
    assert 0 < seen[-1].per_s < 60
    watch.close()


def test_who_is_overtaken_waits_for_the_other_one(new_trial, monkeypatch, caplog):
    """Two that begin at one moment both find the lease free: the second fences the first, which then waits."""
    trial, rivals = new_trial(start="latest"), []
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    for count in (30, 3):
        trial.produce("eu", count)
        deliver(epochs)
    epochs.close()
    plan = late.plan()

    class Overtaken(LeaseRenewal):
        def start(self, threads):
            if not rivals:
                rival = backfills_central(late.config, plan.id)
                rivals.append(rival)
                rival.take_id()
                rival.publish(Lease("a rival", 1))
                rival.publish(Lease("a rival", 2, released=True))
                rival.close()
            super().start(threads)

    monkeypatch.setattr(driver_module, "LeaseRenewal", Overtaken)
    assert late.carry(late.start(plan)).finished
    assert len(rivals) == 1
    assert "another hub took over (a rival); it waits until that one has ended" in caplog.text
    once(trial, "eu", range(33))


@pytest.mark.whole
def test_a_paused_edge_is_not_read_and_nothing_is_finished_without_it(new_trial):
    """Paused when the epoch opened and resumed meanwhile: it is read. Paused meanwhile: its records wait, by name."""
    trial = new_trial(start="latest")
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    for count in (60, 6):
        for edge in ("eu", "us"):
            trial.produce(edge, count)
        deliver(epochs)
    epochs.close()

    def say(*, paused: bool) -> None:
        submit(late.config.central, HubNames(trial.hub), [Pause("eu", paused, "ada@desk", 1, "moving the cluster")])

    windows = tuple(Window(edge, trial.topic, partition) for edge, partition in (("eu", 0), ("us", 0)))
    both = make_plan(late.config, Ask(windows), now_ms=int(time.time() * 1000))
    say(paused=True)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(late.carry, late.start(both, rate=5))
        wait_for(lambda: late_origins(trial, edge="us"), timeout=60, what="the other edge's first records")
        say(paused=False)
        outcome = running.result(90)
    assert (outcome.finished, outcome.silent) == (True, {})
    assert late_origins(trial) == late_origins(trial, edge="us") == list(range(20))

    with ThreadPoolExecutor(1) as pool:
        started = late.start(late.plan(partition=1), rate=2)
        running = pool.submit(late.carry, started)
        wait_for(lambda: late_origins(trial, partition=1), timeout=60, what="its first records")
        say(paused=True)
        outcome = running.result(60)
    assert (outcome.finished, outcome.silent) == (False, {"eu": ""})
    assert 0 < len(late_origins(trial, partition=1)) < 20
    say(paused=False)
    assert late.carry(replace(started, rate=None)).finished
    assert late_origins(trial, partition=1) == list(range(20))


def test_a_restate_replaces_rows_in_one_commit(trial):
    """`--restate`: exactly those rows under the present policy, one commit that says so; the topic stays."""
    epochs, late = Epochs(trial), ThreadedBackfills(trial)
    trial.produce("eu", 60)
    trial.produce("us", 6)
    deliver(epochs)
    lake = LakeDriver(late.config, LocalSpark(), HubNames(trial.hub))
    lake.drain()
    policy = trial.folder / "policy.yaml"
    policy.write_text(
        policy.read_text()
        .replace("      amount: keep\n", "      amount: {nullify: {}}\n")
        .replace("    key: keep\n", "    key: keep\n    drop_record: [{field: id, equals: 3}]\n")
    )
    late.load()
    before = trial.lake_version()
    window = {"since": Bound("0", offset=0), "until": Bound("10", offset=10)}
    plan = late.plan(mode=Mode.RESTATE, window=window)
    trial.cut("eu", 2, 3)
    outcome = late.carry(late.start(plan))
    assert outcome.lost == {EdgePartition("eu", trial.topic, 2): (OffsetRange(0, 3),)}
    rows = trial.lake("_edge, _partition, _offset, amount")
    places = {(edge, partition, offset) for edge, partition, offset, _ in rows}
    assert len(places) == len(rows) == 65
    assert ("eu", 0, 1) not in places, "order 3 must not be there under the present policy"
    assert {row[:3] for row in rows if row[3] is None} == {
        ("eu", partition, offset)
        for partition in range(3)
        for offset in range(10)
        if (partition, offset) not in {(0, 1), (2, 0), (2, 1), (2, 2)}
    }, "what the edge has no more stays as it was"
    assert trial.lake_version() == before + 1
    note = DeltaTable(str(trial.folder / "lake" / trial.topic)).history(1)[0]
    assert json.loads(note["hub.restate.ranges"])[f"eu/{trial.topic}/2"] == [[0, 3, 10]]
    assert "trial 1 " in note["hub.restate.policy"]
    once(trial, "eu", range(60))
    audit = answer(trial, "audit", "--edge", "eu", "--topic", trial.topic)
    assert [f["explained"]["taken_out_by_restates"] for f in audit["flows"]] == [1, 0, 0]
    assert all(f["restates"] for f in audit["flows"])
    epochs.close()
