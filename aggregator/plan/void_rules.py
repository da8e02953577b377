"""Finds rules of a policy that no field can use, for example an operator for texts on a number. Such a field is
dropped.

Invariant: rules are judged by the newest schemas of registries that are folders, so nothing is connected to. A path
with a wildcard, or the path of a record, may meet such fields by accident, and is not judged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.errors import DeadLetterError, HoldError, RetryError
from aggregator.plan.schemas import NewestSchema, newest_schemas_of
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.plan import Row
from aggregator.privacy.policy.file import Policy
from aggregator.schema.registries import open_registry

_VALUE = "-value"
_FOLDER = "directory:"
_NULL = "null"


def void_rules(config: HubConfig, policies: Mapping[Path, Policy], today: date) -> Iterator[str]:
    """One line each: policy file, topic, path, operator, and the types that it does not take.

    Args:
        config: The hub.
        policies: Policies of its rules, by path.
        today: Decides which `keep` has expired.
    """
    lines: dict[str, None] = {}
    for edge, settings in config.edges.items():
        if (settings.schemas or "").startswith(_FOLDER):
            lines |= dict.fromkeys(_at_edge(config, policies, edge, today))
    yield from lines


def _at_edge(config: HubConfig, policies: Mapping[Path, Policy], edge: str, today: date) -> Iterator[str]:
    try:
        subjects = open_registry(config.edges[edge].schemas or "").subjects()
        topics = [name.removesuffix(_VALUE) for name in subjects if name.endswith(_VALUE)]
        both = [one for one in newest_schemas_of(config, policies, edge, topics) if isinstance(one, NewestSchema)]
        found = [writer for writer in both if writer.subject.endswith(_VALUE)]
    except (RetryError, HoldError):
        return
    files = {policy.hash: path for path, policy in policies.items()}
    for writer in found:
        try:
            rows = writer.plan(today).rows
        except (DeadLetterError, HoldError):
            continue  # `plan` reports what is wrong with it
        path = files[writer.scope.policy[2]]
        yield from (f"{path}: topic {writer.topic}: {line}" for line in _void(writer, rows))


def _void(writer: NewestSchema, rows: Sequence[Row]) -> Iterator[str]:
    by_path: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.type != _NULL:
            by_path[row.path].append(row)
    for item in writer.scope.rules:
        met = by_path.get(item.path, [])
        operator = item.rule.operator
        if met and not isinstance(item.rule, Keep | Drop) and all(_is_void(row, operator) for row in met):
            types = " or ".join(dict.fromkeys(row.type for row in met))
            yield f"{operator} does not take {item.path}, which is {types}: the field is dropped"


def _is_void(row: Row, operator: str) -> bool:
    return row.operator == "drop" and f"{operator} does not take" in row.because
