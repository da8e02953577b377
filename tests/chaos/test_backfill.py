"""Fault 22: backfills as a user runs them, beside live traffic and the lake, killed, run twice, at a limited rate."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.chaos.backfilling import audited, backfill, check, done, listed, no_canary, running
from tests.processes import environment
from tests.trial import seeded, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]


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
    check(late, "eu", range(3000 + produced["eu"]))
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
    check(late, "eu", range(3000))
    audited(late)


def test_it_is_cancelled_and_resumed(late):
    """A running one ends within seconds, with 1; what it wrote stays, and `resume` goes on behind it."""
    words = ("run", "--yes", "--edge", "eu", "--topic", late.topic)
    with running(late, "backfill", *words, "--rate", "60") as process:
        wait_for(lambda: done(late) > 100, timeout=120, what="the first records")
        (one,) = listed(late)
        assert one["state"] == "running"
        backfill(late, "cancel", one["id"])
        assert process.wait(30) == 1, process.log.read_text()[-3000:]
    (one,) = listed(late)
    assert one["state"] == "cancelled"
    assert 100 < one["offsets_done"] < 3000
    late.drain()
    assert len(late.numbers("eu")) == len(set(late.numbers("eu"))) == one["delivered"]
    audited(late)
    backfill(late, "resume", one["id"])
    late.drain()
    check(late, "eu", range(3000))
    audited(late)


def test_retention_and_a_recreated_topic_are_met_on_the_way(late):
    """What a frozen plan cannot have any more is named, with 5; the rest comes, and the new topic's own records."""
    plans = {}
    for partition in (0, 1):
        plans[partition] = late.folder / f"plan-{partition}.json"
        said = backfill(late, "plan", "--edge", "eu", "--partition", str(partition), "-o", "json")
        plans[partition].write_text(said)
    late.cut("eu", 0, 500)
    backfill(late, "run", "--yes", "--plan", str(plans[0]), expect=5)
    late.drain()
    there = {number for number in range(1500, 3000) if number % 3 == 0}
    check(late, "eu", there)
    audited(late)
    late.delete("eu")
    wait_for(lambda: late.topic not in late.admin("eu").list_topics(timeout=10).topics, timeout=20, what="its end")
    late.create("eu")
    late.produce("eu", 300)
    backfill(late, "run", "--yes", "--plan", str(plans[1]), expect=5)
    flow = f"eu/{late.topic}"
    assert [one["lost"] for one in listed(late)] == [{f"{flow}/0": [[0, 500]]}, {f"{flow}/1": [[0, 1000]]}]
    late.drain()
    check(late, "eu", there | set(range(3000, 3300)))
    audited(late)


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
    assert sorted(late.numbers("eu")) == list(range(3000, 3300)), "the original stays, without the old ones"
    no_canary(late, f"{topic}_v2")
    audited(late)


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
    assert [row[0] for row in sorted(late.lake("id"))] == list(range(9000, 9030))
    no_canary(late, late.topic)
    audited(late)


def test_a_scheduler_runs_its_plan_file_twice(late):
    """jobs/backfill.py: what was planned and nothing else, exit code 0 both times."""
    plan = late.folder / "plan.json"
    plan.write_text(backfill(late, "plan", "--edge", "eu", "--partition", "1", "-o", "json"))
    for _ in range(2):
        words = [sys.executable, str(ROOT / "jobs/backfill.py"), "--config", str(late.config), "--plan", str(plan)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=200, env=environment(), check=False)
        assert ran.returncode == 0, ran.stderr
    late.drain()
    assert sorted(late.numbers("eu")) == [n for n in range(3000) if n % 3 == 1]
    assert sorted(row[0] for row in late.lake("id")) == [n for n in range(3000) if n % 3 == 1]
    no_canary(late, late.topic)
    audited(late)


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
