"""What the detectors find in columns, and what a lake without suites does not pay for."""

import subprocess
import sys

import pyarrow as pa
import pytest

from aggregator.config.expectations import NO_PERSONAL_DATA
from aggregator.config.suites import DIVERTIBLE
from aggregator.lake.quality import conditions
from aggregator.lake.quality.conditions import DETECTORS, contains_personal_data
from aggregator.privacy.operators.scrub_text import ALL_DETECTORS


def test_every_divertible_condition_is_evaluated_again():
    """The list that the configuration promises is the list that there is."""
    about_null = {"expect_column_values_to_be_null", "expect_column_values_to_not_be_null"}
    assert set(conditions._CONDITIONS) | about_null == DIVERTIBLE
    assert NO_PERSONAL_DATA in DIVERTIBLE


def test_the_detectors_are_those_of_the_policy():
    """The gate looks for what `scrub_text` can remove."""
    assert set(DETECTORS) == set(ALL_DETECTORS)


def test_texts_and_bytes_are_searched_and_null_stays_null():
    """Values in any order, as often as they come; bytes that are no text harm nobody."""
    texts = ["none", None, "jane@example.com", "none", "jane@example.com"]
    assert contains_personal_data(pa.array(texts), ["email"]).to_pylist() == [False, None, True, False, True]
    assert contains_personal_data(pa.array([b"\xff\xfe", b"a@b.c", None]), ["email"]).to_pylist() == [False, True, None]
    assert contains_personal_data(pa.array([None], pa.string()), ["iban", "card"]).to_pylist() == [None]
    assert contains_personal_data(pa.array(["4111 1111 1111 1111"]), ["email", "card"]).to_pylist() == [True]


def test_each_distinct_value_is_looked_at_once(monkeypatch):
    """Detectors cost microseconds, and columns repeat."""
    seen = []
    monkeypatch.setitem(conditions.DETECTORS, "email", lambda text: iter(seen.append(text) or ()))
    contains_personal_data(pa.array(["a", "b", "a"] * 100), ["email"])
    assert seen == ["a", "b"]


@pytest.mark.slow
def test_a_lake_without_suites_imports_no_library_for_them():
    """Great Expectations takes seconds; the driver's modules do not know it."""
    code = "import sys, aggregator.lake.driver, aggregator.observe.status; print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
