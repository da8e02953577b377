"""The audit on real brokers and a real table: OK where all is explained, and a seeded fault of each kind is found."""

import json
import shutil
import socket
from datetime import UTC, datetime, timedelta

import fastavro
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake

from aggregator.cli.main import main
from tests.epochs import Epochs
from tests.trial import ORDER, settle, wait_for

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
    trial.drain_here()
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


def test_what_the_lake_lacks_is_named_and_never_called_ok(trial):
    """A partition that a schema holds, another that is whole; then rows, row groups, copies and the table itself go."""
    narrow = json.loads(json.dumps(ORDER))
    narrow["fields"][3]["type"] = "float"
    subject = trial.folder / "schemas" / f"{trial.topic}-value"
    (subject / "1-7.avsc").write_text(json.dumps(narrow))
    (subject / "2-8.avsc").write_text(json.dumps(ORDER))
    trial.schema = fastavro.parse_schema(narrow)
    trial.produce("eu", 60)
    trial.produce("us", 30)
    trial.drain_here()
    assert {flow["verdict"] for flow in audit(trial, expect=0)["flows"]} == {"ok"}
    wide = fastavro.parse_schema(json.loads(json.dumps(ORDER)))
    trial.produce_raw("eu", [(b"w", trial.value(1000 + n, 8, wide), 1) for n in range(7)])
    trial.produce("eu", 30)
    trial.drain_here(expect=4)

    answer = audit(trial, expect=4)
    told = flow_of(answer, "eu", 1)
    assert (told["verdict"], told["parts"]) == (
        "not compared",
        {"edge": "equal", "central": "equal", "lake": "not compared"},
    )
    (omitted,) = told["not_compared"]
    assert (omitted["kind"], omitted["records"], omitted["final"]) == ("schema", 17, False)
    assert omitted["offsets"] == [[20, 37]]
    assert "amount is float in the table and double in the schema" in omitted["reason"]
    assert {one["verdict"] for one in answer["flows"] if one is not told} == {"ok"}
    text = CliRunner().invoke(main, ["audit", "--config", str(trial.config), "--edge", "eu"]).stdout
    assert f"NOT COMPARED: eu/{trial.topic}/1 in the lake: offsets 20-36 (17 records): table {trial.topic}" in text
    assert text.endswith("NOT OK\n")
    assert audit(trial, "--edge", "us", expect=0)["not_compared"] == []

    path = trial.folder / "lake" / trial.topic
    table = DeltaTable(str(path)).to_pyarrow_table()
    there = pyarrow.compute.is_in(table["_offset"], pa.array([3, 4])).to_pylist()
    is_us = pyarrow.compute.equal(table["_edge"], "us").to_pylist()
    left = table.filter(pa.array([not (mine and gone) for mine, gone in zip(is_us, there, strict=True)]))
    write_deltalake(str(path), left, mode="overwrite")
    write_deltalake(str(path), left.slice(left.num_rows - 1), mode="append")
    found = findings(audit(trial, expect=5))
    assert {one[:4] + one[4:] for one in found if one[2] == "missing"} == {
        ("us", partition, "missing", "lake", (3, 5)) for partition in range(3)
    }
    (doubled,) = [one for one in found if one[2] == "doubled"]
    assert doubled[3] == "lake"

    drop_row_group(path)
    lost = [one for one in findings(audit(trial, expect=5)) if one[2:4] == ("missing", "lake")]
    assert len(lost) > 3
    shutil.rmtree(path)
    answer = audit(trial, expect=4)
    assert {one["kind"] for flow in answer["flows"] for one in flow["not_compared"]} == {"no_table"}
    assert sum(one["records"] for flow in answer["flows"] for one in flow["not_compared"]) == 60 + 30 + 7 + 30


def drop_row_group(path) -> None:
    """One file of the newest version without the first half of its rows, under its own name."""
    name = max(DeltaTable(str(path)).file_uris(), key=lambda uri: pq.read_metadata(uri).num_rows)
    rows = pq.read_table(name)
    pq.write_table(rows, name, row_group_size=max(1, rows.num_rows // 2))
    groups = pq.ParquetFile(name)
    kept = [groups.read_row_group(number) for number in range(1, groups.num_row_groups)]
    groups.close()
    pq.write_table(pa.concat_tables(kept), name)


@pytest.mark.whole
def test_the_tables_of_a_hub_that_runs_are_waited_for(trial):
    """A healthy hub's table is a commit behind: without a word the audit waits for it, and asked not to, says so."""
    trial.settings["lake"]["commit_interval"] = "10s"
    trial.write()
    trial.produce("eu", 200)
    with trial.running():
        wait_for(lambda: trial.lake_version() and len(trial.lake()) == 200, timeout=90, what="the first rows")
        trial.produce("eu", 50)
        wait_for(lambda: trial.central_count("eu") == 250, timeout=60, what="the next records at central")
        behind = audit(trial, "--wait", "1ms", expect=4)
        assert {one["kind"] for flow in behind["flows"] for one in flow["not_compared"]} == {"behind"}
        answer = audit(trial, expect=0)
        trial.produce("us", 40)
        told = waited(trial, expect=0)
        assert (len(trial.lake()), told["version"] <= trial.lake_version()) == (290, True)
        later = str(datetime.now(UTC) + timedelta(hours=1))
        assert "is to come" in waited(trial, "--until", later, "--timeout", "1ms", expect=4)
    trial.produce("eu", 6)
    assert waited(trial, "--until", "P1D", expect=0)["version"] == trial.lake_version(), "nothing is so old"
    lacks = waited(trial, "--timeout", "1ms", expect=4)
    assert f"eu/{trial.topic}/0 stands at 84 of 86" in lacks
    assert sum(flow["at_central"]["records"] for flow in answer["flows"]) == 250


def waited(trial, *arguments: str, expect: int):
    """What `lake wait` for the trial's table says: JSON, or why it gave up."""
    done = CliRunner().invoke(
        main, ["lake", "wait", trial.topic, "-o", "json", "--config", str(trial.config), *arguments]
    )
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout) if expect == 0 else done.output


def test_what_nobody_looked_at_is_no_ok(trial):
    """No such flow, a partition without a position, an edge away, an end not reached, no rule, no lake."""
    trial.produce("eu", 9)
    trial.drain_here()
    assert audit(trial, expect=0)["not_compared"] == []
    trial.widen("eu", 4)
    trial.produce_raw("eu", [(b"k", trial.value(1), 3)] * 2)
    told = flow_of(audit(trial, expect=4), "eu", 3)
    assert (told["not_yet"], told["verdict"], told["not_compared"][0]["kind"]) == (2, "not compared", "not_begun")
    trial.drain_here()
    (nothing,) = audit(trial, "--partition", "7", expect=4)["not_compared"]
    assert nothing["kind"] == "nothing"

    trial.produce("eu", 3)
    answer = audit(trial, "--edge", "eu", expect=0)
    assert {one["kind"] for flow in answer["flows"] for one in flow["not_compared"]} == {"not_read"}
    later = str(datetime.now(UTC) + timedelta(hours=1))
    for flow in audit(trial, "--edge", "eu", "--to", later, expect=4)["flows"][:3]:
        assert [(one["kind"], one["offsets"]) for one in flow["not_compared"]] == [("not_read", [[3, 4]])]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{nobody.getsockname()[1]}"
        trial.settings["edges"]["ap"] = {"bootstrap_servers": where, "schemas": "directory:schemas"}
        trial.write()
        (away,) = audit(trial, expect=4)["not_compared"]
    assert (away["about"], away["kind"]) == ("edge ap", "unreachable")
    del trial.settings["edges"]["ap"], trial.settings["topics"][0]["lake"]
    trial.write()
    answer = audit(trial, "--edge", "us", expect=0)
    assert {flow["parts"]["lake"] for flow in answer["flows"]} == {"not compared"}
    trial.settings["topics"][0]["match"] = "others"
    trial.write()
    answer = audit(trial, expect=4)
    assert {one["kind"] for flow in answer["flows"] for one in flow["not_compared"]} == {"not_wanted"}


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
