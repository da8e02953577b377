"""The expectations that a quality suite may use, with the arguments and conditions that each accepts.

The tables here are data and no code. Types and arguments are those of Great Expectations 1.x.
Invariant: the tables are an allow-list. A type or an argument that is not listed is refused, even if a later version of
Great Expectations knows it. A column is a name, and a condition compares columns with constants. No argument reaches
Spark as SQL, and none names a file, a table or a parameter to look up.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from aggregator.config.patterns import full_matches

NO_PERSONAL_DATA = "expect_column_values_to_hold_no_personal_data"
EVERY_TEXT = "*"
_CONDITION = "row_condition condition_parser"
_ROWS = f"column mostly {_CONDITION}"
_WHOLE = f"column {_CONDITION}"
_BOUNDS = "min_value max_value strict_min strict_max"
_PAIR = f"column_A column_B ignore_row_if mostly {_CONDITION}"
_SEVERAL = f"column_list ignore_row_if mostly {_CONDITION}"
_ARGUMENTS = {
    NO_PERSONAL_DATA: f"{_ROWS} detectors",
    # about single values
    "expect_column_value_lengths_to_be_between": f"{_ROWS} {_BOUNDS}",
    "expect_column_value_lengths_to_equal": f"{_ROWS} value",
    "expect_column_value_z_scores_to_be_less_than": f"{_ROWS} threshold double_sided",
    "expect_column_values_to_be_between": f"{_ROWS} {_BOUNDS}",
    "expect_column_values_to_be_decreasing": f"{_ROWS} strictly",
    "expect_column_values_to_be_in_set": f"{_ROWS} value_set",
    "expect_column_values_to_be_in_type_list": f"{_ROWS} type_list",
    "expect_column_values_to_be_increasing": f"{_ROWS} strictly",
    "expect_column_values_to_be_json_parseable": _ROWS,
    "expect_column_values_to_be_null": _ROWS,
    "expect_column_values_to_be_of_type": f"{_ROWS} type_",
    "expect_column_values_to_be_unique": _ROWS,
    "expect_column_values_to_match_regex": f"{_ROWS} regex",
    "expect_column_values_to_match_regex_list": f"{_ROWS} regex_list match_on",
    "expect_column_values_to_match_strftime_format": f"{_ROWS} strftime_format",
    "expect_column_values_to_not_be_in_set": f"{_ROWS} value_set",
    "expect_column_values_to_not_be_null": _ROWS,
    "expect_column_values_to_not_be_outliers": f"{_ROWS} method multiplier",
    "expect_column_values_to_not_match_regex": f"{_ROWS} regex",
    "expect_column_values_to_not_match_regex_list": f"{_ROWS} regex_list",
    # about a column as a whole
    "expect_column_distinct_values_to_be_in_set": f"{_WHOLE} value_set",
    "expect_column_distinct_values_to_contain_set": f"{_WHOLE} value_set",
    "expect_column_distinct_values_to_equal_set": f"{_WHOLE} value_set",
    "expect_column_max_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_mean_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_median_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_min_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_most_common_value_to_be_in_set": f"{_WHOLE} value_set ties_okay",
    "expect_column_proportion_of_non_null_values_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_proportion_of_unique_values_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_quantile_values_to_be_between": f"{_WHOLE} quantile_ranges allow_relative_error",
    "expect_column_stdev_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_sum_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_unique_value_count_to_be_between": f"{_WHOLE} {_BOUNDS}",
    "expect_column_to_exist": "column column_index",
    # about several columns
    "expect_column_pair_values_a_to_be_greater_than_b": f"{_PAIR} or_equal",
    "expect_column_pair_values_to_be_equal": _PAIR,
    "expect_column_pair_values_to_be_in_set": f"{_PAIR} value_pairs_set",
    "expect_compound_columns_to_be_unique": _SEVERAL,
    "expect_multicolumn_sum_to_equal": f"{_SEVERAL} sum_total",
    "expect_multicolumn_values_to_be_equal": _SEVERAL,
    "expect_select_column_values_to_be_unique_within_record": _SEVERAL,
    # about the commit
    "expect_table_column_count_to_be_between": "min_value max_value",
    "expect_table_column_count_to_equal": "value",
    "expect_table_columns_to_match_ordered_list": "column_list",
    "expect_table_columns_to_match_set": "column_set exact_match",
    "expect_table_row_count_to_be_between": f"{_BOUNDS} {_CONDITION}",
    "expect_table_row_count_to_equal": f"value {_CONDITION}",
}
ARGUMENTS: Mapping[str, frozenset[str]] = {kind: frozenset(names.split()) for kind, names in _ARGUMENTS.items()}
_SQL = "runs SQL of its own, which reads and writes whatever the hub can"
_NOT_ON_SPARK = "is not evaluated on Spark by Great Expectations"
REFUSED: Mapping[str, str] = {
    "unexpected_rows_expectation": _SQL,
    "expect_query_results_to_match_comparison": _SQL,
    "expect_table_row_count_to_equal_other_table": "counts a table that is none of the commit's",
    "expect_column_values_to_match_json_schema": "follows references out of its schema, to files and addresses",
    "expect_column_type_to_be": _NOT_ON_SPARK,
    "expect_column_values_to_be_dateutil_parseable": _NOT_ON_SPARK,
    "expect_column_values_to_match_like_pattern": _NOT_ON_SPARK,
    "expect_column_values_to_match_like_pattern_list": _NOT_ON_SPARK,
    "expect_column_values_to_not_match_like_pattern": _NOT_ON_SPARK,
    "expect_column_values_to_not_match_like_pattern_list": _NOT_ON_SPARK,
    "expect_column_kl_divergence_to_be_less_than": _NOT_ON_SPARK,
}
# A column's name follows Avro's rules for fields and the hub's rules for views; a dot leads into a record.
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_ONE_COLUMN = ("column", "column_A", "column_B")
_COLUMNS = (*_ONE_COLUMN, "column_list", "column_set")
# The library's own grammar for whole texts: `col("price") > 5`, `col("status") == "NEW"`, `col("id").notnull()`.
_PARSER = "great_expectations"
_NUMBER = r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_TEXT = r'"[^"\'\\\x00-\x1f\x7f]+"|\'[^"\'\\\x00-\x1f\x7f]+\''
_COMPARISON = rf"\s*(?:==|!=|>=|<=|>|<)\s*(?:{_NUMBER}|{_TEXT}|date\((?:{_TEXT})\))"
_WRITTEN = re.compile(rf'\s*col\("(?P<column>[^"]+)"\)(?:\.notnull\(\)|{_COMPARISON})\s*', re.ASCII)
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
_SETS = ("IN", "NOT_IN")
_MAX_CONDITIONS = 100
_NO_TEXT = re.compile(r"[\"'\\\x00-\x1f\x7f]")


def faults(kind: str, kwargs: Mapping[str, Any]) -> Iterator[str]:
    """One sentence per reason why an expectation cannot be used; none holds a value.

    Args:
        kind: The type of the expectation.
        kwargs: The arguments of the expectation.
    """
    if kind not in ARGUMENTS:
        yield f"is not used here: it {REFUSED[kind]}" if kind in REFUSED else "is none that the hub knows"
        return
    if unknown := sorted(set(kwargs) - ARGUMENTS[kind]):
        names = ", ".join(sorted(ARGUMENTS[kind]))
        yield f"takes {names}; not {', '.join(name if name.isidentifier() else 'what it is given' for name in unknown)}"
    for name in _COLUMNS:
        if name in kwargs and not _names(name, kwargs[name]):
            what = "is a column" if name in _ONE_COLUMN else "is a list of columns"
            yield f"{name} {what}, as price or payment.method"
    for name, value in kwargs.items():
        if name not in ("row_condition", *_COLUMNS) and not _is_constant(value):
            yield f"{name} is a constant, or a list of constants; parameters are not looked up"
    patterns, one = kwargs.get("regex_list", []), kwargs.get("regex", "")
    if not _is_pattern(one) or not isinstance(patterns, list) or not all(map(_is_pattern, patterns)):
        yield "takes patterns that RE2 compiles; it has no look-around and no back-references"
    if kwargs.get("row_condition") not in (None, "") and not _is_condition(kwargs):
        yield (
            'row_condition is one comparison, as col("price") > 5, col("status") == "NEW" or col("id").notnull(), with '
            f"condition_parser: {_PARSER}; or an object of Great Expectations: comparison, nullity, and, or"
        )


def is_column(value: object) -> bool:
    """Whether this names a column, or a field inside of one."""
    return isinstance(value, str) and _COLUMN.fullmatch(value) is not None


def _is_pattern(value: object) -> bool:
    """Whether RE2 compiles this; a suite's patterns meet values from edges, and have to be linear in them."""
    try:
        return isinstance(value, str) and full_matches(value, []) == []
    except ValueError:
        return False


def _names(argument: str, value: object) -> bool:
    if argument in _ONE_COLUMN:
        return is_column(value) or (argument == "column" and value == EVERY_TEXT)
    return isinstance(value, list) and bool(value) and all(map(is_column, value))


def _is_constant(value: object) -> bool:
    """JSON without a name that something would look up (`$PARAMETER`, `urn:great_expectations:…`)."""
    if isinstance(value, list):
        return all(map(_is_constant, value))
    if isinstance(value, dict):  # the ranges of quantiles
        return set(value) <= {"quantiles", "value_ranges"} and all(map(_is_constant, value.values()))
    return not (isinstance(value, str) and value.startswith("urn:"))


def _is_condition(kwargs: Mapping[str, Any]) -> bool:
    condition, parser = kwargs["row_condition"], kwargs.get("condition_parser")
    if isinstance(condition, str):
        written = _WRITTEN.fullmatch(condition) if parser == _PARSER else None
        return written is not None and is_column(written["column"])
    found = list(_leaves(condition))
    return parser in (None, _PARSER) and None not in found and 0 < len(found) <= _MAX_CONDITIONS


def _leaves(condition: object) -> Iterator[bool | None]:
    """True for each comparison that is one, None for whatever is not."""
    match condition:
        case {"type": "and" | "or", "conditions": [*several], **rest} if not rest and several:
            for one in several:
                yield from _leaves(one)
        case {"type": "nullity", "column": {"name": str(name), **more}, "is_null": bool(), **rest}:
            yield True if is_column(name) and not rest and not more else None
        case {"type": "comparison", "column": {"name": str(name), **more}, "operator": how, "parameter": with_, **rest}:
            fits = _compares(how, with_)
            yield True if is_column(name) and fits and not rest and not more else None
        case _:
            yield None


def _compares(operator: object, parameter: object) -> bool:
    if operator in _SETS:
        return isinstance(parameter, list) and bool(parameter) and all(map(_is_literal, parameter))
    return operator in _OPERATORS and _is_literal(parameter)


def _is_literal(value: object) -> bool:
    """Whether the library writes the value into SQL unchanged: a number, or a text that needs no escapes."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) or (isinstance(value, str) and not _NO_TEXT.search(value))
