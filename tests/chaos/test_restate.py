"""Fault 22, restates: rows replaced under a changed policy while the hub commits to the table, whatever its kind."""

import json
import time
from collections.abc import Iterable

import pytest
from confluent_kafka import TopicPartition
from deltalake import DeltaTable

from tests.chaos.backfilling import audited, backfill, check, listed, rows
from tests.chaos.deaths import die
from tests.trial import read_all, settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
HAS_AMOUNT = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "amount"}}
ONES = ("--edge", "eu", "--partition", "0", "--to", "1000")


class Changed:
    """The policy of a trial, as it is changed and changed back."""

    def __init__(self, trial):
        self.path = trial.folder / "policy.yaml"
        self.before = self.path.read_text()

    def to(self, operator: str, *, out: Iterable[int] = (), key: str = "keep") -> None:
        """`amount` passes an operator from now on; a hub that runs goes on with what it has read.

        Args:
            operator: Of the amount.
            out: Numbers of orders that stay at the edge.
            key: Operator of the record key.
        """
        text = self.before.replace("amount: keep", f"amount: {operator}").replace("key: keep", f"key: {key}")
        rule = f"    drop_record:\n      - {{field: id, in: {list(out)}}}\n" if out else ""
        self.path.write_text(text.replace("    fields:", f"{rule}    fields:"))

    def back(self) -> None:
        self.path.write_text(self.before)


def restated(trial) -> list[str]:
    """Backfills that commits of the table speak of."""
    history = DeltaTable(str(trial.folder / "lake" / trial.topic)).history()
    return sorted(one["hub.restate"] for one in history if "hub.restate" in one)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_restate_beside_lake_commits(new_trial, form):
    """`--restate` under a changed policy while the hub commits to the table: each row once, the old ones restated."""
    trial = new_trial()
    trial.settings["lake"] |= {"format": form, "commit_interval": "1s"}
    trial.write()
    trial.produce("eu", 3000)
    trial.drain()
    policy = Changed(trial)
    with trial.running() as hub, trial.traffic("eu", "us") as produced:
        wait_for(lambda: trial.central_count("us") > 100, timeout=60, what="live traffic, under the policy of before")
        policy.to("{nullify: {}}")
        for _ in range(2):
            backfill(trial, "run", "--yes", "--restate", *ONES)
        assert hub.poll() is None
    policy.back()
    trial.drain()
    check(trial, "eu", range(3000 + produced["eu"]))
    found = rows(trial, trial.topic, "_edge, _partition, _offset, amount")
    assert {row[:3] for row in found if row[3] is None} == {("eu", 0, offset) for offset in range(1000)}
    if form == "delta":
        assert restated(trial) == sorted(one["id"] for one in listed(trial))
    audited(trial)


@pytest.fixture
def guarded(new_trial):
    """A hub whose table has a current state, and a rule that sends rows with an amount of nought to the quarantine."""
    trial = new_trial()
    rule = {"type": "expect_column_values_to_not_be_in_set", "kwargs": {"column": "amount", "value_set": [0.0]}}
    (trial.folder / "suite.json").write_text(json.dumps({"name": "orders", "expectations": [rule]}))
    settings = {"quality": [{"suite": "suite.json", "on_failure": "divert"}], "current_state": True}
    trial.settings["lake"] |= {"tables": {trial.topic: settings}}
    trial.write()
    trial.produce("eu", 3000)
    trial.drain()
    return trial


def check_rounded(trial) -> None:
    """What a restate of ONES to thousands must leave behind.

    An amount is 3/4 of its offset here: thousands of what is over 500, and nought of the rest, which the rule refuses;
    offset 0 failed it before, and lies in the quarantine as it came.
    """
    came = {
        name: sorted(row[:2] for row in rows(trial, name, "_offset, amount, _central_topic") if ".restate-" in row[2])
        for name in (trial.topic, f"{trial.topic}__quarantine")
    }
    assert came == {
        trial.topic: [(offset, 1000.0) for offset in range(667, 1000)],
        f"{trial.topic}__quarantine": [(offset, 0.0) for offset in range(1, 667)],
    }
    assert restated(trial)
    assert state(trial) == latest(trial), "the state lags behind the table"


def test_a_restate_passes_the_gate_and_renews_the_current_state(guarded):
    """Beside a hub that commits: what fails a rule under the new policy goes into the quarantine, the rest stays."""
    trial, policy = guarded, Changed(guarded)
    with trial.running() as hub, trial.traffic("eu", "us", pause_s=0.5) as produced:
        wait_for(lambda: trial.central_count("us") > 100, timeout=60, what="live traffic, under the policy of before")
        policy.to("{round: {digits: -3}}")
        for _ in range(2):
            backfill(trial, "run", "--yes", "--restate", *ONES)
        assert hub.poll() is None
    policy.back()
    trial.drain()
    check(trial, "eu", range(3000 + produced["eu"]), trial.topic, f"{trial.topic}__quarantine")
    check_rounded(trial)
    audited(trial)


def test_a_restate_is_killed_behind_each_of_its_commits_and_goes_on(guarded):
    """Quarantine, table, current state: whoever starts the same again does what is left, and nothing twice."""
    trial, policy = guarded, Changed(guarded)
    policy.to("{round: {digits: -3}}")
    words = ("backfill", "run", "--yes", "--restate", *ONES)
    for _ in range(3):
        die(trial, "committed", *words)
    (one,) = listed(trial)
    assert one["state"] == "unfinished"
    backfill(trial, *words[1:])
    (one,) = listed(trial)
    assert one["state"] == "finished"
    check(trial, "eu", range(3000), trial.topic, f"{trial.topic}__quarantine")
    check_rounded(trial)
    assert len(restated(trial)) == 1
    audited(trial)


@pytest.mark.parametrize(("step", "left"), [("audited", 0), ("committed", 20)])
def test_what_a_restate_took_out_is_explained_though_it_was_cancelled(new_trial, step, left):
    """It dies before its commit, or behind it, and is cancelled: an audit says of the table what the table has."""
    trial = new_trial()
    trial.produce("eu", 3000)
    trial.drain()
    Changed(trial).to("keep", out=range(60))
    die(trial, step, "backfill", "run", "--yes", "--restate", *ONES)
    (one,) = listed(trial)
    backfill(trial, "cancel", one["id"])
    done = trial.run("audit", "--topic", trial.topic, "--edge", "eu", "-o", "json")
    assert done.returncode == 0, done.stdout
    flows = json.loads(done.stdout)["flows"]
    assert [flow["explained"]["taken_out_by_restates"] for flow in flows] == [left, 0, 0]
    told = [[found["backfill"] for found in flow["restates"]] for flow in flows]
    assert told == ([[one["id"]], [], []] if left else [[], [], []])


def state(trial) -> list[tuple]:
    """The table of current states."""
    return sorted(rows(trial, f"{trial.topic}__current", "_edge, _partition, _key, _offset, amount"))


def latest(trial) -> list[tuple]:
    """The latest row of each key, worked out from the table."""
    newest = {}
    for row in sorted(rows(trial, trial.topic, "_edge, _partition, _key, _offset, amount"), key=lambda row: row[3]):
        newest[row[:3]] = row
    return sorted(newest.values())


def holding(trial):
    """300 orders in a table that holds whatever has no amount."""
    (trial.folder / "suite.json").write_text(json.dumps({"name": "orders", "expectations": [HAS_AMOUNT]}))
    trial.settings["lake"] |= {"tables": {trial.topic: {"quality": [{"suite": "suite.json", "on_failure": "hold"}]}}}
    trial.write()
    trial.produce("eu", 300)
    trial.drain()
    return trial


def test_a_restate_that_fails_a_holding_rule_changes_nothing(new_trial):
    """It ends with 4 and names the rule, the table stays; under another policy it begins anew and does not go on."""
    trial = holding(new_trial())
    before = sorted(trial.lake("_partition, _offset, amount"))
    policy, words = Changed(trial), ("run", "--yes", "--restate", "--edge", "eu")
    policy.to("{nullify: {}}")
    held = trial.run("backfill", *words)
    assert held.returncode == 4, held.stderr[-2000:]
    assert "expect_column_values_to_not_be_null" in held.stderr
    assert sorted(trial.lake("_partition, _offset, amount")) == before
    policy.to("{round: {digits: 0}}")
    mixed = trial.run("backfill", *words)
    assert mixed.returncode == 1, mixed.stderr[-2000:]
    assert "rows of two policies" in mixed.stderr
    (one,) = listed(trial)
    backfill(trial, "cancel", one["id"])
    backfill(trial, *words)
    assert [one["state"] for one in listed(trial)] == ["cancelled", "finished"]
    check(trial, "eu", range(300))
    assert sorted(trial.lake("_partition, _offset, amount")) == [(p, o, float(round(a))) for p, o, a in before]
    audited(trial)


def at_edge(trial, edge: str) -> set[tuple[int, int]]:
    """Partition and offset of the records that an edge has."""
    found = read_all(trial.sandbox.edges[edge].bootstrap, trial.topic)
    return {(message.partition(), message.offset()) for message in found}


def compacted(trial, edge: str, less: int) -> set[tuple[int, int]]:
    """Let an edge's log be compacted to less records than these, and then no more; what it has."""
    quick = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    for name, value in quick.items():
        trial.configure(edge, trial.topic, name, value)

    def fewer() -> bool:
        trial.produce_raw(edge, [(b"tick", trial.value(0), p) for p in range(3)])
        return len(at_edge(trial, edge)) < less

    wait_for(fewer, timeout=120, what="a compaction")
    trial.configure(edge, trial.topic, "cleanup.policy", "delete")
    time.sleep(20)  # the cleaner may be at work still
    return at_edge(trial, edge)


def test_a_restate_keeps_what_only_the_table_has(new_trial):
    """Rows whose records the edge compacted away stay; of the others, those that the policy leaves out go."""
    trial = new_trial()
    trial.produce("eu", 300)
    trial.drain()
    had = {row[:2]: row[2] for row in trial.lake("_partition, _offset, amount")}
    there = compacted(trial, "eu", 200)
    policy = Changed(trial)
    policy.to("{nullify: {}}", out=range(150), key="{pseudonymize: {key: customer, domain: customer}}")
    keys = {row[:2]: bytes(row[2]) for row in trial.lake("_partition, _offset, _key")}
    backfill(trial, "run", "--yes", "--restate", "--edge", "eu", "--to", "100")
    now = {row[:2]: row[2] for row in trial.lake("_partition, _offset, amount")}
    left = {at for at in had if at not in there}
    assert left
    gone = {at for at in had if at in there and had[at] * 4 < 150}
    assert now == {at: amount if at in left else None for at, amount in had.items() if at not in gone}
    images = {(keys[row[:2]], bytes(row[2])) for row in trial.lake("_partition, _offset, _key")}
    assert len(images) == len(dict(images)) == 13, "a key became two, or stayed for some of its rows"
    assert not dict(images).keys() & dict(images).values(), "a row under its former key"


def test_what_a_restate_read_decides_and_not_what_the_edge_has_by_now(new_trial):
    """Records go between its reading and its commit: those of its own topic stop it, those of the edge do nothing."""
    trial = holding(new_trial())
    before = sorted(trial.lake("_partition, _offset, amount"))
    policy, words = Changed(trial), ("backfill", "run", "--yes", "--restate", "--edge", "eu")
    policy.to("{nullify: {}}", out=range(150))
    assert trial.run(*words).returncode == 4
    (one,) = listed(trial)
    assert (one["delivered"], one["suppressed"]) == (150, 150)
    own = f"eu.{trial.topic}.{one['into']}"
    settle(trial.admin("central").delete_records([TopicPartition(own, partition, -1) for partition in range(3)]))
    short = trial.run("backfill", "resume", one["id"])
    assert short.returncode == 1, short.stderr[-2000:]
    assert "its topics tell of 0 and 0" in short.stderr
    backfill(trial, "cancel", one["id"])
    assert trial.run(*words).returncode == 4
    assert sorted(trial.lake("_partition, _offset, amount")) == before
    for partition in range(3):
        trial.cut("eu", partition, 100)
    mended = json.dumps({"name": "orders", "expectations": [HAS_AMOUNT | {"kwargs": {"column": "id"}}]})
    (trial.folder / "suite.json").write_text(mended)
    (_, one) = listed(trial)
    backfill(trial, "resume", one["id"])
    assert sorted(trial.lake("_partition, _offset, amount")) == [(p, o, None) for p, o, a in before if a * 4 >= 150]
    audited(trial)
