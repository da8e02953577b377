"""The documentation's figures are those of the benches' kept results."""

import json

import pytest

from tests.bench import figures


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
