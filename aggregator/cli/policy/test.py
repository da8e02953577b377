"""`aggregator policy test`: runs the fixtures beside a policy through the real strip.

Invariant: a failed expectation is reported by its path, and values are shown only on request. The exit code is 1 if an
expectation fails.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from aggregator.cli.policy.sources import FILE
from aggregator.cli.terminal.output import emit, output_option
from aggregator.errors import ConfigError, ExitCode
from aggregator.privacy.review.fixture_expectations import Mismatch
from aggregator.privacy.review.fixtures import Fixtures, fixture_files


class _Result(NamedTuple):
    file: Path
    name: str
    mismatches: tuple[Mismatch, ...]


@click.command(
    "test",
    epilog="\b\nExamples:\n"
    "  aggregator policy test policies/retail.yaml\n"
    "  aggregator policy test policies/retail.yaml --fixtures more.yaml --show-values",
)
@click.argument("policies", type=FILE, nargs=-1, required=True)
@click.option("--fixtures", type=FILE, multiple=True, help="Fixture files, instead of those beside the policy.")
@click.option("--show-values", is_flag=True, help="Show what was expected and what came out.")
@output_option
def test(policies: tuple[Path, ...], fixtures: tuple[Path, ...], output: str, *, show_values: bool) -> None:
    """Run the fixtures beside policies: `retail.tests.yaml` and `retail.tests/*.yaml` for `retail.yaml`.

    Each names a topic, a schema, a record, and what must become of it: exactly this record, a reason of rejection, or
    suppression. Exit 1 if an expectation fails.
    """
    results = [result for policy in policies for file in _files(policy, fixtures) for result in _results(file, policy)]
    emit(_answer(results, values=show_values), output, lambda: _text(results, values=show_values))
    if any(result.mismatches for result in results):
        raise SystemExit(ExitCode.FAILED)


def _files(policy: Path, named: tuple[Path, ...]) -> list[Path]:
    files = list(named) or fixture_files(policy)
    if not files:
        raise ConfigError(
            f"{policy}: there are no fixtures beside it",
            hint=f"write {policy.stem}.tests{policy.suffix}; `aggregator policy preview` shows what it does",
        )
    return files


def _results(file: Path, policy: Path) -> Iterator[_Result]:
    fixtures = Fixtures(file, policy)
    for number, case in enumerate(fixtures.cases):
        yield _Result(file, case.name, tuple(fixtures.run(number)))


def _answer(results: list[_Result], *, values: bool) -> dict[str, Any]:
    hidden = None if values else {"expected", "found"}
    return {
        "passed": sum(not result.mismatches for result in results),
        "failed": sum(bool(result.mismatches) for result in results),
        "tests": [
            {
                "file": str(result.file),
                "name": result.name,
                "mismatches": [mismatch.model_dump(exclude=hidden) for mismatch in result.mismatches],
            }
            for result in results
        ],
    }


def _text(results: list[_Result], *, values: bool) -> Iterator[str]:
    for result in results:
        for mismatch in result.mismatches:
            yield f"{result.file}: {result.name}: {mismatch.path}: {mismatch.why}"
            if values and mismatch.expected:
                yield f"    expected {json.loads(mismatch.expected)!r}"
            if values and mismatch.found:
                yield f"    found    {json.loads(mismatch.found)!r}"
    failed = sum(bool(result.mismatches) for result in results)
    yield f"{len(results) - failed} passed, {failed} failed"
