"""`aggregator policy diff`: shows what a new version of a policy opens and closes, before it is deployed.

Invariant: the exit code is 3 if any rule is looser, or is not proved to be as strict, and 0 otherwise. A script can
tell this from a broken file (78) and from a defect (1).
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from aggregator.cli.policy.sources import FILE, required, schema_text
from aggregator.cli.terminal.output import emit, output_option, table
from aggregator.errors import ConfigError, DeadLetterError, ExitCode, HoldError, RetryError
from aggregator.escapes import visible
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import Policy, load_policy
from aggregator.privacy.policy.strictness import Strictness
from aggregator.privacy.review.diff import PolicyChange, WriterSchema, policy_changes
from aggregator.schema.registries import open_registry

if TYPE_CHECKING:
    from aggregator.plan.breaking_changes import Break

# Characters of a subject in an error.
_SHOWN = 100


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator policy diff old.yaml new.yaml --topic orders --schema orders.avsc\n"
    "  git show main:retail.yaml > /tmp/old.yaml && aggregator policy diff /tmp/old.yaml retail.yaml --schemas schemas"
)
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--schema", type=FILE, help="A writer's schema of --topic; its fields are compared.")
@click.option("--topic", help="Edge topic of --schema; with --schemas: this topic only.")
@click.option(
    "--schemas", metavar="REGISTRY", help="Every `<topic>-value` and `-key` of a registry: folder or address."
)
@click.option("--all", "everything", is_flag=True, help="Show what stays the same too.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="The present, for `expires`; today by default.")
@output_option
def diff(
    old: Path,
    new: Path,
    *,
    schema: Path | None,
    topic: str | None,
    schemas: str | None,
    today: Any,
    output: str,
    everything: bool,
) -> None:
    """Compare two versions of a policy: each rule as it is written, and each field of the given schemas.

    A line is looser, stricter, the same, or other: another key, another operator, a pattern that came or went. `other`
    counts as looser, because it is not proved to be as strict. A written rule is judged for whatever schemas may come.
    A later `expires` loosens the days between. Exit 3 if anything is looser. A topic whose readers at central could not
    follow is named, too.
    """
    from aggregator.plan.breaking_changes import breaking_changes

    before, after, day = load_policy(old), load_policy(new), today.date() if today else utc_today()
    found = _schemas(schema, topic, schemas)
    try:
        changes = policy_changes(before, after, found, day)
    except DeadLetterError as error:
        raise ConfigError(f"{schema or schemas}: {error.message}", hint=error.hint) from None
    loosened = any(change.verdict.loosens for change in changes)
    shown = [change for change in changes if everything or change.verdict is not Strictness.SAME]
    broken = list(breaking_changes(before, after, found, day))
    answer = _answer(before, after, shown, loosened=loosened) | {"breaking": [one._asdict() for one in broken]}
    emit(answer, output, lambda: [*_text(shown, loosened=loosened), *map(_broken, broken)])
    if loosened:
        raise SystemExit(ExitCode.PENDING)


def _schemas(schema: Path | None, topic: str | None, registry: str | None) -> list[WriterSchema]:
    found = []
    if schema is not None:
        required({"--topic": topic}, "it says whose schema that is")
        found.append(WriterSchema(topic or "", schema_text(schema)))
    if registry is not None:
        found += _of_registry(registry, topic)
        if not found:
            raise click.UsageError(f"--schemas holds no subject `{topic or '<topic>'}-value`")
    return found


def _of_registry(reference: str, wanted: str | None) -> Iterator[WriterSchema]:
    """Every version of every subject that is a topic's, or of one topic alone."""
    if not reference.startswith(("http://", "https://")):
        reference = f"directory:{Path(reference.removeprefix('directory:')).absolute()}"
    registry = open_registry(reference)
    for subject in registry.subjects():
        topic, _, part = unquote(subject).rpartition("-")
        if not topic or part not in ("value", "key") or wanted not in (None, topic):
            continue
        try:
            versions = {version: registry.history(subject, version.version) for version in registry.versions(subject)}
        except (DeadLetterError, HoldError, RetryError) as error:
            name = visible(subject)[:_SHOWN]
            raise ConfigError(
                f"{reference}: subject {name}: {error.message}", hint="compare the others by --topic, one at a time"
            ) from None
        for version, earlier in versions.items():
            yield WriterSchema(topic, version.text, "key" if part == "key" else "value", version.tags, tuple(earlier))


def _answer(old: Policy, new: Policy, changes: Sequence[PolicyChange], *, loosened: bool) -> dict[str, Any]:
    return {
        "old": {"policy": old.policy, "version": old.version, "hash": old.hash},
        "new": {"policy": new.policy, "version": new.version, "hash": new.hash},
        "loosened": loosened,
        "changes": [
            change._asdict() | {"verdict": change.verdict.value, "since": _day(change.since)} for change in changes
        ],
    }


def _broken(one: "Break") -> str:
    return (
        f"{one.topic}: readers of its new {one.part} schema cannot read what the old policy left"
        f" ({'; '.join(one.changes)}): where central has any of that, a running hub would hold the topic, until it has"
        " a new generation (docs/policy.md, When a change breaks readers)"
    )


def _day(since: date | None) -> str | None:
    return since.isoformat() if since else None


def _text(changes: Sequence[PolicyChange], *, loosened: bool) -> Iterator[str]:
    if changes:
        rows = [
            (
                change.topic,
                change.path,
                change.before,
                change.after,
                change.verdict.value,
                change.proof,
                _day(change.since) or "now",
            )
            for change in changes
        ]
        yield from table(("topic", "path", "before", "after", "verdict", "proof", "from"), rows)
    if not loosened:
        yield "nothing is looser"
        return
    yield "something is looser, or not proved to be as strict"
    yield "a running hub takes it with a word in the new version only (`loosens:`); a start takes it as it is"
