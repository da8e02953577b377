"""A machine with Java, Python and make alone runs every test that it can, and says what it left out."""

import pytest

from tests import programs


def test_a_missing_program_skips_its_test_and_fails_it_in_ci(monkeypatch):
    """Without the program: a skip at a desk, a failure where changes are judged."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="chromium is missing: apt-get install"):
        programs.require("chromium")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"promtool is missing: apt-get install .* prometheus"):
        programs.require("promtool")


def test_what_was_not_run_is_one_line_for_each_program():
    """Skips for other reasons are none of its business."""
    reasons = ["Skipped: chromium is missing: apt-get install chromium", "Skipped: chromium is missing", "other"]
    assert programs.summary(reasons) == [
        "NOT RUN for want of chromium: 2. To run them: apt-get install --no-install-recommends chromium"
    ]
    assert programs.summary([]) == []
