"""`docs/leaks.md` is what its generator makes, with the library as it is installed."""

from pathlib import Path

import pytest

from tests.bench.walker import page

pytestmark = [pytest.mark.slow, pytest.mark.search]

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "leaks.md"


def test_the_page_of_leaks_is_current():
    """The corpus through confluent-kafka's walker and through ours gives this table; ours leaks nothing."""
    made = page()
    assert made + "\n" == DOCUMENT.read_text(encoding="utf-8"), "python -m tests.bench.walker > docs/leaks.md"
    rows = [line.split(" | ") for line in made.splitlines() if line.startswith("| ") and line.count("|") == 4]
    assert {row[1] for row in rows[3:]} == {"stripped"}
