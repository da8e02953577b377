"""Finds the records that fail a rule: the conditions of single-value expectations, evaluated again on the staged
records.

Invariant: each condition gives the answer of Great Expectations on Spark, also for nulls. The caller compares both
counts, and uses neither answer where the counts differ.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BooleanType, StringType

from aggregator.config.expectations import NO_PERSONAL_DATA
from aggregator.config.suites import Rule
from aggregator.privacy.operators import detectors

DETECTORS: Mapping[str, Callable[[str], Any]] = {
    "card": detectors.cards,
    "email": detectors.emails,
    "iban": detectors.ibans,
    "ip": detectors.ips,
    "jwt": detectors.jwts,
    "phone": detectors.phones,
}
Condition = Callable[[Column, Mapping[str, Any]], Column]


def fails_rule(rule: Rule) -> Column:
    """Whether a record fails; null is no failure, except where the rule is about null.

    Args:
        rule: Of a type in `DIVERTIBLE`.
    """
    column = F.col(rule.column)
    if rule.type == "expect_column_values_to_not_be_null":
        return column.isNull()
    if rule.type == "expect_column_values_to_be_null":
        return column.isNotNull()
    return F.coalesce(column.isNotNull() & ~_CONDITIONS[rule.type](column, rule.kwargs), F.lit(False))


def has_personal_data(column: Column, wanted: list[str]) -> Column:
    """Whether one of the detectors finds something in a text, or in bytes that are text."""

    def found(values: pa.Array) -> pa.Array:
        return contains_personal_data(values, wanted)

    # The annotations already tell the kind of function, but this version's stub also wants it as an argument.
    return arrow_udf(found, BooleanType())(column)  # type: ignore[call-overload, no-any-return]


def contains_personal_data(values: pa.Array, wanted: list[str]) -> pa.Array:
    """Whether each value holds personal data, asked once per distinct value; null stays null."""
    coded = values.dictionary_encode()
    marks = [
        None if text is None else _text_contains_personal_data(text, wanted) for text in coded.dictionary.to_pylist()
    ]
    return pa.array(marks, pa.bool_()).take(coded.indices)


def _text_contains_personal_data(value: str | bytes, wanted: list[str]) -> bool:
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    return any(next(iter(DETECTORS[name](text)), None) is not None for name in wanted)


def matches_regex(column: Column, regex: str) -> Column:
    """Whether RE2 finds a pattern anywhere in a value's text.

    Java's matcher backtracks on the stack: one value from an edge can block a commit for hours, or overflow the stack.
    """

    def found(values: pa.Array) -> pa.Array:
        return pc.match_substring_regex(values, pattern=regex)

    return arrow_udf(found, BooleanType())(column.cast(StringType()))  # type: ignore[call-overload, no-any-return]


def matches_regex_list(column: Column, regexes: Sequence[str], match_on: str) -> Column:
    """Whether any, or all, of several patterns are found."""
    return reduce(operator.and_ if match_on == "all" else operator.or_, (matches_regex(column, one) for one in regexes))


def _between(column: Column, kwargs: Mapping[str, Any]) -> Column:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    above = operator.gt if kwargs.get("strict_min") else operator.ge
    below = operator.lt if kwargs.get("strict_max") else operator.le
    bounds: list[Column] = [above(column, F.lit(low))] if low is not None else []
    bounds += [below(column, F.lit(high))] if high is not None else []
    return bounds[0] if len(bounds) == 1 else bounds[0] & bounds[1]


_CONDITIONS: Mapping[str, Condition] = {
    NO_PERSONAL_DATA: lambda column, kwargs: ~has_personal_data(column, kwargs["detectors"]),
    "expect_column_value_lengths_to_be_between": lambda column, kwargs: _between(F.length(column), kwargs),
    "expect_column_value_lengths_to_equal": lambda column, kwargs: F.length(column) == kwargs["value"],
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": lambda column, kwargs: column.isin(kwargs["value_set"]),
    "expect_column_values_to_match_regex": lambda column, kwargs: matches_regex(column, kwargs["regex"]),
    "expect_column_values_to_match_regex_list": lambda column, kwargs: matches_regex_list(
        column, kwargs["regex_list"], kwargs.get("match_on", "any")
    ),
    "expect_column_values_to_not_be_in_set": lambda column, kwargs: ~column.isin(kwargs["value_set"]),
    "expect_column_values_to_not_match_regex": lambda column, kwargs: ~matches_regex(column, kwargs["regex"]),
    "expect_column_values_to_not_match_regex_list": lambda column, kwargs: (
        ~matches_regex_list(column, kwargs["regex_list"], "any")
    ),
}
