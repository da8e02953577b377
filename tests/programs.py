"""Programs that single tests need and a machine may lack: without one they are skipped, once said loudly.

Invariant: with `CI=true` a missing program is a failure, so nothing is left out in silence where changes are judged.
"""

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple

import pytest


class Program(NamedTuple):
    """A program by its name, with the Debian package that brings it."""

    name: str
    package: str


PROGRAMS = {one.name: one for one in (Program("chromium", "chromium"), Program("promtool", "prometheus"))}


def must_run(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a missing program fails a test instead of skipping it."""
    return environ.get("CI", "").lower() == "true"


def require(name: str) -> None:
    """Skip the present test, or fail it in CI, where the program is missing.

    Raises:
        KeyError: the name is not listed here.
    """
    program = PROGRAMS[name]
    if shutil.which(program.name):
        return
    said = f"{program.name} is missing: apt-get install --no-install-recommends {program.package}"
    if must_run():
        pytest.fail(said, pytrace=False)
    pytest.skip(said)


def summary(reasons: list[str]) -> list[str]:
    """What was not run for want of a program, a line for each.

    Args:
        reasons: Why each skipped test was skipped.
    """
    lines = []
    for program in PROGRAMS.values():
        count = sum(f"{program.name} is missing" in reason for reason in reasons)
        if count:
            install = f"apt-get install --no-install-recommends {program.package}"
            lines.append(f"NOT RUN for want of {program.name}: {count}. To run them: {install}")
    return lines
