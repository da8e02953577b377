"""`aggregator policy suggest`: what in a sample looks like personal data, and what a policy could say of it.

Invariant: paths, shares and rules are printed, never a value.
"""

import os
from pathlib import Path
from typing import Any

import click

from aggregator.cli.policy.sources import FILE, Sample, edge_sample, file_sample, required
from aggregator.cli.terminal.output import CONFIG_ENVIRONMENT, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.errors import DeadLetterError
from aggregator.privacy.policy.suggest import Suggestion, as_yaml, evidence, suggestions
from aggregator.schema.plain_json import decoded
from aggregator.schema.registry import Registry
from aggregator.schema.wire import split


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator policy suggest --topic orders --schema orders.avsc --records orders.jsonl\n"
    "  aggregator policy suggest --config hub.yaml --edge eu --topic orders --count 5000"
)
@click.option("--topic", required=True, help="Edge topic.")
@click.option("--records", type=FILE, help="Records as JSON, one a line: plain JSON or Avro's JSON encoding.")
@click.option("--schema", type=FILE, help="The writer's schema of --records.")
@click.option("--config", type=FILE, envvar=CONFIG_ENVIRONMENT, help="The hub's configuration, for --edge.")
@click.option("--edge", help="Look at the newest records of --topic on this edge.")
@click.option("--count", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Records at most.")
@click.option("--key-name", default="customer", show_default=True, help="Name of the key in the suggested rules.")
@output_option
def suggest(
    *,
    topic: str,
    records: Path | None,
    schema: Path | None,
    config: Path | None,
    edge: str | None,
    count: int,
    key_name: str,
    output: str,
) -> None:
    """Look for personal data in a sample: e-mail addresses, phone numbers, cards, IBANs, tokens, names.

    Prints the share of values in which each detector found something, and rules to paste into a policy. No value is
    shown. A sample proves what is there, never that nothing else is: what has no rule is dropped anyway.
    """
    if edge is None:
        required({"--records": records, "--schema": schema}, "or sample an edge with --config and --edge")
        assert records is not None
        assert schema is not None
        sample = file_sample(records, schema, topic)
    elif config is None:
        raise click.UsageError("--config is missing; it says where the edge is")
    else:
        sample = edge_sample(load_config(config, os.environ), edge, topic, count)
    found, unread = _found(sample, count, key_name)
    answer = {
        "topic": topic,
        "records": len(sample.records[:count]),
        "unreadable": unread,
        "suggestions": [one._asdict() for one in found],
        "yaml": "\n".join(as_yaml(topic, found)),
    }
    emit(answer, output, lambda: _text(answer, found))


def _found(sample: Sample, count: int, key: str) -> tuple[list[Suggestion], int]:
    """Suggestions over all schemas of the sample, the first of each path, and how many records could not be read."""
    by_schema: dict[str, list[Any]] = {}
    unread = 0
    for _, value, _ in sample.records[:count]:
        try:
            text, record = _record(value, sample.registry) if value is not None else ("", None)
        except (DeadLetterError, ValueError, IndexError, EOFError, KeyError, OverflowError, MemoryError):
            unread += 1
        else:
            by_schema.setdefault(text, []).append(record)
    found: dict[str, Suggestion] = {}
    for text, records in by_schema.items():
        for one in suggestions(text, records, key=key) if text else ():
            found.setdefault(one.path, one)
    return list(found.values()), unread


def _record(value: bytes, registry: Registry) -> tuple[str, Any]:
    schema_id, body = split(value)
    text = registry.schema(schema_id)
    return text, decoded(text, body)


def _text(answer: dict[str, Any], found: list[Suggestion]) -> list[str]:
    rows = [(one.path or ".", one.values, one.tag, evidence(one)) for one in found]
    head = [f"{answer['records']:,} records of {answer['topic']}, {answer['unreadable']:,} of them unreadable", ""]
    return [
        *head,
        *table(("path", "values", "tag", "because"), rows),
        "",
        "# under `topics:` of the policy",
        *answer["yaml"].split("\n"),
    ]
