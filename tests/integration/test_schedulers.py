"""The examples for Airflow and Dagster, as these run them: a backfill is tried ten times and writes once."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.whole]

EXAMPLES = Path(__file__).resolve().parents[2] / "configs" / "schedulers"
PACKAGES = ("apache-airflow==3.3.2", "dagster==1.13.29")
# The command, whose answer is lost nine times.
SHIM = """#!/bin/sh
"{python}" -m aggregator.cli.main "$@" || exit $?
case "$1 $2" in "backfill run")
  echo tried >> {tries}
  [ "$(wc -l < {tries})" -ge 10 ] || exit 1
esac
"""
AIRFLOW = """
import sys
from datetime import datetime, timedelta
sys.path.insert(0, {examples!r})
import airflow_backfill
from airflow.models.dagbag import DagBag
dag = airflow_backfill.aggregator_backfill()
for task in dag.tasks:
    task.retry_delay = timedelta(0)
run = dag.test(logical_date=datetime.fromisoformat({day!r}))
print("state", run.state)
"""
DAGSTER = """
import sys
sys.path.insert(0, {examples!r})
import dagster_backfill
ops = {{name: {{"config": {{"day": {day!r}}}}} for name in ("plan", "run", "wait")}}
for _ in range(2):
    assert dagster_backfill.aggregator_backfill.execute_in_process(run_config={{"ops": ops}}).success
"""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """Python with both schedulers, apart from the hub's packages."""
    folder = tmp_path_factory.mktemp("schedulers")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *PACKAGES], check=True)
    return python


@pytest.fixture
def day(trial):
    """A day of which central lacks everything, because the hub began behind it, and runs now."""
    begins = (datetime.now(UTC) - timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    trial.settings["topics"][0]["start"] = "latest"
    trial.write()
    noon_ms = int((begins + timedelta(hours=12)).timestamp() * 1000)
    for edge in trial.sandbox.edges:
        trial.produce(edge, 20, timestamp_ms=noon_ms)
    with trial.running():
        wait_for(lambda: len(trial.ledger()) >= 6, timeout=60, what="the flows")
        yield begins


def run(trial, python: Path, code: str, **more: str) -> str:
    """What a scheduler's process says."""
    tries, shim = trial.folder / "tries", trial.folder / "bin" / "aggregator"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(python=sys.executable, tries=tries))
    shim.chmod(0o755)
    environ = os.environ | {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "AGGREGATOR_CONFIG": str(trial.config),
        "AGGREGATOR_PLANS": str(trial.folder),
        "AGGREGATOR_TOPIC": trial.topic,
        "AGGREGATOR_TABLE": trial.topic,
        **more,
    }
    command = [python, "-c", code]
    done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def check(trial) -> None:
    """Every record of the day is at central and in the table, once."""
    for edge in trial.sandbox.edges:
        assert sorted(trial.numbers(edge)) == list(range(20))
    assert len(trial.lake()) == 40


def test_airflow_tries_ten_times_and_writes_once(trial, day, scheduler):
    """The command has done its work, and its answer is lost: nine times."""
    home = {
        "AIRFLOW_HOME": str(trial.folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
    }
    subprocess.run(
        [scheduler.with_name("airflow"), "db", "migrate"], check=True, env=os.environ | home, capture_output=True
    )
    code = AIRFLOW.format(examples=str(EXAMPLES), day=(day + timedelta(days=1)).isoformat())
    assert "success" in run(trial, scheduler, code, **home)
    assert (trial.folder / "tries").read_text().count("tried") == 10
    check(trial)


def test_dagster_runs_a_day_twice_and_writes_once(trial, day, scheduler):
    """The plan of the day is kept: the second run hears that it has finished."""
    (trial.folder / "tries").write_text("tried\n" * 9)
    run(trial, scheduler, DAGSTER.format(examples=str(EXAMPLES), day=day.date().isoformat()))
    assert json.loads((trial.folder / f"dagster-{day.date()}.json").read_text())["records"] == 40
    check(trial)
