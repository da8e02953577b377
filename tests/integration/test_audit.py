"""The audit on real brokers and a real table: OK where all is explained, and a seeded fault of each kind is found."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake

from aggregator.cli.main import main
from tests.epochs import Epochs
from tests.trial import settle

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

EARLY_MS, LATE_MS = 1_700_000_000_000, 1_700_100_000_000


def audit(trial, *arguments: str, expect: int) -> dict:
    """The audit's answer."""
    at = ["--config", str(trial.config), "--topic", trial.topic]
    done = CliRunner().invoke(main, ["audit", "-o", "json", *at, *arguments])
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout)


def flow_of(answer: dict, edge: str, partition: int) -> dict:
    (found,) = [one for one in answer["flows"] if (one["edge"], one["partition"]) == (edge, partition)]
    return found


def findings(answer: dict) -> list[tuple]:
    return sorted(
        (flow["edge"], flow["partition"], found["kind"], found["place"], *map(tuple, found["offsets"]))
        for flow in answer["flows"]
        for found in flow["findings"]
    )


def test_everything_is_explained_and_every_seeded_fault_is_found(trial):
    """I1, I2, I6: markers, aborted records, dead letters, an accepted gap and a moving end are no fault; losses are."""
    epochs = Epochs(trial)
    trial.produce("eu", 30, timestamp_ms=EARLY_MS)
    shop_with_transactions(trial)
    assert epochs.run(*epochs.plans()).result == "drained"
    trial.produce("eu", 30, timestamp_ms=LATE_MS)
    trial.produce_raw("eu", [(b"p", b"poison", 1)] * 2, timestamp_ms=LATE_MS)
    trial.produce("us", 9)
    trial.cut("eu", 0, 15)
    assert [hold.reason for hold in epochs.run(*epochs.plans()).holds] == ["gap"]
    epochs.close()
    open_gap = audit(trial, expect=5)
    assert findings(open_gap) == [("eu", 0, "missing", "edge", (10, 15))]
    at = ["--config", str(trial.config), "--edge", "eu", "--topic", trial.topic]
    assert CliRunner().invoke(main, ["gaps", "accept", *at, "--reason", "known", "--yes"]).exit_code == 0
    trial.drain()
    trial.produce("us", 3)

    answer = audit(trial, expect=0)
    assert findings(answer) == []
    told = {(one["edge"], one["partition"]): one for one in answer["flows"]}
    assert {flow["verdict"] for flow in told.values()} == {"ok"}
    assert [gap["state"] for gap in told["eu", 0]["gaps"]] == ["accepted"]
    assert (told["eu", 0]["from"], told["eu", 0]["to"]) == (15, 20)
    assert told["eu", 1]["explained"]["dead_letters"] == 2
    assert (told["eu", 2]["to"], told["eu", 2]["at_edge"]["records"]) == (32, 25), "markers and aborted records"
    assert {told["us", p]["not_yet"] for p in range(3)} == {1}
    for flow in told.values():
        assert flow["at_edge"]["hash"] == flow["at_central"]["hash"] == flow["in_lake"]["hash"]
    late = audit(trial, "--edge", "eu", "--from", str(datetime.fromtimestamp(LATE_MS / 1000, UTC)), expect=0)
    assert flow_of(late, "eu", 1)["at_edge"]["records"] == 12

    seed_lake(trial)
    seed_central(trial)
    assert findings(audit(trial, "--edge", "us", expect=0)) == [], "the other edge is not touched"
    answer = audit(trial, "--edge", "eu", expect=5)
    assert findings(answer) == [
        ("eu", 0, "missing", "central", (15, 17)),
        ("eu", 1, "doubled", "central", (4, 5)),
        ("eu", 1, "doubled", "lake", (3, 4)),
        ("eu", 1, "missing", "lake", (5, 7)),
        ("eu", 1, "unexplained", "central", (999_999, 1_000_000)),
        ("eu", 1, "unexplained", "lake", (777_777, 777_778)),
    ]
    (stranger,) = answer["strangers"]
    assert (stranger["topic"], stranger["partition"]) == (f"eu.{trial.topic}", 1)
    assert stranger["offsets"][0][1] - stranger["offsets"][0][0] == 2
    text = CliRunner().invoke(main, ["audit", "--config", str(trial.config), "--edge", "eu"])
    assert f"missing: eu/{trial.topic}/0 at central, incarnation 0: offsets 15-16 (2 records)" in text.stdout
    assert text.stdout.endswith("NOT OK\n")


def shop_with_transactions(trial) -> None:
    """Offsets 10 to 21 of partition 2: five records and a marker twice, the second time aborted."""
    shop = Producer({"bootstrap.servers": trial.sandbox.edges["eu"].bootstrap, "transactional.id": f"s-{trial.mark}"})
    shop.init_transactions(20)
    for ended in (shop.commit_transaction, shop.abort_transaction):
        shop.begin_transaction()
        for number in range(5):
            shop.produce(trial.topic, trial.value(number), partition=2, timestamp=EARLY_MS)
        shop.flush(20)
        ended(20)
    shop.close()


def seed_lake(trial) -> None:
    """Rows 5 and 6 of eu/1 are deleted, row 3 is doubled, and one comes from nowhere."""
    path = str(trial.folder / "lake" / trial.topic)
    table = DeltaTable(path)
    here = pyarrow.compute.field("_edge") == "eu"
    here &= pyarrow.compute.field("_partition") == 1
    rows = table.to_pyarrow_dataset().to_table(filter=here & (pyarrow.compute.field("_offset") == 3))
    assert len(rows) == 1
    place = rows.schema.get_field_index("_offset")
    nowhere = rows.set_column(place, rows.schema.field(place), pa.array([777_777], pa.int64()))
    table.delete("_edge = 'eu' and _partition = 1 and _offset in (5, 6)")
    write_deltalake(path, pa.concat_tables([rows, nowhere]), mode="append")


def seed_central(trial) -> None:
    """A second copy of eu/1/4, an origin that never was, two records of strangers; and eu/0/15 and 16 are deleted."""
    topic = f"eu.{trial.topic}"
    copies = trial.central_records("eu")
    twin = next(m for m in copies if dict(m.headers())["hub.origin"].split(b"/")[3:5] == [b"1", b"4"])
    intruder = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    origins = [dict(twin.headers())["hub.origin"], f"{trial.hub}/eu/{trial.topic}/1/999999/0".encode()]
    for origin in (*origins, f"{trial.hub}/eu/{trial.topic}/2/1/0".encode(), b"rubbish"):
        intruder.produce(topic, twin.value(), twin.key(), 1, headers=[("hub.origin", origin)])
    assert intruder.flush(20) == 0
    at = {int(dict(m.headers())["hub.origin"].split(b"/")[4]): m.offset() for m in copies if m.partition() == 0}
    settle(trial.admin("central").delete_records([TopicPartition(topic, 0, at[17])]))
