"""Fault 22: backfills as a user runs them, beside live traffic and the lake, killed, run twice, at a limited rate."""

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.processes import environment, kill_all
from tests.trial import seeded, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def running(trial, *words: str):
    """A command as a process group of its own, killed at the end."""
    with (trial.folder / f"command-{time.monotonic_ns()}.log").open("w") as log:
        process = subprocess.Popen(
            trial.command(*words), stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
        process.log = Path(log.name)
        try:
            yield process
        finally:
            kill_all(process)


def backfill(trial, *words: str, expect: int = 0) -> str:
    done = trial.run("backfill", *words, timeout=400)
    assert done.returncode == expect, done.stderr[-3000:]
    return done.stdout


def listed(trial) -> list[dict]:
    return json.loads(backfill(trial, "list", "-o", "json"))


def check(trial, edge: str, produced: int) -> None:
    """I1, I2, I3, I4: every number once at central, the same rows in the lake, the live records in order."""
    numbers = Counter(trial.numbers(edge))
    assert [n for n, times in numbers.items() if times > 1] == [], "duplicates at central"
    assert set(numbers) == set(range(produced)), "lost or invented at central"
    origins, live = Counter(), {}
    for message in trial.central_records(edge):
        headers = dict(message.headers())
        _, _, _, partition, offset, incarnation = headers["hub.origin"].decode().split("/")
        origins[int(partition), int(incarnation), int(offset)] += 1
        if "hub.backfill" not in headers:
            live.setdefault(partition, []).append((int(incarnation), int(offset)))
    assert all(offsets == sorted(offsets) for offsets in live.values()), "reordered"
    assert Counter(row[1:] for row in trial.lake() if row[0] == edge) == origins, "lake and central differ"


def audited(trial) -> None:
    """I6: everything is explained."""
    done = trial.run("audit", "--topic", trial.topic)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def late(new_trial):
    """A hub that began late: three thousand orders lie before the start of every flow of `eu`, none of `us`."""
    trial = new_trial(start="latest")
    trial.produce("eu", 3000)
    trial.drain()
    return trial


def test_it_runs_beside_live_traffic_and_the_lake_and_twice(late):
    """Two people start the same one while the hub runs: what is missing comes once, live order and audit hold."""
    with late.running() as hub, late.traffic("eu", "us") as produced:
        wait_for(lambda: late.central_count("eu") > 100, timeout=60, what="live traffic")
        words = ("backfill", "run", "--yes", "--edge", "eu", "--topic", late.topic)
        with running(late, *words) as one, running(late, *words) as two:
            assert one.wait(200) == 0, one.log.read_text()[-3000:]
            assert two.wait(200) == 0, two.log.read_text()[-3000:]
        assert hub.poll() is None
    (only,) = listed(late)
    assert (only["state"], only["delivered"]) == ("finished", 3000)
    late.drain()
    check(late, "eu", 3000 + produced["eu"])
    assert "nothing to write" in late.run("backfill", "plan", "--topic", late.topic).stdout
    audited(late)


def test_it_is_killed_in_each_phase_and_goes_on(late):
    """Killed at its start, while it writes, and at its end: whoever starts the same again goes on; nothing is twice."""
    draw = seeded()
    words = ("run", "--yes", "--edge", "eu", "--topic", late.topic, "--rate", "400")
    moments = [0, *sorted(draw.sample(range(100, 2900), 3)), 2999]
    for moment in moments:
        with running(late, "backfill", *words) as process:
            if moment:
                wait_for(lambda m=moment: done(late) >= m or process.poll() == 0, timeout=120, what=f"{moment} records")
            else:
                time.sleep(draw.uniform(2, 8))
    (one,) = listed(late)
    backfill(late, "resume", one["id"][:6])
    backfill(late, *words)
    (one,) = listed(late)
    assert (one["state"], one["offsets_done"], one["delivered"]) == ("finished", 3000, 3000)
    late.drain()
    check(late, "eu", 3000)
    audited(late)


def done(trial) -> int:
    """Records that a backfill has brought; plain central counts, cheap enough to be asked often."""
    return trial.ends(f"eu.{trial.topic}")


def test_a_changed_policy_makes_a_generation_with_its_table(late):
    """`--into`, interrupted and resumed while the hub runs: topic and table under the present policy, each row once."""
    late.produce("eu", 300)
    late.drain()
    policy = late.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("      amount: keep\n", ""))
    words = ("run", "--yes", "--edge", "eu", "--into", "v2", "--rate", "500")
    with running(late, "backfill", *words):
        wait_for(lambda: late.ends(f"eu.{late.topic}.v2") > 200, timeout=120, what="the first copies")
    backfill(late, *words)
    copies = late.central_records("eu", f"eu.{late.topic}.v2")
    assert len({dict(m.headers())["hub.origin"] for m in copies}) == len(copies) == 3300
    topic = late.topic
    late.topic = f"{topic}_v2"
    rows = late.lake("_partition, _offset")
    assert len(set(rows)) == len(rows) == 3300
    table = DeltaTable(str(late.folder / "lake" / late.topic))
    assert "amount" not in {field.name for field in table.schema().fields}
    late.topic = topic
    check_live(late)


def check_live(trial) -> None:
    """The original stays: 300 live orders, and none of the old ones."""
    assert sorted(trial.numbers("eu")) == list(range(3000, 3300))


def test_a_restate_beside_lake_commits(new_trial):
    """`--restate` under a changed policy while the hub commits to the table: each row once, the old ones restated."""
    trial = new_trial()
    trial.produce("eu", 3000)
    trial.drain()
    with trial.running() as hub, trial.traffic("eu", "us") as produced:
        wait_for(lambda: trial.central_count("us") > 100, timeout=60, what="live traffic, under the policy of before")
        policy = trial.folder / "policy.yaml"
        before = policy.read_text()
        policy.write_text(before.replace("amount: keep", "amount: {nullify: {}}"))
        words = ("run", "--yes", "--restate", "--edge", "eu", "--partition", "0", "--to", "1000")
        backfill(trial, *words)
        backfill(trial, *words)
        assert hub.poll() is None
    policy.write_text(before)
    trial.drain()
    check(trial, "eu", 3000 + produced["eu"])
    rows = trial.lake("_edge, _partition, _offset, amount")
    assert {row[:3] for row in rows if row[3] is None} == {("eu", 0, offset) for offset in range(1000)}
    commits = [one["hub.restate"] for one in DeltaTable(str(trial.folder / "lake" / trial.topic)).history()
               if "hub.restate" in one]  # fmt: skip
    assert sorted(commits) == sorted(one["id"] for one in listed(trial))
    audited(trial)


def test_letters_are_replayed_by_the_command(late):
    """`dlq replay`: what died of a missing schema arrives once, its letter is resolved, once."""
    late.produce_raw("eu", [(b"k", late.value(9000 + n, schema_id=8), n % 3) for n in range(30)])
    late.drain()
    assert len(late.letters()) == 30
    schemas = late.folder / "schemas" / f"{late.topic}-value"
    (schemas / "2-8.avsc").write_text((schemas / "1-7.avsc").read_text())
    for _ in range(2):
        replayed = late.run("dlq", "replay", "--reason", "unknown_schema", "--yes")
        assert replayed.returncode == 0, replayed.stderr
    assert sorted(late.numbers("eu")) == list(range(9000, 9030))
    assert json.loads(late.run("dlq", "list", "-o", "json").stdout) == []
    late.drain()
    audited(late)


def test_a_scheduler_runs_its_plan_file_twice(late):
    """jobs/backfill.py: what was planned and nothing else, exit code 0 both times."""
    plan = late.folder / "plan.json"
    plan.write_text(backfill(late, "plan", "--edge", "eu", "--partition", "1", "-o", "json"))
    for _ in range(2):
        words = [sys.executable, str(ROOT / "jobs/backfill.py"), "--config", str(late.config), "--plan", str(plan)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=200, env=environment(), check=False)
        assert ran.returncode == 0, ran.stderr
    assert sorted(late.numbers("eu")) == [n for n in range(3000) if n % 3 == 1]


def test_a_million_records_at_a_limited_rate_leave_the_live_flow_its_share(new_trial):
    """Live throughput stays at or above 90 % and its latency is told, while a million records come behind."""
    trial = new_trial(start="latest")
    trial.produce("eu", 1_000_000)
    trial.drain("--only", "replicate")
    with trial.running("--only", "replicate"):
        wait_for(lambda: trial.status()["flows"], timeout=60, what="the hub")
        alone = live_share(trial, 20)
        words = ("backfill", "run", "--yes", "--edge", "eu", "--topic", trial.topic, "--rate", "20000")
        with running(trial, *words) as process:
            wait_for(lambda: done(trial) > 100_000, timeout=120, what="the first records")
            beside = live_share(trial, 20)
            assert process.poll() is None, "the trial is void: the backfill ended before it was measured"
            assert process.wait(300) == 0, process.log.read_text()[-3000:]
    print(f"live alone: {alone}; beside a backfill: {beside}")
    assert beside[0] >= 0.9 * alone[0]
    (one,) = listed(trial)
    assert one["delivered"] == 1_000_000


def live_share(trial, seconds: float) -> tuple[float, float, float]:
    """Orders of `us` that arrive per second, median and 95th percentile of their way in ms."""
    first, ways = trial.ends(f"us.{trial.topic}"), []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        before, sent = trial.ends(f"us.{trial.topic}"), time.monotonic()
        trial.produce("us", 200)
        wait_for(lambda b=before: trial.ends(f"us.{trial.topic}") >= b + 200, timeout=30, what="200 orders")
        ways.append(1000 * (time.monotonic() - sent))
    rate = (trial.ends(f"us.{trial.topic}") - first) / (time.monotonic() - began)
    return round(rate), round(statistics.median(ways)), round(sorted(ways)[int(0.95 * len(ways))])
