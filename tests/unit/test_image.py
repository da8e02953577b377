"""The image before it is built: its linter is content, and `tests/chaos/test_image.py` can do every step."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image import BASES, ignored, instructions

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "configs" / "image" / "Dockerfile"
KNOWN = {"FROM", "SHELL", "RUN", "COPY", "ENV", "USER", "WORKDIR", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def test_the_dockerfile_passes_its_linter():
    """Hadolint, where it is installed."""
    linter = os.environ.get("HADOLINT") or shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed: the Dockerfile is not linted")
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_instruction_is_one_that_the_builder_does():
    """And every base is an image that it can make."""
    read = instructions(DOCKERFILE.read_text(encoding="utf-8"))
    assert {one.text.partition(" AS ")[0] for one in read if one.word == "FROM"} <= BASES.keys()
    assert {one.word for one in read} <= KNOWN


@pytest.mark.parametrize(
    ("path", "stays_behind"),
    [
        ("secrets.key", True),
        (".git/config", True),
        ("docs/lake.md", True),
        ("docs/runbooks/late-edge.md", False),
        ("aggregator/cli/run.py", False),
        ("aggregator/cli/__pycache__/run.cpython-311.pyc", True),
        ("configs/x.pyc", True),
        ("LICENSE", False),
    ],
)
def test_only_what_is_copied_is_in_the_context(path, stays_behind):
    """By the ignore file, as Docker reads it: the last pattern that speaks of a path decides."""
    lines = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored(path, [line for line in lines if line and not line.startswith("#")]) == stays_behind
