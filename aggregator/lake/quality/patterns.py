"""Evaluates Great Expectations' conditions about patterns with RE2 in place of Java's matcher. RE2's time is linear in
the length of every value.

Invariant: each class replaces the library's own metric of the same name, so no expectation of a suite reaches Spark's
`rlike`. RE2 has compiled every pattern before, when the suite was checked.
"""

from collections.abc import Sequence
from typing import Any

from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from pyspark.sql import Column

from aggregator.lake.quality.conditions import matches_regex, matches_regex_list


class MatchRegex(ColumnMapMetricProvider):
    """`expect_column_values_to_match_regex`."""

    condition_metric_name = "column_values.match_regex"
    condition_value_keys = ("regex",)

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, regex: str, **_: Any) -> Column:  # noqa: N805 - made a class method there
        return matches_regex(column, regex)


class NotMatchRegex(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_regex`."""

    condition_metric_name = "column_values.not_match_regex"
    condition_value_keys = ("regex",)

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, regex: str, **_: Any) -> Column:  # noqa: N805 - as above
        return ~matches_regex(column, regex)


class MatchRegexList(ColumnMapMetricProvider):
    """`expect_column_values_to_match_regex_list`."""

    condition_metric_name = "column_values.match_regex_list"
    condition_value_keys = ("regex_list", "match_on")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, regex_list: Sequence[str], match_on: str, **_: Any) -> Column:  # noqa: N805 - as above
        return matches_regex_list(column, regex_list, match_on)


class NotMatchRegexList(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_regex_list`."""

    condition_metric_name = "column_values.not_match_regex_list"
    condition_value_keys = ("regex_list",)

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, regex_list: Sequence[str], **_: Any) -> Column:  # noqa: N805 - as above
        return ~matches_regex_list(column, regex_list, "any")
