"""The demo's one command goes through everything and accounts for every record."""

import json
import subprocess
import sys

import deltalake
import duckdb
import pytest

from aggregator.cli.demo import REPORT_FILE
from aggregator.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def test_the_demo_accounts_for_every_record(tmp_path):
    """Three edges, poison included: produced = central + dead letters, lake = central, and no process stays."""
    command = [sys.executable, "-m", "aggregator.cli.main", "demo", "--records", "900", "--dir", str(tmp_path / "d")]
    ran = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False, timeout=280)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert [account["edge"] for account in answer["accounts"]] == ["ewr", "jfk", "lga"]
    for account in answer["accounts"]:
        assert (account["produced"], account["at_central"], account["in_lake"]) == (304, 300, 300)
        assert account["dead_letters"] == 4
        assert account["stripped"] > 300
    before, after = answer["booking"]["before"]["value"], answer["booking"]["after"]["value"]
    assert before["booking_id"] == after["booking_id"]
    assert before["passenger"]["passport"] is not None
    assert set(after["passenger"]) == {"name", "email", "birth_date"}
    assert before["passenger"]["email"] not in json.dumps(answer["booking"]["after"])
    assert json.loads((tmp_path / "d" / REPORT_FILE).read_text()) == answer
    files = deltalake.DeltaTable(str(tmp_path / "d" / "lake" / "bookings")).file_uris()
    with duckdb.connect() as connection:
        rows = connection.execute("select count(*) from read_parquet(?)", [files]).fetchone()
    assert rows == (600,)
    assert Sandbox.load(tmp_path / "d").running() == []
