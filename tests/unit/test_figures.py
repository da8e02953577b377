"""The documentation's figures are those of the benches' kept results."""

import json
import re

import pytest

from tests.bench import figures
from tests.bench.ratios import spread


@pytest.mark.parametrize("page", figures.pages(), ids=lambda path: path.name)
def test_every_block_of_figures_is_what_the_kept_result_says(page):
    """Nobody types figures: `python -m tests.bench.figures` writes them."""
    text = page.read_text()
    assert figures.rendered(text, figures.kept()) == text
    assert text.count("<!-- figures: ") == len(figures._BLOCK.findall(text)), "a block without its end"


def test_every_kept_result_is_known_by_its_keys_and_shown():
    """A result that no page shows is forgotten work, and a block of an unknown kind a mistake."""
    shown = {kind for page in figures.pages() for _, kind, _ in figures._BLOCK.findall(page.read_text())}
    assert {figures.kind_of(result) for result in figures.kept().values()} == set(figures.kept())
    assert set(figures.kept()) <= shown <= set(figures.KINDS)


def test_another_result_is_another_page():
    """Ratios, their spread, and the command with the very options of the run are in the block."""
    result = json.loads((figures.RESULTS / "contest.json").read_text())
    block = "<!-- figures: contest -->\nold\n<!-- end -->"
    ratio = {"median": 0.5, "least": 0.25, "most": 0.75}
    result["160_bytes"]["cpu_ratio_vs_mm2_eos"]["hub_mixed"] = ratio
    page = figures.rendered(block, {"contest": result | {"rounds": 7}})
    assert "0.50 (0.25 to 0.75)" in page
    assert "--rounds 7" in page
    assert figures.rendered(page, {}) == page


def test_strip_and_the_lake_are_told_as_ratios_of_turns():
    """Both say how far their rounds lay apart, with the options that they ran with."""
    ratio = spread([90.0, 80.0, 100.0], [1.0, 1.0, 1.0])
    assert ratio == {"median": 90.0, "least": 80.0, "most": 100.0}
    strip = {"commit": "abc1234", "rounds": 3, "booking": {"drop": {"ratio": ratio}}}
    assert "| booking | 90 (80 to 100) |" in figures.strip(strip)
    assert "`python -m tests.bench.strip --rounds 3 -o json` at abc1234" in figures.strip(strip)
    lake = {f"{name}_us_per_record": 6.6 for name in ("ours", "polars", "spark", "rows")}
    lake |= {f"ratio_vs_{name}": spread([6.6], [13.2]) for name in ("polars", "spark", "rows")}
    page = figures.lake(lake | {"commit": "abc1234", "records": 300_000, "rounds": 1})
    assert "| hub | 6.6 | 1.00 |" in page
    assert "| polars alone | 6.6 | 0.50 |" in page
    assert "--records 300000 --rounds 1" in page


def test_a_bench_of_slots_says_how_many_records_waited():
    """Whoever runs the command again has the same backlog."""
    one = {
        "records_per_s": 400_000,
        "python_cpu_us_per_record": 2.1,
        "jvm_cpu_us_per_record": 0.1,
        "peak_worker_mb": 300,
    }
    page = figures.slots({"commit": "abc1234", "records": 500_000, "slots_1": one})
    assert "`python -m tests.bench.slots --records 500000 -o json` at abc1234" in page
    assert "| 1 | 400,000 | 2.10 | 0.10 | 300 |" in page


def test_no_measured_figure_stands_in_prose():
    """Costs per record and ratios to others are typed nowhere: outside the blocks only an example may have one."""
    measured = re.compile("\\d ?(µs|\N{MULTIPLICATION SIGN}|x )")
    for page in figures.pages():
        prose = figures._BLOCK.sub("", page.read_text())
        typed = [line for line in prose.splitlines() if measured.search(line) and "example" not in line]
        assert typed == [], page.name
