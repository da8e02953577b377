"""Finds the records that fail rules and cuts them out of the staged files. It runs one Spark job, and only if a record
failed.

Invariant: a record is cut out once, with the names of all rules that it fails. The failures of each rule are counted
again and compared with Great Expectations' own count. If the two counts differ, nothing is diverted.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from aggregator.config.suites import Rule
from aggregator.errors import HoldError, RetryError
from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.cycle.task import decode_outcome, encode_outcome
from aggregator.lake.quality.conditions import fails_rule
from aggregator.lake.quality.dataframes import FILE, ROW, view, with_row_location
from aggregator.lake.quality.split import Files, Split
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.staging import discard

_RULE = "_failed_rule"
_ANSWER = "answer string"


@dataclass(frozen=True, slots=True)
class Diverted:
    """Describes what the diversion of one commit staged.

    Attributes:
        halves: By path of the file that was cut: what stays, and what goes.
        counts: Failing values by rule; a rule about a view fails once per element.
    """

    halves: Mapping[str, tuple[Files, Files]]
    counts: Mapping[str, int]

    def drop(self, split: Split) -> None:
        """Remove what was staged, because no commit will name it."""
        for stays, goes in self.halves.values():
            discard(split.folder, [file.path for file in stays])
            discard(split.quarantine, [file.path for file in goes])


def divert(
    frame: DataFrame, rules: Sequence[Rule], views: Mapping[str, str], files: Sequence[StagedFile], split: Split
) -> Diverted:
    """Cut every record that fails one of the rules out of its file.

    Args:
        frame: The records of the files.
        rules: Those that failed, each about one column.
        views: Of the suites.
        files: The commit's.
        split: How a file is cut.

    Raises:
        RetryError: Spark could not run it, or a folder cannot be written; nothing of it is in any table.
        HoldError: the records do not fit the quarantine.
    """
    by_name = {Path(file.path).name: file for file in files}

    def body(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return pa.table({"answer": [_answer(split, by_name[key[0].as_py()], rows)]})

    try:
        found = _failures(with_row_location(frame), rules, views).groupBy(FILE).applyInArrow(body, _ANSWER).collect()
    except Exception as error:  # noqa: BLE001 - py4j, Connect and PySpark raise unrelated families
        raise RetryError(
            f"the failing records could not be cut out: the Spark job failed ({type(error).__name__})",
            hint="the executors' log says why; the next cycle tries again",
        ) from None
    answers = [json.loads(row["answer"]) for row in found]
    diverted = _diverted(answers)
    for one in answers:
        if "error" in one:
            diverted.drop(split)
            kind, message, hint = one["error"]
            raise HoldError(message, hint=hint) if kind == "hold" else RetryError(message, hint=hint)
    return diverted


def _failures(frame: DataFrame, rules: Sequence[Rule], views: Mapping[str, str]) -> DataFrame:
    """One row per failing value: its file, its row there, its rule."""
    by_view: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_view[rule.view].append(rule)
    parts = []
    for name, mine in by_view.items():
        failed = F.array_compact(F.array(*(F.when(fails_rule(rule), F.lit(rule.name)) for rule in mine)))
        rows = view(frame, views, name).select(FILE, ROW, failed.alias(_RULE))
        parts.append(rows.select(FILE, ROW, F.explode(_RULE).alias(_RULE)))
    return reduce(DataFrame.union, parts)


def _answer(split: Split, file: StagedFile, rows: pa.Table) -> str:
    """Cut one file and tell it as JSON, which is what Spark carries back."""
    names: dict[int, set[str]] = defaultdict(set)
    pairs = list(zip(rows.column(ROW).to_pylist(), rows.column(_RULE).to_pylist(), strict=True))
    for row, name in pairs:
        names[row].add(name)
    try:
        stays, goes = split.cut(file, {row: sorted(mine) for row, mine in names.items()})
    except HoldError as error:
        return json.dumps({"error": ["hold", error.message, error.hint]})
    except Exception as error:  # noqa: BLE001 - a library's text may quote a value, so only the kind of error travels
        message = f"the failing records could not be cut out ({type(error).__name__})"
        hint = "check the disk, its space and the rights on the folder; the next cycle tries again"
        return json.dumps({"error": ["retry", message, hint]})
    counts = Counter(name for _, name in pairs)
    halves = [encode_outcome(StagingOutcome((), half)) for half in (stays, goes)]
    return json.dumps({"file": file.path, "halves": halves, "counts": counts})


def _diverted(answers: Sequence[Mapping[str, Any]]) -> Diverted:
    counts: Counter[str] = Counter()
    halves: dict[str, tuple[Files, Files]] = {}
    for one in answers:
        if "error" in one:
            continue
        counts.update(one["counts"])
        stays, goes = (decode_outcome(half).files for half in one["halves"])
        halves[one["file"]] = (stays, goes)
    return Diverted(halves, counts)
