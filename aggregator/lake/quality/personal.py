"""Adds an expectation of the hub's own: no value of a column holds personal data that the detectors of the strip can
find.

Invariant: the detectors are those of `scrub_text`, so that the gate looks for what the policy can remove. They find
data that has a recognisable form (an e-mail address, a card number with a valid checksum). They do not find names.
"""

from typing import Any

from great_expectations.compatibility import pydantic
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import ColumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from pyspark.sql import Column

from aggregator.lake.quality.conditions import DETECTORS, has_personal_data


class ColumnValuesHoldNoPersonalData(ColumnMapMetricProvider):
    """The condition of the expectation, in the form that Great Expectations needs."""

    condition_metric_name = "column_values.hold_no_personal_data"
    condition_value_keys = ("detectors",)

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, detectors: list[str], **_: Any) -> Column:  # noqa: N805 - made a class method there
        return ~has_personal_data(column, detectors)


class ExpectColumnValuesToHoldNoPersonalData(ColumnMapExpectation):
    """`expect_column_values_to_hold_no_personal_data`."""

    detectors: list[str]
    map_metric = "column_values.hold_no_personal_data"
    success_keys = ("detectors", "mostly")

    @pydantic.validator("detectors")
    @classmethod
    def _known(cls, detectors: list[str]) -> list[str]:
        if not detectors or not set(detectors) <= set(DETECTORS):
            raise ValueError(f"detectors are one or more of {', '.join(DETECTORS)}")
        return detectors
