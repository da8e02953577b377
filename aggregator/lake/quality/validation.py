"""Runs Great Expectations on Spark. No other module imports that library; it is loaded once, in the driver's process
only.

Invariant: only three things are taken from a result: whether it passed, whether it raised, and counts. Texts of
exceptions, observed values and samples are never read, because they may be somebody's data. Nothing is persisted,
nothing leaves the machine, and no context is made per commit.
"""

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from aggregator.config.expectations import EVERY_TEXT
from aggregator.config.suites import Rule
from aggregator.errors import ConfigError
from aggregator.lake.quality.dataframes import text_columns, view
from aggregator.lake.quality.verdicts import RuleFinding

# The default format copies failing values into results. A count of zero keeps them out.
_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}


class _Library(NamedTuple):
    suite: Any
    configuration: Any
    batches: Any


@cache
def _library() -> _Library:
    """Import it and make the one context; three seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    silent = logging.getLogger("great_expectations")  # its log lines may quote values
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library imports features that Python deprecates
        import great_expectations  # noqa: PLC0415 - a lake without suites does not pay for it
        from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415
        from great_expectations.expectations.expectation_configuration import ExpectationConfiguration  # noqa: PLC0415

        # These imports register the hub's own expectation, and conditions that replace the library's.
        from aggregator.lake.quality import patterns, personal  # noqa: F401, PLC0415

    context = great_expectations.get_context(mode="ephemeral")
    context.enable_analytics(enable=False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_spark("staged", persist=False)
    batches = source.add_dataframe_asset("commit").add_batch_definition_whole_dataframe("whole")
    return _Library(great_expectations.ExpectationSuite, ExpectationConfiguration, batches)


def check(table: str, rules: Sequence[Rule]) -> None:
    """Build every expectation once, before the first commit needs it.

    Raises:
        ConfigError: Great Expectations does not know one, or refuses its arguments.
    """
    for rule in rules:
        try:
            _built(rule)
        except Exception as error:  # noqa: BLE001 - pydantic's, marshmallow's and its own errors have no family
            raise ConfigError(
                f"lake.tables.{table}.quality: Great Expectations refuses {rule.name} ({type(error).__name__})",
                hint=f"compare its type and its kwargs with Great Expectations' page of {rule.type}",
            ) from None


def validate(frame: DataFrame, rules: Sequence[Rule], views: Mapping[str, str]) -> list[RuleFinding]:
    """Evaluate rules over the records of one commit; each has one finding.

    Args:
        frame: The records.
        rules: Rules of all suites of the table.
        views: Views of the same suites.
    """
    findings: list[RuleFinding] = []
    for name in sorted({rule.view for rule in rules}):
        mine = [rule for rule in rules if rule.view == name]
        try:
            rows = view(frame, views, name)
            asked = [one for rule in mine for one in _spelled_out(rule, text_columns(rows, name))]
            findings += _validate(rows, asked) if asked else []
        except Exception as error:  # noqa: BLE001 - Spark's and the library's errors have no common family
            findings += [RuleFinding(rule, passed=False, raised=True, note=type(error).__name__) for rule in mine]
    return findings


def _spelled_out(rule: Rule, columns: Sequence[str]) -> list[Rule]:
    """A rule about every text, as one rule per column."""
    if rule.column != EVERY_TEXT:
        return [rule]
    return [
        replace(rule, name=f"{rule.name}({column})", kwargs={**rule.kwargs, "column": column}) for column in columns
    ]


def _validate(rows: DataFrame, rules: Sequence[Rule]) -> list[RuleFinding]:
    library = _library()
    suite = library.suite(name="commit", expectations=[_built(rule, mark=str(at)) for at, rule in enumerate(rules)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as in `_built`
        done = library.batches.get_batch({"dataframe": rows}).validate(suite, result_format=_FORMAT)
    found = {one.expectation_config.meta["rule"]: one for one in done.results}
    return [_finding(rule, found.get(str(at)), rows) for at, rule in enumerate(rules)]


def _built(rule: Rule, mark: str = "") -> Any:
    configured = _library().configuration(type=rule.type, kwargs=dict(rule.kwargs), meta={"rule": mark})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the library prefers a row_condition that is an object
        return configured.to_domain_obj()


def _finding(rule: Rule, result: Any, rows: DataFrame) -> RuleFinding:
    if result is None or _raised(result.exception_info):
        missing = rule.column and rule.column.partition(".")[0] not in rows.columns
        return RuleFinding(rule, passed=False, raised=True, note=f"there is no column {rule.column}" if missing else "")
    counts = result.result or {}
    nulls = counts.get("missing_count") or 0
    evaluated = counts.get("element_count")
    return RuleFinding(
        rule,
        passed=bool(result.success),
        evaluated=None if evaluated is None else evaluated - nulls,
        unexpected=counts.get("unexpected_count"),
    )


def _raised(info: Mapping[str, Any] | None) -> bool:
    """One exception, or a mapping of the metrics that raised."""
    return info is not None and bool(info) and bool(info.get("raised_exception", True))
