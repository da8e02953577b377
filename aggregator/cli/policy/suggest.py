"""`aggregator policy suggest`: finds values in a sample that look like personal data, and suggests rules for a policy.

Invariant: paths, shares and rules are printed, never a value.
"""

import logging
import os
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click

from aggregator.cli.policy.sources import FILE, TopicSample, edge_sample, file_sample, required, ruled_topics
from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.count_text import format_count
from aggregator.errors import DeadLetterError
from aggregator.escapes import text_or_none
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.review.sniff import json_of, schema_of, sniffed
from aggregator.privacy.review.suggest import (
    HEADERS,
    KEY,
    Suggestion,
    as_yaml,
    evidence,
    json_suggestions,
    scalars,
    suggestions,
    whole_suggestion,
)
from aggregator.schema.plain_json import decoded
from aggregator.schema.registry import Registry

log = logging.getLogger(__name__)
_NEEDS_KEY = (
    "# the key stands under `keys:` of hub.yaml, as a reference; the command `openssl rand -base64 32` draws one"
)
_UNREADABLE = (DeadLetterError, ValueError, IndexError, EOFError, KeyError, OverflowError, MemoryError)


class _Found(NamedTuple):
    """Holds what a sample shows of one topic.

    Attributes:
        value_format: The format of the values.
        suggestions: Suggestions for all parts of the values.
        unreadable: Values that are not in that format.
    """

    value_format: ValueFormat
    suggestions: list[Suggestion]
    unreadable: int


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator policy suggest --topic orders --schema orders.avsc --records orders.jsonl\n"
    "  aggregator policy suggest --edge eu --topic orders --count 5000\n"
    "  aggregator policy suggest --edge eu"
)
@click.option("--topic", help="Edge topic; without it every topic of --edge that a rule reads.")
@click.option("--records", type=FILE, help="Records as JSON, one a line: plain JSON or Avro's JSON encoding.")
@click.option("--schema", type=FILE, help="The writer's schema of --records; without it they are JSON.")
@config_option
@click.option("--edge", help="Look at the newest records of this edge.")
@click.option("--count", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Records at most.")
@click.option("--key-name", default="customer", show_default=True, help="Name of the key in the suggested rules.")
@output_option
def suggest(
    *,
    topic: str | None,
    records: Path | None,
    schema: Path | None,
    config: Path,
    edge: str | None,
    count: int,
    key_name: str,
    output: str,
) -> None:
    """Look for personal data in a sample: e-mail addresses, phone numbers, cards, IBANs, tokens, uuids, names.

    Values may be Avro, JSON or text; keys and headers are looked at too. Prints the share of values in which each
    detector found something, and rules to paste into a policy. No value is shown. A sample proves what is there, never
    that nothing else is: what has no rule is dropped anyway.
    """
    if edge is None:
        required({"--records": records, "--topic": topic}, "or sample an edge with --edge")
        assert records is not None
        assert topic is not None
        answers = [_answer(file_sample(records, schema, topic), count, key_name)]
    else:
        hub = load_config(config, os.environ)
        named = ruled_topics(hub, edge) if topic is None else [topic]
        answers = [_answer(edge_sample(hub, edge, one, count), count, key_name) for one in named]
    emit(answers[0] if topic is not None else answers, output, lambda: [*chain.from_iterable(map(_lines, answers))])


def _answer(sample: TopicSample, count: int, key: str) -> dict[str, Any]:
    seen = _found(sample, count, key)
    return {
        "topic": sample.topic,
        "records": len(sample.records[:count]),
        "format": seen.value_format.value,
        "unreadable": seen.unreadable,
        "suggestions": [one._asdict() for one in seen.suggestions],
        "yaml": "\n".join(as_yaml(sample.topic, seen.suggestions, seen.value_format)),
    }


def _found(sample: TopicSample, count: int, key: str) -> _Found:
    """Suggestions for values, keys and headers."""
    records = sample.records[:count]
    values = [(value, list(headers or ())) for _, value, headers in records if value is not None]
    value_format = sniffed(values, sample.registry, has_schema=False).value_format or ValueFormat.AVRO
    contents = [value for value, _ in values]
    unreadable = 0
    found: list[Suggestion] = []
    if value_format is ValueFormat.AVRO:
        found, unreadable = _avro(values, sample.registry, key)
    elif value_format is ValueFormat.JSON:
        found = json_suggestions([json_of(value) for value in contents], key=key)
    elif value_format is ValueFormat.TEXT:
        whole = whole_suggestion([value.decode() for value in contents], key=key)
        found = [whole] if whole else []
    keys = [
        one for record_key, _, _ in records if record_key is not None for one in _words(record_key, sample.registry)
    ]
    of_key = whole_suggestion(keys, key=key, place=KEY)
    named = [{name: text_or_none(text) for name, text in headers} for _, _, headers in records if headers]
    of_headers = json_suggestions(named, key=key, place=HEADERS) if named else []
    return _Found(value_format, [*found, *([of_key] if of_key else []), *of_headers], unreadable)


def _avro(values: list[Any], registry: Registry, key: str) -> tuple[list[Suggestion], int]:
    """Over all schemas of the sample, the first of each path; and how many values could not be read."""
    by_schema: dict[str, list[Any]] = {}
    unread = 0
    for value, headers in values:
        try:
            named = schema_of(value, headers, registry)
            record = None if named is None else decoded(*named)
        except _UNREADABLE:
            named = None
        if named is None:
            unread += 1
        else:
            by_schema.setdefault(named[0], []).append(record)
    found: dict[str, Suggestion] = {}
    for text, read in by_schema.items():
        try:
            of_one = suggestions(text, read, key=key)
        except DeadLetterError as error:
            log.warning("%s of its schema: %s", format_count(len(read), "record"), error.message)
            unread += len(read)
            continue
        for one in of_one:
            found.setdefault(one.path, one)
    return list(found.values()), unread


def _words(record_key: bytes, registry: Registry) -> list[str | int]:
    """The readable parts of a record key: the parts of an Avro key, or a whole text."""
    try:
        named = schema_of(record_key, [], registry)
        if named is not None:
            return list(scalars(named[0], decoded(*named)))
        return [record_key.decode()]
    except _UNREADABLE:
        return []


def _lines(answer: dict[str, Any]) -> list[str]:
    found = [Suggestion(**one) for one in answer["suggestions"]]
    rows = [(one.place, one.path or ".", one.values, one.tag, evidence(one)) for one in found]
    read = f"{format_count(answer['records'], 'record')} of {answer['topic']} ({answer['format']})"
    head = f"{read}, {answer['unreadable']:,} of them unreadable"
    if not found:
        return [head, "nothing in them looks like personal data; what has no rule is dropped all the same", ""]
    return [
        head,
        "",
        *table(("place", "path", "values", "tag", "because"), rows),
        "",
        "# under `topics:` of the policy; if the topic stands there already, these lines belong into its entry",
        *answer["yaml"].split("\n"),
        *([_NEEDS_KEY] if "{key: " in answer["yaml"] else []),
        "",
    ]
