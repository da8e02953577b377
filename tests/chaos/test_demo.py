"""The demo's one command goes through everything and accounts for every record, from the package as it is installed.

The wheel is built by the tools that `pyproject.toml` names, which comes from the package index.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import deltalake
import duckdb
import pytest

from aggregator.cli.demo import REPORT_FILE
from aggregator.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.ci, pytest.mark.brokers, pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]
ASK = "import aggregator; from aggregator.page.runbooks import runbooks; print(aggregator.__file__, len(runbooks()))"


@pytest.fixture
def installed(tmp_path):
    """Where the wheel's files lie."""
    left_out = shutil.ignore_patterns(".*", "tests", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=left_out)
    command = [Path(sys.executable).parent / "uv", "build", "--quiet", "--wheel", "--out-dir", tmp_path]
    built = subprocess.run([*command, tmp_path / "tree"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    return tmp_path / "installed"


def test_the_demo_accounts_for_every_record_in_an_empty_folder(tmp_path, installed):
    """By code and files of the wheel alone: produced = central + dead letters, lake = central, and no process stays."""
    (tmp_path / "empty").mkdir()

    def ran(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True, text=True, check=False, timeout=280,
            cwd=tmp_path / "empty", env=os.environ | {"PYTHONPATH": str(installed)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    place, count = ran("-c", ASK).split()
    assert Path(place).is_relative_to(installed)
    assert int(count) == len(list((ROOT / "docs" / "runbooks").glob("*.md"))) > 0
    folder = tmp_path / "d"
    command = ("-m", "aggregator.cli.main", "demo", "--records", "900", "--dir", str(folder), "-o", "json")
    answer = json.loads(ran(*command))
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
    assert json.loads((folder / REPORT_FILE).read_text()) == answer
    files = deltalake.DeltaTable(str(folder / "lake" / "bookings")).file_uris()
    with duckdb.connect() as connection:
        rows = connection.execute("select count(*) from read_parquet(?)", [files]).fetchone()
    assert rows == (600,)
    assert Sandbox.load(folder).running() == []
