"""Backfills on real brokers: what is missing comes, once; nothing that is there comes again."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from aggregator.backfill.ask import Bound, Mode
from aggregator.backfill.starting import revived
from aggregator.cli.main import main
from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition, OffsetRange, Position
from aggregator.kafka.gap import Decision, Gap, GapKind
from aggregator.kafka.names import HubNames
from aggregator.kafka.requests import submit
from aggregator.lake.driver import LakeDriver
from tests.epochs import Epochs
from tests.late import Late, LocalSpark
from tests.trial import wait_for

pytestmark = pytest.mark.brokers


def deliver(epochs):
    """One live epoch on one slot, here, to its end."""
    (plan,) = epochs.plans()
    return epochs.run(plan)


def late_origins(trial, edge: str = "eu") -> list[tuple[int, int]]:
    """(partition, offset) of every central record that a backfill wrote."""
    found = []
    for message in trial.central_records(edge):
        headers = dict(message.headers())
        if "hub.backfill" in headers:
            origin = headers["hub.origin"].decode().split("/")
            found.append((int(origin[3]), int(origin[4])))
    return sorted(found)


def answer(trial, *words: str, expect: int = 0):
    """What a command says, as JSON."""
    done = CliRunner().invoke(main, [*words, "-o", "json", "--config", str(trial.config)])
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout)


def once(trial, edge: str, numbers) -> None:
    """I1: these numbers are at central, once each."""
    assert sorted(trial.numbers(edge)) == sorted(numbers)


def accept(trial, partition: int, start: int, end: int) -> None:
    """Somebody lets a flow that stands at `start` go on at `end`."""
    hub = load_config(trial.config, {})
    source, lost = EdgePartition("eu", trial.topic, partition), Gap(GapKind.TRUNCATED, start, end, 1)
    submit(hub.central, HubNames(hub.hub), [Decision(source, Position(0, start), lost, "ada@desk", 1, "known")])


def test_a_gap_that_came_back_and_a_letter_that_can_be_read_now(trial):
    """What the flow went on without, and what died of a missing schema, come once; audit is green."""
    epochs, late = Epochs(trial), Late(trial)
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
    audit = answer(trial, "audit", "--topic", trial.topic)
    assert {flow["verdict"] for flow in audit["flows"]} == {"ok"}
    assert [f["explained"]["dead_letters"] for f in audit["flows"] if f["edge"] == "eu"] == [1, 0, 0]
    epochs.close()


def test_what_lies_before_the_start_comes_once(new_trial):
    """Two plans of one window, made before either ran: the second writes only what the first did not."""
    trial = new_trial(start="latest")
    epochs, late = Epochs(trial), Late(trial)
    trial.produce("eu", 60)
    deliver(epochs)
    trial.produce("eu", 30)
    deliver(epochs)
    told = answer(trial, "backfill", "plan", "--edge", "eu", "--topic", trial.topic)
    assert [(one["write"], one["already_there"]) for one in told["partitions"]] == [([[0, 0, 20]], 10)] * 3
    narrow, wide = late.plan(partition=1), late.plan()
    again = late.start(narrow)
    assert late.start(late.plan(partition=1)).plan.id == again.plan.id == narrow.id, "two people, one backfill"
    whole = late.start(wide)
    for one in (again, whole, again):  # a scheduler runs it twice
        assert late.carry(one).finished
    once(trial, "eu", range(90))
    assert late_origins(trial) == [(p, o) for p in range(3) for o in range(20)]
    assert late.plan().writes == ()
    done = {one["id"]: one for one in answer(trial, "backfill", "list")}
    assert {
        id_: (one["state"], one["offsets"], one["offsets_done"], one["delivered"]) for id_, one in done.items()
    } == {
        narrow.id: ("finished", 20, 20, 20),
        wide.id: ("finished", 60, 60, 40),
    }
    epochs.close()


def test_a_generation_is_made_beside_the_original(trial):
    """`--into`: all that the hub has passed, once, under the present policy; more comes with the next run."""
    epochs, late = Epochs(trial), Late(trial)
    trial.produce("eu", 30)
    deliver(epochs)
    trial.produce("eu", 30)
    for count in (30, 30, 60):
        if count == 60:
            deliver(epochs)
        plan = late.plan(into="v2", mode=Mode.INTO)
        if plan.writes:
            assert late.carry(late.start(plan)).finished
        copies = trial.central_records("eu", f"eu.{trial.topic}.v2")
        assert len({dict(m.headers())["hub.origin"] for m in copies}) == len(copies) == count
    once(trial, "eu", range(60))
    assert answer(trial, "audit", "--edge", "eu", "--topic", trial.topic)["ok"]
    refused = CliRunner().invoke(main, ["backfill", "plan", "--into", "../v2", "--config", str(trial.config)])
    assert refused.exit_code == 1
    epochs.close()


def test_what_an_edge_loses_meanwhile_is_said(new_trial):
    """Retention that overtakes a plan, and a topic that is created again: what is lost is named, no more."""
    trial = new_trial(start="latest")
    epochs, late = Epochs(trial), Late(trial)
    trial.produce("eu", 60)
    deliver(epochs)
    first, second = late.plan(partition=0), late.plan(partition=1)
    trial.cut("eu", 0, 15)
    outcome = late.carry(late.start(first))
    assert outcome.finished
    assert outcome.lost == {EdgePartition("eu", trial.topic, 0): (OffsetRange(0, 15),)}
    once(trial, "eu", [number for number in range(45, 60) if number % 3 == 0])
    told = answer(trial, "backfill", "plan", "--edge", "eu", "--topic", trial.topic, "--partition", "0")
    assert [(one["retention_took"], one["write"]) for one in told["partitions"]] == [([[0, 15]], [])]
    trial.delete("eu")
    wait_for(lambda: trial.topic not in trial.admin("eu").list_topics(timeout=10).topics, timeout=20, what="its end")
    trial.create("eu")
    trial.produce("eu", 60)
    outcome = late.carry(late.start(second))
    assert outcome.lost == {EdgePartition("eu", trial.topic, 1): (OffsetRange(0, 20),)}
    assert late_origins(trial) == [(0, offset) for offset in range(15, 20)]
    epochs.close()


def test_a_backfill_is_held_to_its_rate_cancelled_and_resumed(new_trial):
    """`--rate` bounds it, `cancel` ends it within a second, `resume` goes on behind what it wrote."""
    trial = new_trial(start="latest")
    epochs, late = Epochs(trial), Late(trial)
    trial.produce("eu", 300)
    deliver(epochs)
    started = late.start(late.plan(), rate=60)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(late.carry, started)
        wait_for(lambda: late.known()[started.plan.id].behind > 60, timeout=30, what="its first records")
        assert (
            CliRunner().invoke(main, ["backfill", "cancel", started.plan.id, "--config", str(trial.config)]).exit_code
            == 0
        )
        outcome = running.result(10)
    assert outcome.cancelled
    assert not outcome.finished
    had = len(trial.central_records("eu"))
    assert 60 < had < 240
    (told,) = answer(trial, "backfill", "list")
    assert (told["state"], told["offsets_done"]) == ("cancelled", had)
    resumed = revived(late.config, late.known()[started.plan.id])
    assert late.carry(replace(resumed, rate=None)).finished
    once(trial, "eu", range(300))
    epochs.close()


def test_a_restate_replaces_rows_in_one_commit(trial):
    """`--restate`: exactly those rows under the present policy, one commit that says so; the topic stays."""
    epochs, late = Epochs(trial), Late(trial)
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
