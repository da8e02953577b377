"""Programs that single tests need and a machine may lack: without one they are skipped, once said loudly.

Invariant: with `CI=true` a missing program is a failure, so nothing is left out in silence where changes are judged.
"""

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple

import pytest


class Tool(NamedTuple):
    """A program by the name it is found under, with the Debian package that brings it."""

    program: str
    package: str


TOOLS = {tool.program: tool for tool in (Tool("chromium", "chromium"), Tool("promtool", "prometheus"))}


def missing(program: str) -> Tool | None:
    """The tool that is wanted under this name, if this machine lacks it.

    Raises:
        KeyError: no test names such a tool.
    """
    return None if shutil.which(TOOLS[program].program) else TOOLS[program]


def must_run(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a missing program fails a test instead of skipping it."""
    return environ.get("CI", "").lower() == "true"


def require(program: str) -> None:
    """Skip the present test, or fail it in CI, where the program is missing."""
    lacking = missing(program)
    if lacking is None:
        return
    said = f"{lacking.program} is missing: apt-get install --no-install-recommends {lacking.package}"
    if must_run():
        pytest.fail(said, pytrace=False)
    pytest.skip(said)


def summary(reasons: list[str]) -> list[str]:
    """What was not run for want of a program, a line for each.

    Args:
        reasons: Why each skipped test was skipped.
    """
    lines = []
    for program, tool in sorted(TOOLS.items()):
        count = sum(f"{program} is missing" in reason for reason in reasons)
        if count:
            lines.append(
                f"NOT RUN for want of {program}: {count}."
                f" To run them: apt-get install --no-install-recommends {tool.package}"
            )
    return lines
