"""Provides the runbooks that entries on the page link to.

Invariant: a requested name is looked up among the existing runbooks, and is never made into a path.
"""

from collections.abc import Mapping
from functools import cache

from aggregator.shipped import RUNBOOKS


@cache
def runbooks() -> Mapping[str, str]:
    """The texts of the runbooks by file name; they are read once."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(RUNBOOKS.glob("*.md"))}
