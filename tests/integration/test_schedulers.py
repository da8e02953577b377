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
for _ in range(2):
    assert dagster_backfill.aggregator_backfill.execute_in_process(partition_key={day!r}).success
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


def run_hub(trial, *days: datetime):
    """A hub that began behind these days, so that central lacks all of them; each has twenty records of each edge."""
    trial.settings["topics"][0]["start"] = "latest"
    trial.write()
    for day in days:
        for edge in trial.sandbox.edges:
            trial.produce(edge, 20, timestamp_ms=int((day + timedelta(hours=12)).timestamp() * 1000))
    return trial.running()


def run(trial, python: Path, code: str, **more: str) -> str:
    """What a scheduler's process says."""
    tries, shim = trial.folder / "tries", trial.folder / "bin" / "aggregator"
    shim.parent.mkdir(exist_ok=True)
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


def test_a_day_is_tried_ten_times_and_written_once(trial, scheduler):
    """Airflow loses the answer of a run that has done its work, nine times. Dagster runs its day twice: the plan is
    kept, and the second run hears that it has finished.
    """
    second = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    first = second - timedelta(days=1)
    home = {
        "AIRFLOW_HOME": str(trial.folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
    }
    with run_hub(trial, first, second):
        migrate = [scheduler.with_name("airflow"), "db", "migrate"]
        subprocess.run(migrate, check=True, env=os.environ | home, capture_output=True)
        wait_for(lambda: len(trial.ledger()) >= 6, timeout=60, what="the flows")
        told = run(trial, scheduler, AIRFLOW.format(examples=str(EXAMPLES), day=second.isoformat()), **home)
        assert "state success" in told
        assert (trial.folder / "tries").read_text().count("tried") == 10
        run(trial, scheduler, DAGSTER.format(examples=str(EXAMPLES), day=second.date().isoformat()))
        planned = json.loads((trial.folder / f"dagster-{second.date()}.json").read_text())
        assert planned["records"] == 40
        for edge in trial.sandbox.edges:
            assert sorted(trial.numbers(edge)) == list(range(40))
        assert len(trial.lake()) == 80
