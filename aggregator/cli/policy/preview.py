"""`aggregator policy preview`: shows a few records before and after, through the real strip.

Invariant: nothing is written to central, to a registry or to a log. The original values are shown on a terminal only,
or when the user asks for them.
"""

import base64
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from aggregator.cli.policy.sources import FILE, TopicSample, edge_sample, file_sample, policy_of, required
from aggregator.cli.terminal.output import config_option, emit, is_given, output_option, table
from aggregator.config.load import load_config
from aggregator.config.secrets import KeyRing
from aggregator.count_text import format_count
from aggregator.machine_clock import utc_today
from aggregator.privacy import operators
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.policy.file import Policy, load_policy
from aggregator.privacy.policy.rules import key_name
from aggregator.privacy.review.fixtures import written_ring
from aggregator.privacy.review.preview import PreviewLine, previewed
from aggregator.schema.memory import MemoryRegistry

# The length of a key whose operator takes keys of any length.
_KEY_BYTES = 64


@dataclass(frozen=True, slots=True)
class _FileOptions:
    """The file with the records, and options for facts that the file does not hold."""

    records: Path | None
    schema: Path | None
    key: str | None
    headers: tuple[str, ...]


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator policy preview retail.yaml --topic orders --schema orders.avsc --records orders.jsonl\n"
    "  aggregator policy preview --config hub.yaml --edge eu --topic orders --count 2\n"
    "  aggregator policy preview next.yaml --config hub.yaml --edge eu --topic orders --hide-before"
)
@click.argument("policy", type=FILE, required=False)
@click.option("--topic", required=True, help="Edge topic; selects the policy's patterns.")
@click.option("--records", type=FILE, help="Records as JSON, one a line: plain JSON or Avro's JSON encoding.")
@click.option(
    "--schema",
    type=FILE,
    help="The writer's schema of --records; not for JSON, text and bytes.",
)
@click.option("--key", help="Record key of --records, as text.")
@click.option("--header", "headers", multiple=True, metavar="NAME=TEXT", help="Header of --records.")
@config_option
@click.option("--edge", help="Take the newest records of --topic on this edge.")
@click.option("--count", type=click.IntRange(1, 100), default=3, show_default=True, help="Records at most.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="Decides which `keep` has expired; today by default.")
@click.option("--hide-before", is_flag=True, help="Show types and lengths instead of the values before.")
@click.option("--show-values", is_flag=True, help="Show the values before even where stdout is no terminal.")
@output_option
def preview(
    policy: Path | None,
    *,
    topic: str,
    config: Path,
    edge: str | None,
    count: int,
    today: Any,
    output: str,
    hide_before: bool,
    show_values: bool,
    **files: Any,
) -> None:
    """Show a few records before and after, each through the strip that the hub runs.

    This prints personal data: the values before, because you ask for them, on your own terminal. Into a pipe or a file
    they are hidden unless --show-values is given; --hide-before hides them anywhere. Nothing is logged or registered.

    Without --edge and --config, tokens are made with keys for this one call. Pseudonymised data is still personal data.
    """
    hub = load_config(config, os.environ) if edge is not None or is_given("config") else None
    if edge is None or hub is None:
        sample = _from_file(_FileOptions(**files), policy, topic)
    else:
        sample, policy = edge_sample(hub, edge, topic, count), policy or policy_of(hub, edge, topic)
    assert policy is not None
    hide = hide_before or not (show_values or sys.stdout.isatty())
    sample = replace(sample, records=sample.records[:count])
    day = today.date() if today else utc_today()
    records = stripped(sample, load_policy(policy), hub.keys if hub else {}, day, edge=edge, hide=hide)
    answer = [[line._asdict() for line in record] for record in records]
    emit(answer, output, lambda: _text(records))


def stripped(
    sample: TopicSample, policy: Policy, key_rings: Mapping[str, KeyRing], today: date, *, edge: str | None, hide: bool
) -> list[list[PreviewLine]]:
    """Records before and after, through the strip of a run that registers nothing.

    Args:
        sample: The records.
        policy: The policy of the records' topic.
        key_rings: Key rings by name; where one is missing, one is made for this call.
        today: Decides which `keep` has expired.
        edge: The edge of the records.
        hide: Types and lengths instead of the values before.

    Raises:
        RetryError: a registry does not answer.
    """
    central = MemoryRegistry()
    strip = topic_strip(
        policy=policy,
        edge_topic=sample.topic,
        central_topic=sample.topic,
        edge_registry=sample.registry,
        central_registry=central,
        key_rings=_thrown(policy) | dict(key_rings),
        today=lambda: today,
        now_s=time.monotonic,
        edge=edge,
    )
    value_format = policy.view(sample.topic).value_format
    return previewed(sample.records, strip, sample.registry, central, value_format, hide=hide)


def _from_file(files: _FileOptions, policy: Path | None, topic: str) -> TopicSample:
    required({"POLICY": policy, "--records": files.records}, "or sample an edge with --edge")
    assert files.records is not None
    value_format = load_policy(policy).view(topic).value_format if policy else ValueFormat.JSON
    sample = file_sample(files.records, files.schema, topic, value_format)
    if any("=" not in header for header in files.headers):
        raise click.BadParameter("a header is NAME=TEXT", param_hint="--header")
    headers = [(name, text.encode()) for name, _, text in (header.partition("=") for header in files.headers)]
    key = None if files.key is None else files.key.encode()
    return replace(sample, records=tuple((key, value, list(headers)) for _, value, _ in sample.records))


def _thrown(policy: Policy) -> dict[str, KeyRing]:
    """A key for each name that the policy uses, for this call only."""
    rules = [*policy.tags.values()]
    for topic in policy.topics.values():
        rules += [*topic.fields.values(), *([topic.value] if topic.value else [])]
    exact = [(size, key_name(rule)) for rule in rules if (size := operators.key_bytes(rule)) is not None]
    lengths = {name: size for size, name in sorted(exact, reverse=True)}
    drawn = {name: secrets.token_bytes(lengths.get(name, _KEY_BYTES)) for name in sorted(policy.keys())}
    return {name: written_ring({1: base64.b64encode(key).decode()}) for name, key in drawn.items()}


def _text(records: list[list[PreviewLine]]) -> list[str]:
    lines = []
    for number, record in enumerate(records, 1):
        lines += [f"record {number}", *table(PreviewLine._fields, record), ""]
    return [*lines, format_count(len(records), "record")]
