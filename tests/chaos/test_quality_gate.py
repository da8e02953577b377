"""The quality gate for longer than a test may take: over 200 commits, and in a hub that is killed."""

import gc
import json
from collections import Counter

import psutil
import pyarrow as pa
import pytest

from tests.gated_lake import TABLE, GatedLake
from tests.integration.gate_session import library_objects, rule, spark  # noqa: F401 - the session's fixture
from tests.trial import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
COMMITS = 200


def test_200_commits_leave_no_cached_data(tmp_path, monkeypatch, spark):  # noqa: F811 - the fixture
    """Nothing is persisted in Spark, nothing of the library grows, and the driver's memory stays where it was."""
    rules = [
        rule("expect_column_values_to_not_be_null", column="id"),
        rule("expect_column_values_to_be_between", on_failure="divert", column="id", max_value=COMMITS - 50),
    ]
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": rules}))
    quality = [{"suite": tmp_path / "s.json"}]
    lake = GatedLake(tmp_path / "lake", monkeypatch, columns=[("id", pa.int64())], quality=quality, spark=spark)
    driver, counts, memory = lake.driver(), {}, {}
    for number in range(COMMITS):
        lake.write({"id": number})
        (report,) = driver.cycle().tables
        assert report.verdict == ("divert" if number > COMMITS - 50 else "publish")
        if number in (20, COMMITS - 1):
            gc.collect()
            counts[number], memory[number] = library_objects(), psutil.Process().memory_info().rss
    lake.check()
    assert len(lake.places(f"{TABLE}__quarantine")) == 49
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
    assert counts[20] == counts[COMMITS - 1]
    print(f"audit_s={report.audit_s:.2f} commit_s={report.commit_s:.2f} rss={memory}")
    assert memory[COMMITS - 1] < memory[20] + 50_000_000


@pytest.mark.brokers
def test_an_operator_releases_what_is_held(new_trial):
    """A hold ends a drain with 4 and is named; released with a reason, the next drain publishes it."""
    trial = new_trial()
    rules = [rule("expect_column_values_to_be_between", name="cheap", column="amount", max_value=-1)]
    (trial.folder / "suite.json").write_text(json.dumps({"name": "orders", "expectations": rules}))
    quality = [{"suite": "suite.json", "on_failure": "hold"}]
    trial.settings["lake"] |= {"tables": {trial.topic: {"quality": quality}}}
    trial.write()
    trial.produce("eu", 200)
    done = trial.run("run", "--drain")
    assert done.returncode == 4, done.stderr[-2000:]
    assert trial.lake_version() < 0
    said = ("lake", "release", trial.topic, "--reason", "test data", "--by", "ada", "-o", "json")
    assert trial.run(*said).returncode == 2, "nothing is released without a terminal or --yes"
    released = json.loads(trial.run(*said, "--yes").stdout)
    assert {(one["state"], one["by"], tuple(one["rules"])) for one in released} == {
        ("released", "ada", ("orders/cheap",))
    }
    trial.drain()
    trial.check_exactly_once("eu", 200)
    shown = json.loads(trial.run("lake", "quality", "-o", "json").stdout)["tables"][0]
    assert (shown["audits"][0]["verdict"], shown["audits"][0]["reason"]) == ("release", "test data")


@pytest.mark.brokers
def test_a_killed_hub_diverts_once_and_the_audit_counts_both(new_trial):
    """I3 after kill -9: central is the table and its quarantine, and `audit` finds nothing missing."""
    trial = new_trial()
    suite = {
        "name": "orders",
        "expectations": [rule("expect_column_values_to_be_between", column="amount", max_value=50)],
    }
    (trial.folder / "suite.json").write_text(json.dumps(suite))
    quality = [{"suite": "suite.json", "on_failure": "divert"}]
    trial.settings["lake"] |= {"commit_interval": "1s", "tables": {trial.topic: {"quality": quality}}}
    trial.write()
    apart = trial.folder / "lake" / f"{trial.topic}__quarantine" / "_delta_log"
    with trial.traffic("eu", "us", batch=10, pause_s=1.0) as produced:
        for _ in range(3):
            before = len(list(apart.glob("*.json")))
            with trial.running() as hub:
                wait_for(lambda n=before: len(list(apart.glob("*.json"))) > n + 1, timeout=120, what="two commits")
                hub.kill()
        wait_for(lambda: min(produced.values()) >= 600, timeout=90, what="all orders")
    trial.drain()
    rows = Counter(trial.lake())
    table, trial.topic = trial.topic, f"{trial.topic}__quarantine"
    quarantined = Counter(trial.lake())
    diverted = {amount for (amount,) in trial.lake("amount")}
    trial.topic = table
    assert min(diverted) > 50
    assert all(amount <= 50 for (amount,) in trial.lake("amount"))
    for edge in ("eu", "us"):
        origins = Counter((edge, *origin) for origin in ((p, i, o) for p, i, o in trial.origins(edge)))
        assert origins == Counter({row: n for row, n in (rows + quarantined).items() if row[0] == edge})
    done = trial.run("audit", "-o", "json")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (table,) = trial.status()["lake"]
    assert (table["quarantined"], table["verdict"]) == (quarantined.total(), "divert")
    shown = json.loads(trial.run("lake", "quality", "-o", "json").stdout)["tables"][0]
    assert shown["diverted"] == quarantined.total()
