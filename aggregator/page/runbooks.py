"""The runbooks of this checkout, which cards link to; an installed package has none, and then no card links.

Invariant: a name that is asked for is looked up among those that there are, and never made into a path.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


@cache
def runbooks() -> Mapping[str, str]:
    """Texts by file name, read once."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.md"))}
