"""Reads a suite of expectations from the JSON that Great Expectations writes, without Great Expectations.

Invariant: everything that the hub must know before it starts is known after reading. It knows what happens to records
that fail a rule, and that this is possible. It also knows that no part of the suite is code. A rule that must divert
records but cannot name them is refused: failing records are found again only for the conditions in DIVERTIBLE.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from aggregator.config.expectations import EVERY_TEXT, NO_PERSONAL_DATA, faults, is_column
from aggregator.regular_files import read_text

Action = Literal["hold", "divert", "warn"]
# Conditions on single values; `lake/quality/conditions.py` implements each of them.
DIVERTIBLE = frozenset(
    {
        NO_PERSONAL_DATA,
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_be_null",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_not_match_regex_list",
    }
)
_OURS = "aggregator"
_NAMES_IN_RULES = frozenset({"name", "on_failure", "view"})
_NAMES_IN_SUITES = frozenset({"views"})


@dataclass(frozen=True, slots=True)
class Rule:
    """Describes one expectation of a suite.

    Attributes:
        name: `<suite>/<rule>`; what reports, history and quarantine call it.
        type: Great Expectations' name of the condition.
        kwargs: The arguments of the condition.
        action: The action after a failure.
        view: The view that it speaks of; empty for the records themselves.
    """

    name: str
    type: str
    kwargs: Mapping[str, Any]
    action: Action
    view: str = ""

    @property
    def column(self) -> str:
        """The column that it speaks of; empty for a rule about the table or several columns."""
        return str(self.kwargs.get("column", ""))


@dataclass(frozen=True, slots=True)
class Suite:
    """Holds the rules of one file.

    Attributes:
        name: The name that the file gives.
        rules: The rules in the order of the file.
        views: Path of the array or map whose elements are the rows, by view; a path may begin with another view.
        fingerprint: The fingerprint of the file's text.
    """

    name: str
    rules: tuple[Rule, ...]
    views: Mapping[str, str]
    fingerprint: str

    @property
    def diverts(self) -> bool:
        """Whether a failure can send records into the quarantine."""
        return any(rule.action == "divert" for rule in self.rules)


class SuiteFaults(ValueError):
    """Everything that is wrong with a suite, a sentence each; none quotes more than the suite's own names."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def load_suite(path: Path, on_failure: Action) -> Suite:
    """Read one suite from a file.

    Args:
        path: The path of a JSON file.
        on_failure: The action of a failed rule that names none itself. Rules of severity `warning` or `info` only ever
            warn.

    Raises:
        SuiteFaults: it cannot be used.
    """
    try:
        text = read_text(path)
        data = json.loads(text)
    except (OSError, UnicodeDecodeError):
        raise SuiteFaults(["there is no such text file (relative paths are relative to this file)"]) from None
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SuiteFaults([f"{path.name} is not JSON{place}"]) from None
    faults = list(_suite_faults(data))
    if faults:
        raise SuiteFaults([f"{path.name}: {fault}" for fault in faults])
    views = _ours(data).get("views", {})
    rules = _rules(data["name"], data["expectations"], on_failure)
    faults = [fault for rule in rules for fault in _rule_faults(rule, views)]
    if faults:
        raise SuiteFaults([f"{path.name}: {fault}" for fault in faults])
    return Suite(data["name"], rules, views, hashlib.sha256(text.encode()).hexdigest()[:16])


def _ours(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The hub's part of a suite or a rule: Great Expectations leaves `meta` to its users."""
    found = (part.get("meta") or {}).get(_OURS, {})
    return found if isinstance(found, dict) else {}


def _suite_faults(data: Any) -> Iterator[str]:
    if not isinstance(data, dict) or not isinstance(data.get("name"), str) or not data["name"]:
        yield "is no suite: a JSON object with `name` and `expectations`, as Great Expectations 1.x writes it"
        return
    expectations = data.get("expectations")
    if not isinstance(expectations, list) or not expectations:
        yield "has no expectations; a table without rules needs no suite"
        return
    yield from _views_faults(data)
    for number, one in enumerate(expectations, 1):
        if not isinstance(one, dict) or not isinstance(one.get("type"), str) or not isinstance(one.get("kwargs"), dict):
            yield f"expectation {number} has no `type` and `kwargs`; Great Expectations before 1.0 wrote others"
            continue
        said = _ours(one)
        if unknown := sorted(set(said) - _NAMES_IN_RULES):
            yield f"expectation {number}: meta.{_OURS} knows {_listed(_NAMES_IN_RULES)}, not {_listed(unknown)}"
        if said.get("on_failure", "hold") not in get_args(Action):
            yield f"expectation {number}: on_failure is {_listed(get_args(Action))}"


def _views_faults(data: Mapping[str, Any]) -> Iterator[str]:
    said = _ours(data)
    if unknown := sorted(set(said) - _NAMES_IN_SUITES):
        yield f"meta.{_OURS} knows {_listed(_NAMES_IN_SUITES)}, not {_listed(unknown)}"
    views = said.get("views", {})
    if not isinstance(views, dict) or not all(isinstance(path, str) and path for path in views.values()):
        yield f"meta.{_OURS}.views gives each view the path of an array or a map"
        return
    if not all(map(is_column, (*views, *views.values()))):
        yield f"meta.{_OURS}.views has names and paths of letters, digits, underscores and dots"
        return
    for name in views:
        seen, at = {name}, name
        while (below := views[at].partition(".")[0]) in views and below != at:
            if below in seen:
                yield f"view {name} rests on itself"
                break
            seen.add(below)
            at = below


def _rules(suite: str, expectations: Sequence[Mapping[str, Any]], on_failure: Action) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    names: Counter[str] = Counter()
    for one in expectations:
        said, kwargs = _ours(one), one["kwargs"]
        name = said.get("name") or f"{one['type']}({kwargs.get('column', '')})"
        names[name] += 1
        name = name if names[name] == 1 else f"{name} {names[name]}"
        # A severity is Great Expectations' own word for how bad a failure is.
        action: Action = said.get("on_failure", on_failure) if one.get("severity", "critical") == "critical" else "warn"
        rules.append(Rule(f"{suite}/{name}", one["type"], kwargs, action, said.get("view", "")))
    return tuple(rules)


def _rule_faults(rule: Rule, views: Mapping[str, str]) -> Iterator[str]:
    if rule.view and rule.view not in views:
        yield f"{rule.name}: there is no view {rule.view} under meta.{_OURS}.views"
    if rule.column == EVERY_TEXT and rule.type != NO_PERSONAL_DATA:
        yield f"{rule.name}: only {NO_PERSONAL_DATA} takes every column; name one"
    yield from (f"{rule.name}: {rule.type} {fault}" for fault in faults(rule.type, rule.kwargs))
    if rule.action != "divert":
        return
    if rule.type not in DIVERTIBLE:
        yield (
            f"{rule.name} cannot divert: a result of {rule.type} names no records, and this condition is not one that "
            f"the hub evaluates again; say on_failure hold or warn for it, or take one of {_listed(DIVERTIBLE)}"
        )
    elif rule.kwargs.get("row_condition"):
        yield f"{rule.name} cannot divert: the hub does not evaluate its row_condition again; say hold or warn for it"


def _listed(names: Iterator[str] | frozenset[str] | Sequence[str]) -> str:
    return ", ".join(sorted(names))
