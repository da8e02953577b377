"""The package as it is installed: away from its source tree it has all that the demo and the page need.

The wheel is built by the tools that `pyproject.toml` names, which comes from the package index.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


def test_the_demo_runs_in_an_empty_folder(tmp_path, installed):
    """Every record is accounted for, by code and files of the wheel alone."""
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
    answer = json.loads(ran("-m", "aggregator.cli.main", "demo", "--records", "900", "-o", "json"))
    for account in answer["accounts"]:
        assert (account["produced"], account["at_central"], account["in_lake"]) == (304, 300, 300)
